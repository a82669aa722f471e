// Writes the table of docs/reference/postgresql-versions.md: what the last run of each stage
// `versions-…` has found, at whichever commit. The rest of the page is written by hand.
import { withRows } from "../reference/rows.ts";
import { type Done, type Recorded } from "./run.ts";
import { MAJORS, VERSION_FIGURES } from "./stages.ts";

const NOT_RUN = "not run";
/** Rows of the table. A figure that is not here has its own name. */
const TITLES: Readonly<Record<string, string>> = {
  postgres: "server",
  from: "source of the server",
  conformance: "conformance suite",
  executions: "named executions",
  wire: "PostgreSQL wire",
  rounds: "failover rounds",
  chaos: "slice of chaos",
  skipped: "skipped tests",
};

/** The page with the table that the record gives. */
export function versionsPage(current: string, record: Recorded): string {
  const columns = MAJORS.map((major) => record[`versions-${major}`] ?? null);
  const rows = [
    ["command", ...MAJORS.map((major) => `\`make versions PG=${major}\``)],
    ["result", ...columns.map(resultOf)],
    ["commit", ...columns.map((done) => (done === null ? "" : `\`${done.commit.slice(0, 12)}\``))],
    ["date", ...columns.map((done) => done?.startedAt.slice(0, 10) ?? "")],
    ...VERSION_FIGURES.split(" ").map((name) => [
      TITLES[name] ?? name,
      ...columns.map((done) => cellOf(done, name)),
    ]),
  ];
  return withRows(
    current,
    rows.map((cells) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`),
  );
}

function resultOf(done: Done | null): string {
  if (done === null) return NOT_RUN;
  return done.result === "passed" ? "passed" : `**FAILED**: ${done.reason ?? ""}`;
}

/** A part that a broken run did not reach has not been run. */
function cellOf(done: Done | null, name: string): string {
  if (done === null) return NOT_RUN;
  const value = done.figures.find((figure) => figure.name === name)?.value;
  return value ?? (name === "skipped" ? "none" : NOT_RUN);
}
