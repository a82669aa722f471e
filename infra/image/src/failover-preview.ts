// Asks `failover-candidate` for the automation of a failover, shows the answer, and says by its
// exit code whether it may go on. Promotes no node and writes nowhere but to its log.
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { type CandidateReport, printReport } from "@highwater/durability-tracker/failover";
import { endLine, isRun, type Origin, readReport, reportLine, summaryLine } from "./failover-lines.ts";

/** Beside those of `failover-candidate`, which are below 8. */
export const EXIT = {
  goOn: 0,
  failed: 1,
  wrongEnvironment: 2,
  loss: 6,
  stillFed: 7,
  anotherNode: 20,
  anotherPrimary: 21,
  moreThanApproved: 22,
} as const;

export interface Question {
  readonly stage: "preview" | "fenced";
  /** The node that this automation can promote. */
  readonly node: string;
  /** The node that it would cut off. */
  readonly from: string;
  readonly acceptsLoss: boolean;
  /** What was approved; null before. */
  readonly approved: CandidateReport | null;
}

export interface Judgement {
  readonly exitCode: number;
  readonly why: string;
}

/** May the automation go on with what was found? */
export function judge(report: CandidateReport, question: Question): Judgement {
  const { stage, node, from, acceptsLoss, approved } = question;
  if (report.epoch !== null && report.epoch.primary !== from)
    return {
      exitCode: EXIT.anotherPrimary,
      why: `the primary was ${report.epoch.primary}, not ${from}: start again and name that one`,
    };
  const isFed = report.refusal === "still_fed";
  // Before the fence an open stream is no surprise, and what it cuts off is what the open stream is
  // a sign of.
  if (report.refusal !== null && !(isFed && stage === "preview"))
    return { exitCode: report.exitCode, why: `refused (${report.refusal}): ${report.reasons.join("; ")}` };
  if (report.candidate !== node)
    return {
      exitCode: EXIT.anotherNode,
      why: `the most advanced is ${report.candidate ?? "no node"}, and this automation promotes ${node}: start the one of that node`,
    };
  const atRisk = notKept(report);
  // While a stream is open this has not been judged yet, and after the fence is too late to learn
  // of it.
  if (isFed && atRisk.size > 0 && !acceptsLoss)
    return {
      exitCode: EXIT.loss,
      why: `promises are at risk or broken (${[...atRisk].join(", ")}): bring back nodes that do not answer, or start again and accept the loss`,
    };
  const more = approved === null ? null : moreThan(approved, report);
  if (more !== null) return { exitCode: EXIT.moreThanApproved, why: `more than was approved: ${more}` };
  if (isFed)
    return {
      exitCode: EXIT.stillFed,
      why: `${node} can be promoted once ${from} is cut off: streams from it are still open`,
    };
  return { exitCode: EXIT.goOn, why: `${node} can be promoted` };
}

function notKept({ levels }: CandidateReport): Set<string> {
  return new Set(
    levels
      .filter(({ promise }) => promise === "at_risk" || promise === "broken")
      .map(({ level, promise }) => `${level} ${promise}`),
  );
}

const lossOf = ({ nodes, candidate }: CandidateReport): CandidateReport["nodes"][number]["loss"] =>
  nodes.find(({ node }) => node === candidate)?.loss ?? null;

/** What is worse now; null when nothing is. */
function moreThan(approved: CandidateReport, now: CandidateReport): string | null {
  const known = notKept(approved);
  const levels = [...notKept(now)].filter((level) => !known.has(level));
  if (levels.length > 0) return levels.join(", ");
  const [before, after] = [lossOf(approved)?.transactions ?? null, lossOf(now)?.transactions ?? null];
  if (before === null) return null;
  if (after === null) return `${String(before)} transactions were approved, and now no tracker can tell`;
  return after > before ? `${String(after)} transactions instead of ${String(before)}` : null;
}

