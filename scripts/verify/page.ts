// Writes docs/verification.md: the stages that ran, at which commit, and with which result.
import { tableOf } from "@highwater/lab-tools/markdown";
import { type Done, readDone } from "./run.ts";
import type { Stage } from "./stages.ts";

const HEAD = `# Verification

\`make verify\` runs the checks that take hours and are not part of CI, and writes this page.
[reliability.md](reliability.md) says what each program looks for, and the
[glossary](reference/glossary.md) explains the words. The column *commit* has the last commit that
changed something that the stage runs.

* **passed**: the stage ended without a failure.
* **not run**: the stage has not finished at its commit.
* **missed a bar**: the benchmark measured every figure, and at least one figure does not reach its
  bar on this machine. This is not a failure. The program printed its bars last and ended with exit
  code 0 or 1. A quick run of the experiments always ends with 0.
* **FAILED**: the stage did not pass for another reason. A benchmark that stopped early, or missed a
  bar about wrong answers, counts as failed. The log is on the machine that ran the stage.
`;

export function pageOf(root: string, stages: readonly Stage[]): string {
  const rows = stages.map((stage) => ({ stage, done: readDone(root, stage) }));
  const finished = rows.flatMap(({ done }) => (done === null ? [] : [done]));
  if (finished.length === 0)
    throw new Error(
      "no stage has finished at the commit that is checked out, so there is nothing to write: run make verify first",
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

/** Returns the result, and how often the stage failed before: a second attempt hides no failure. */
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
  return [
    tableOf(
      head,
      rows.map((cells) => cells.map((cell) => cell.replaceAll("\n", "; "))),
    ),
    "",
  ];
}
