// What was lost and brought back: each by a new transaction that names it, once, with the same
// result, and never over something newer. At the end each lost transaction is in one class, and the
// database agrees. (Rows are judged here as well: only transactions that can be brought back write
// them.)
import { type Findings } from "../findings.ts";
import { type EpochId } from "../history.ts";
import { type History, type Transaction, isThere } from "../model.ts";

export function judgeReplays(history: History, findings: Findings): void {
  judgeRoots(history, findings);
  for (const row of history.final.rows ?? []) judgeRow(history, row, findings);
  judgeResults(history, findings);
  judgeClasses(history, findings);
}

function judgeRoots({ final, byId, redone, transactions }: History, findings: Findings): void {
  for (const { root, txn } of final.redone ?? []) {
    const lost = byId.get(root);
    const violation = (
      rule: "replay.root" | "replay.twice" | "replay.answered-lost",
      explanation: string,
    ): void => {
      findings.violation(rule, [root, txn], () => explanation);
    };
    if (lost === undefined || lost.invocation.redoOf !== undefined)
      violation("replay.root", "T2 says that it has brought T1 back, and no client has sent T1");
    else if (redone.get(root) !== txn)
      violation("replay.root", "T2 says that it has brought T1 back, and has no receipt");
    if (lost?.receipt?.kind === "commit")
      violation("replay.twice", "T1 is there itself, and T2 has brought it back");
    if (lost?.invocation.ack === "durable" && lost.answer?.outcome === "lost")
      violation(
        "replay.answered-lost",
        "T1 was safe, its client was answered that it is lost, and T2 has brought it back",
      );
  }
  for (const { invocation, receipt } of transactions) {
    const { txn, redoOf } = invocation;
    if (redoOf === undefined || receipt?.kind !== "commit" || redone.get(redoOf) === txn) continue;
    findings.violation(
      "replay.root",
      [redoOf, txn],
      () => "T2 has brought T1 back, and the database does not say so",
    );
  }
}

type Row = NonNullable<History["final"]["rows"]>[number];

function judgeRow({ writers, redone, epochs }: History, { key, count, log }: Row, findings: Findings): void {
  if (count !== log.length)
    findings.violation("once.value", [], () => {
      return `row ${key} has counted ${String(count)} values, and has ${String(log.length)}`;
    });
  const seen = new Set<number>();
  /** In which its values were committed so far, other than by replays. */
  const written = new Map<EpochId, Transaction>();
  for (const value of log) {
    const writer = writers.get(value);
    const isOwn = writer?.invocation.operations.some(
      (it) => (it.f === "make" || it.f === "add") && it.key === key && it.value === value,
    );
    if (writer === undefined || isOwn !== true) {
      findings.violation(
        "read.garbage",
        [],
        () => `${String(value)} is in row ${key}, and no transaction has added it`,
      );
      continue;
    }
    const { txn } = writer.invocation;
    if (seen.has(value))
      findings.violation("once.value", [txn], () => `${String(value)} of T1 is twice in row ${key}`);
    seen.add(value);
    if (writer.receipt?.kind === "commit") written.set(writer.receipt.epoch, writer);
    if (writer.receipt?.kind === "commit" || !redone.has(txn)) continue;
    const { attempts } = writer;
    if (attempts.length === 0 || !attempts.every((attempt) => epochs.hasPath(attempt))) continue;
    for (const [epoch, newer] of written) {
      if (attempts.some((attempt) => epochs.contains(attempt, epoch))) continue;
      findings.violation("replay.overwrites", [txn, newer.invocation.txn], () => {
        return `T1 was lost and brought back behind T2 in row ${key}, and T2 is of epoch ${epoch}, after the loss`;
      });
    }
  }
}

/** What it was shown is how the row's log begins in the end. */
function judgeResults(history: History, findings: Findings): void {
  const rows = new Map(history.final.rows?.map(({ key, log }) => [key, log]));
  for (const transaction of history.transactions) {
    const { invocation, rowReads, receipt, attempts, answer } = transaction;
    if (rowReads.length === 0 || attempts.length > 1 || !isThere(history, transaction)) continue;
    // A replayed answer has the position of the look-up.
    if (receipt?.kind === "commit" && answer?.position?.epoch !== receipt.epoch) continue;
    for (const { key, log } of rowReads) {
      const now = rows.get(key) ?? [];
      if (log === null || log.every((value, at) => now[at] === value)) continue;
      findings.violation("replay.result", [invocation.txn], () => {
        const how = receipt?.kind === "commit" ? "is there" : "was brought back";
        return `T1 ${how}, and was shown ${log.join(", ")} in row ${key}, which now begins with ${now.slice(0, log.length).join(", ")}`;
      });
      break;
    }
  }
}

function judgeClasses(history: History, findings: Findings): void {
  const { scenario, transactions, byId, ends } = history;
  if (scenario.replays !== true) return;
  const byAttempt = new Set<string>();
  const classed = new Set<Transaction>();
  for (const { txn, attempt, outcome, reason } of ends) {
    const lost = byId.get(txn);
    if (lost === undefined) continue;
    classed.add(lost);
    const isBack = isThere(history, lost);
    const what = byAttempt.has(`${txn} ${attempt}`)
      ? "is in a second class"
      : outcome === "replayed" && !isBack
        ? "is not there in the end"
        : outcome !== "replayed" && isBack
          ? "is there in the end"
          : outcome !== "replayed" && reason === null
            ? "has no reason"
            : null;
    byAttempt.add(`${txn} ${attempt}`);
    if (what !== null)
      findings.violation(
        "replay.class",
        [txn],
        () => `T1 ended as ${outcome}${reason === null ? "" : ` (${reason})`}, and ${what}`,
      );
  }
  const strongest = scenario.levels.length - 1;
  for (const transaction of transactions) {
    const { invocation, reports } = transaction;
    // A replay that was lost again counts as its root.
    const root = byId.get(invocation.redoOf ?? invocation.txn) ?? transaction;
    if (classed.has(transaction) || classed.has(root)) continue;
    if (invocation.readOnly || isThere(history, transaction)) continue;
    const finals = reports.filter(({ by, level }) => by === "final" && level === strongest);
    if (finals.length === 0 || !finals.every(({ verdict }) => verdict === "lost")) continue;
    findings.violation("replay.class", [invocation.txn], () => "T1 is lost, and is in no class");
  }
}