/** In one line, for the message of the approval. */
export function summarize(report: CandidateReport, { why }: Judgement): string {
  const loss = lossOf(report);
  const lost =
    loss === null
      ? "nothing is known of what would be lost"
      : `would lose ${loss.complete ? "" : "at least "}${loss.transactions === null ? "an unknown number of" : String(loss.transactions)} transactions, ${loss.bytes ?? "?"} bytes of log`;
  const levels = report.levels.map(({ level, promise }) => `${level}: ${promise.replace("_", " ")}`);
  const answering = report.trackers.filter(({ answers }) => answers).length;
  return [
    why,
    lost,
    levels.join(", "),
    `${String(answering)} of ${String(report.trackers.length)} trackers answer`,
    ...report.warnings,
  ]
    .filter((part) => part !== "")
    .join(". ");
}

const COMMAND = fileURLToPath(
  new URL("../../../services/durability-tracker/src/cli/failover-candidate/main.ts", import.meta.url),
);
const ASK_LIMIT_MS = 5 * 60_000;
const ANSWER_BYTES_MAX = 32 * 1_048_576;

/** Its standard output whatever its exit code; what it complains of goes to the log. */
function ask(args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(
      process.execPath,
      [COMMAND, ...args],
      { timeout: ASK_LIMIT_MS, maxBuffer: ANSWER_BYTES_MAX },
      (error, stdout, stderr) => {
        if (stderr !== "") console.error(stderr.trimEnd());
        if (stdout.startsWith("{")) resolve(stdout);
        else reject(new Error("failover-candidate gave no report", { cause: error }));
      },
    );
  });
}

function readQuestion(
  env: Readonly<Record<string, string | undefined>>,
): { readonly question: Question; readonly origin: Origin } | string {
  const { FAILOVER_RUN: run = "", FAILOVER_STAGE: stage, FAILOVER_NODE: node = "" } = env;
  const { FAILOVER_FROM: from = "", FAILOVER_ACCEPT_LOSS: accept, FAILOVER_APPROVED: approved = "" } = env;
  if (!isRun(run)) return "FAILOVER_RUN must be the id of the automation's run";
  if (stage !== "preview" && stage !== "fenced") return "FAILOVER_STAGE must be preview or fenced";
  if (node === "" || from === "" || node === from)
    return "FAILOVER_NODE must be the node to promote and FAILOVER_FROM another, the old primary";
  if (accept !== "yes" && accept !== "no") return "FAILOVER_ACCEPT_LOSS must be yes or no";
  const question: Question = { stage, node, from, acceptsLoss: accept === "yes", approved: null };
  if (stage === "preview") return { question, origin: { run, stage } };
  const read = readReport(approved);
  if (!read.ok || read.origin?.run !== run || read.origin.stage !== "preview")
    return "FAILOVER_APPROVED must be the line of the report that was approved, of the same run";
  return { question: { ...question, approved: read.report }, origin: { run, stage } };
}

async function main(env: Readonly<Record<string, string | undefined>>): Promise<number> {
  const read = readQuestion(env);
  if (typeof read === "string") {
    console.error(read);
    return EXIT.wrongEnvironment;
  }
  const { question, origin } = read;
  const answer = readReport(
    await ask([
      ...["--json", "--list", "20", "--wait", env["FAILOVER_WAIT_S"] ?? "30"],
      ...(env["FAILOVER_REGION"] === undefined ? [] : ["--prefer-region", env["FAILOVER_REGION"]]),
      ...(question.stage === "fenced" ? ["--fenced"] : []),
      ...(question.acceptsLoss ? ["--accept-loss"] : []),
    ]),
  );
  if (!answer.ok) {
    console.error(`failover-candidate's answer cannot be read: ${answer.why}`);
    return EXIT.failed;
  }
  const judgement = judge(answer.report, question);
  console.log(printReport(answer.report));
  console.log(`\n${judgement.why}`);
  console.log(reportLine(origin, answer.report));
  console.log(summaryLine(origin, summarize(answer.report, judgement)));
  console.log(endLine(origin, judgement.exitCode));
  return judgement.exitCode;
}

if (import.meta.main)
  try {
    process.exitCode = await main(process.env);
  } catch (cause) {
    console.error(cause instanceof Error ? cause.message : String(cause));
    process.exitCode = EXIT.failed;
  }
