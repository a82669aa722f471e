// docs/verification.md: what was run, at which commit, and what came of it.
import { type Done, readDone } from "./run.ts";
import type { Stage } from "./stages.ts";

const HEAD = `# Verification

\`make verify\` runs what takes hours and is not part of CI, and writes this page. [reliability.md](reliability.md) says what each program
looks for. The commit of a stage is the last one that changed something that the stage runs.

* **not run**: the stage has not ended at its commit.
* **missed a bar**: a benchmark has measured everything, and a figure is behind its bar on this machine. This is no failure. The sign is
  that the program printed its bars last and ended with exit code 0 or 1. A quick run of the experiments ends with 0 in any case.
* **FAILED**: everything else that has not passed, also a benchmark that broke off or missed a bar about wrong answers. The log is on the
  machine that ran the stage.
`;

export function pageOf(root: string, stages: readonly Stage[]): string {
  const rows = stages.map((stage) => ({ stage, done: readDone(root, stage) }));
  const finished = rows.flatMap(({ done }) => (done === null ? [] : [done]));
  if (finished.length === 0)
    throw new Error(
      "no stage has ended at the commit that is checked out, so there is nothing to write: run make verify",
    );
  const count = (result: Done["result"]): number => finished.filter((done) => done.result === result).length;
  const days = finished.map(({ startedAt }) => startedAt.slice(0, 10)).sort();
  const open = stages.length - finished.length;
  const verdict = count("failed") > 0 ? "FAILED" : open > 0 ? "Not complete" : "Verified";
  return [
    HEAD,
    `**${verdict}**: of ${String(stages.length)} stages ${String(count("passed"))} passed, ${String(count("missed"))} missed a bar, ${String(count("failed"))} FAILED, ${String(open)} not run.\n`,
    ...table(
      ["", ""],
      [
        ["date", [...new Set([days.at(0), days.at(-1)])].join(" to ")],
        ["machine", [...new Set(finished.map(({ machine }) => machine))].join("; ")],
      ],
    ),
    "## Stages\n",
    ...table(
      ["stage", "command", "commit", "result", "duration"],
      rows.map(({ stage, done }) => [
        stage.name,
        `\`${stage.command}\``,
        done === null ? "" : `\`${done.commit.slice(0, 12)}\``,
        stateOf(done),
        done === null ? "" : durationOf(done),
      ]),
    ),
    "## Figures\n",
    ...table(
      ["stage", "figure", "value"],
      rows.flatMap(({ stage, done }) =>
        (done?.figures ?? []).map(({ name, value }, at) => [at === 0 ? stage.name : "", name, value]),
      ),
    ),
  ].join("\n");
}

/** Also how often it had failed before: a second attempt hides nothing. */
export function stateOf(done: Done | null): string {
  if (done === null) return "not run";
  const { result, reason, log, attempt } = done;
  const again = attempt === 1 ? "" : `, attempt ${String(attempt)}: each before it FAILED`;
  if (result === "passed") return `passed${again}`;
  if (result === "missed") return `missed a bar${again}`;
  return `**FAILED**${again}: ${reason ?? ""} (\`less ${log}\`)`;
}

function durationOf({ seconds }: Done): string {
  return seconds < 60 ? `${String(seconds)} s` : `${String(Math.round(seconds / 60))} min`;
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll("|", "\\|").replaceAll("\n", "; ")).join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line), ""];
}
