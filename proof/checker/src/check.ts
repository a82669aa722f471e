// Applies all rules to a whole history.
import { Excuses } from "./failures.ts";
import { Findings } from "./findings.ts";
import { Gathering } from "./gather.ts";
import { type End, type HistoryRecord } from "./history.ts";
import { type History, isAborted, isAcknowledged, isUnreceipted } from "./model.ts";
import { Orders } from "./orders.ts";
import { type Counts, type Report } from "./report.ts";
import { judgeExpiry } from "./rules/expiry.ts";
import { judgeFate } from "./rules/fate.ts";
import { judgeFreshness } from "./rules/freshness.ts";
import { judgeOnce } from "./rules/once.ts";
import { judgeOrders } from "./rules/order.ts";
import { judgePresence } from "./rules/presence.ts";
import { judgeReads } from "./rules/reads.ts";
import { judgeRecoverability } from "./rules/recoverability.ts";
import { judgeReplays } from "./rules/replays.ts";
import { judgeSerializability } from "./rules/serializability.ts";
import { judgeSessions } from "./rules/sessions.ts";
import { judgeTokens } from "./rules/tokens.ts";
import { judgeWebhooks } from "./rules/webhooks.ts";
import { Verdicts } from "./verdicts.ts";

/** Throws a HistoryError if the records are not a history. */
export function check(records: Iterable<HistoryRecord>): Report {
  const gathering = new Gathering();
  let line = 0;
  for (const record of records) gathering.add(record, { file: null, line: ++line });
  return judge(gathering.finish(), 0);
}

export function judge(history: History, tornLines: number): Report {
  const findings = new Findings();
  const verdicts = new Verdicts(history, findings);
  const excuses = new Excuses(history);
  const orders = new Orders(history);
  judgeFate(history, verdicts, excuses, findings);
  judgeExpiry(history, findings);
  judgePresence(history, findings);
  judgeOnce(history, findings);
  judgeReplays(history, findings);
  judgeOrders(history, orders, findings);
  judgeReads(history, findings);
  judgeFreshness(history, orders, findings);
  judgeSerializability(history, orders, findings);
  judgeRecoverability(history, verdicts, excuses, findings);
  judgeSessions(history, findings);
  judgeTokens(history, findings);
  judgeWebhooks(history, verdicts, findings);
  const counts = countsOf(history, verdicts, tornLines);
  judgeEvidence(history, counts, findings);
  const byRule = Object.fromEntries(findings.byRule);
  return {
    seed: history.scenario.seed,
    counts,
    faults: faultsOf(history),
    violationCount: [...findings.byRule.values()].reduce((sum, count) => sum + count, 0),
    violationsByRule: byRule,
    violations: findings.violations,
    ambiguous: Object.fromEntries(findings.ambiguous),
    weak: findings.weak,
  };
}

function countsOf(history: History, verdicts: Verdicts, tornLines: number): Counts {
  const { transactions, scenario } = history;
  const strongest = scenario.levels.length - 1;
  const counts = {
    invoked: transactions.length,
    committed: 0,
    readOnly: 0,
    aborted: 0,
    durable: 0,
    lost: 0,
    broken: 0,
    expired: 0,
    unknownResolved: 0,
    unanswered: 0,
    pending: 0,
    promisesBroken: 0,
    reads: 0,
    reports: 0,
    ...endsOf(history),
  };
  for (const transaction of transactions) {
    const { invocation, answer, resolution, reports, reads } = transaction;
    const finals = verdicts.of(transaction).flatMap(({ levels }) => [...(levels[strongest]?.final ?? [])]);
    const wasLost = answer?.outcome === "lost" || resolution?.outcome === "lost";
    if (isAcknowledged(transaction)) {
      counts.committed += 1;
      if (invocation.readOnly) counts.readOnly += 1;
      if (finals.includes("durable")) counts.durable += 1;
    }
    if (isAborted(transaction)) counts.aborted += 1;
    if (finals.includes("lost") || wasLost) counts.lost += 1;
    if (finals.includes("broken")) counts.broken += 1;
    if (finals.includes("expired") || resolution?.outcome === "expired") counts.expired += 1;
    const isUnresolved = resolution?.outcome === "unresolved";
    if (answer?.outcome === "unknown" && resolution !== null && !isUnresolved) counts.unknownResolved += 1;
    if (answer === null && resolution === null) counts.unanswered += 1;
    const isSilent = answer?.outcome === "unknown" && resolution === null && finals.length === 0;
    const isOpen = isUnresolved || (isSilent && !isUnreceipted(transaction));
    if (isOpen || reports.some(({ by, verdict }) => by === "final" && verdict === "pending"))
      counts.pending += 1;
    if (reports.some(({ verdict }) => verdict === "broken")) counts.promisesBroken += 1;
    counts.reads += reads.length;
    counts.reports += reports.length;
  }
  const keys = new Set(transactions.flatMap(({ reads }) => reads.map(({ key }) => key)));
  return {
    ...counts,
    keys: keys.size,
    epochs: history.final.epochs.length,
    trackers: history.trackers.length,
    failures: history.failures.length,
    deliveries: history.deliveries.length,
    messages: new Set(history.deliveries.map(({ message }) => message)).size,
    tornLines,
  };
}

function endsOf({ ends }: History): Pick<Counts, "replayed" | "conflicts" | "unrecoverable"> {
  const count = (outcome: End["outcome"]): number =>
    new Set(ends.flatMap((end) => (end.outcome === outcome ? [end.txn] : []))).size;
  return {
    replayed: count("replayed"),
    conflicts: count("conflict"),
    unrecoverable: count("unrecoverable"),
  };
}

function faultsOf({ faults }: History): Record<string, number> {
  const byKind: Record<string, number> = {};
  for (const { kind, error } of faults) if (error === null) byKind[kind] = (byKind[kind] ?? 0) + 1;
  return byKind;
}

/** Without evidence there are no violations either, so the report names what is missing. */
function judgeEvidence(history: History, counts: Counts, findings: Findings): void {
  if (counts.committed === 0) findings.weakness("nothing has committed");
  if (counts.reads === 0) findings.weakness("no list was read");
  if (counts.durable === 0) findings.weakness("nothing is durable at the strongest level");
  if (history.scenario.replays === true && counts.replayed === 0)
    findings.weakness("nothing was brought back");
  if (history.failures.length === 0) findings.weakness("there was no failure");
  if (history.subscriptions.size > 0 && counts.deliveries === 0)
    findings.weakness("no webhook was delivered");
  const written = new Set<string>();
  for (const { invocation } of history.transactions) {
    for (const it of invocation.operations)
      if (it.f === "append" || it.f === "readAppend") written.add(it.key);
  }
  const read = new Set(history.transactions.flatMap(({ reads }) => reads.map(({ key }) => key)));
  const unread = [...written].filter((key) => !read.has(key)).length;
  if (unread > 0) {
    findings.weakness(
      `${String(unread)} of ${String(written.size)} keys were written and never read before the end`,
    );
  }
  const failed = history.faults.filter(({ error }) => error !== null).length;
  if (failed > 0) findings.weakness(`${String(failed)} faults did not take effect`);
}
