// What the result of a replay says in words.
import type { ReplayOutcome, ReplayReport } from "@highwater/protocol";
import { formatCount } from "./format.ts";

const WHY: Readonly<Record<NonNullable<ReplayOutcome["reason"]>, string>> = {
  changed: "a row that it writes was written since the loss",
  changed_schema: "its table, or what that uses, was altered since",
  changed_reference: "a row that it refers to was written since",
  chosen_key: "its key is no UUID: somebody may have taken it since",
  generated_value: "it took a value from a sequence",
  different_result: "the result differs",
  unordered: "another lost transaction wrote the same row, and which came first is not known",
  blocked: "it may depend on one that is not back",
  too_late: "one that may depend on it is back already",
  refused: "the database refused it",
  not_kept: "no tracker that answered has its contents",
  not_known_committed: "how each statement ended is not known",
  not_replayable: "its statements cannot be run again safely",
};

export function amount(count: number): string {
  return `${formatCount(count)} ${count === 1 ? "transaction" : "transactions"}`;
}

export function whyText({ reason, kind, because, statement, error, replayedBy }: ReplayOutcome): string {
  const facts = [
    reason === undefined ? "" : WHY[reason],
    kind?.replaceAll("_", " "),
    because,
    error,
    reason !== undefined && statement !== undefined ? `statement ${String(statement + 1)}` : "",
    replayedBy === undefined ? "" : `by ${replayedBy}`,
  ];
  return facts.filter(Boolean).join(", ");
}

const DIGEST_SHOWN = 12;

/** Rows are not kept: the digest shows whether they are the same. */
export function resultText({ command, rowCount, digest }: NonNullable<ReplayOutcome["lost"]>): string {
  const rows = digest === null ? "" : `, rows ${digest.slice(0, DIGEST_SHOWN)}…`;
  return `${command} ${String(rowCount)}${rows}`;
}

export function summaryOf(report: ReplayReport): string {
  const { lostWrites, replayed, conflicts, unrecoverable } = report;
  const parts = [
    `${formatCount(replayed)} replayed`,
    counted(conflicts, "conflict"),
    `${formatCount(unrecoverable)} unrecoverable`,
  ];
  return `${counted(lostWrites, "lost write")} = ${parts.join(" + ")}`;
}

const counted = (count: number, one: string): string =>
  `${formatCount(count)} ${one}${count === 1 ? "" : "s"}`;
