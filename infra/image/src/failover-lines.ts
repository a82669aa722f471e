// How a task of the failover reports to the automation what it found: by lines in its log, each
// beginning with a word that nothing else there begins with, the automation's run and the stage. A
// report goes as one word, so that no program on its way has to quote it.
import { deflateRawSync, inflateRawSync } from "node:zlib";
import { CandidateReport } from "@highwater/durability-tracker/failover";
import { validate } from "@highwater/protocol";

/** `preview`: before anything is done. `fenced`: after the old primary was cut off. */
export const STAGES = ["preview", "fenced", "authorize", "verify"] as const;
export type Stage = (typeof STAGES)[number];

const RUN = /^[A-Za-z0-9-]{1,64}$/;
/** Much more than any report, and little enough that a forged one cannot fill the memory. */
const REPORT_BYTES_MAX = 1_048_576;
/** What the message of an approval, and the override of a task, have room for. */
const SUMMARY_CHARS_MAX = 1_500;

export interface Origin {
  readonly run: string;
  readonly stage: Stage;
}

export function isRun(text: string): boolean {
  return RUN.test(text);
}

export function isStage(text: string): text is Stage {
  return (STAGES as readonly string[]).includes(text);
}

/**
 * Ids of single transactions stay in the text above it: they are many, and no decision needs them.
 */
export function reportLine({ run, stage }: Origin, report: CandidateReport): string {
  const nodes = report.nodes.map((node) => ({
    ...node,
    loss: node.loss === null ? null : { ...node.loss, ids: [] },
  }));
  const bytes = deflateRawSync(JSON.stringify({ ...report, nodes }));
  return `highwater-report ${run} ${stage} ${bytes.toString("base64url")}`;
}

/**
 * One line of plain characters: templates put it into a message, and their treatment of quotes is
 * unknown.
 */
export function summaryLine({ run, stage }: Origin, text: string): string {
  const plain = text.replace(/[^A-Za-z0-9 .,:;()/_+*=-]+/g, " ").replace(/ +/g, " ");
  return `highwater-summary ${run} ${stage} ${plain.trim().slice(0, SUMMARY_CHARS_MAX)}`;
}

/** The last line: a reader that has it has all the others. */
export function endLine({ run, stage }: Origin, exitCode: number): string {
  return `highwater-end ${run} ${stage} ${String(exitCode)}`;
}

export type ReadReport =
  | { readonly ok: true; readonly report: CandidateReport; readonly origin: Origin | null }
  | { readonly ok: false; readonly why: string };

/**
 * A report's line, or the JSON that `failover-candidate --json` prints; `origin` is null for that.
 */
export function readReport(text: string): ReadReport {
  const trimmed = text.trim();
  if (trimmed.startsWith("{")) return checked(trimmed, null);
  const [word, run = "", stage = "", data = "", ...rest] = trimmed.split(" ");
  if (word !== "highwater-report" || !isRun(run) || !isStage(stage) || data === "" || rest.length > 0)
    return { ok: false, why: "it is neither the line of a report nor JSON" };
  try {
    const json = inflateRawSync(Buffer.from(data, "base64url"), { maxOutputLength: REPORT_BYTES_MAX });
    return checked(json.toString("utf8"), { run, stage });
  } catch {
    return { ok: false, why: "the line of the report is not whole" };
  }
}

function checked(json: string, origin: Origin | null): ReadReport {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return { ok: false, why: "it is not JSON" };
  }
  const found = validate(CandidateReport, value);
  if (!found.ok) return { ok: false, why: `it is not a report: ${found.faults.join("; ")}` };
  return { ok: true, report: found.value, origin };
}

/**
 * Says how it ended, to people who look on and, within a run of the automation, to that; the exit
 * code that goes with it.
 */
export function finish(origin: Origin | null, exitCode: number, text: string): number {
  console.log(text);
  if (origin !== null) {
    console.log(summaryLine(origin, text));
    console.log(endLine(origin, exitCode));
  }
  return exitCode;
}
