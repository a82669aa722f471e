// Only a transaction that is older than the retention of receipts may be reported expired or lack
// its receipt; and no new id is refused because of its time.
import { droppedTooEarlyMs, mayBeExpired } from "../expiry.ts";
import { type Findings } from "../findings.ts";
import { type History, type Transaction } from "../model.ts";

/** How long a gateway may use a time that a database reported. */
const TIME_REMEMBERED_MS = 10_000;
/** Until the epoch begins in which ids from before a restore cannot commit. */
const RESTORE_NOTICED_MS = 30_000;

export function judgeExpiry(history: History, findings: Findings): void {
  const { scenario, final, transactions } = history;
  for (const transaction of transactions) {
    const { txn, atMs: bornMs } = transaction.invocation;
    for (const { atMs, what, isRefusal } of calledExpired(transaction)) {
      if (mayBeExpired(scenario, transaction, atMs)) continue;
      if (isRefusal && isExcused(history, transaction, atMs)) continue;
      findings.violation("expiry.early", [txn], () => {
        const age = String(Math.round(atMs - bornMs));
        return `T1 was ${what} as expired ${age} ms after its begin, and receipts are kept for ${keptFor(scenario.retentionMs)}`;
      });
    }
    const { answer } = transaction;
    if (answer?.error === "id_out_of_window" && !isExcused(history, transaction, answer.atMs))
      findings.violation("id.refused", [txn], () => "T1 was refused as out of the window of ids");
  }
  const earlyMs = droppedTooEarlyMs(scenario, final);
  if (earlyMs > 0)
    findings.violation("expiry.early", [], () => {
      return `receipts were dropped ${String(Math.round(earlyMs))} ms before their time was over`;
    });
}

interface CalledExpired {
  readonly atMs: number;
  readonly what: string;
  /** A refused request, which does not reveal the outcome of the transaction. */
  readonly isRefusal: boolean;
}

function calledExpired({ answer, resolution, reports }: Transaction): readonly CalledExpired[] {
  return [
    ...(answer?.error === "id_expired" ? [{ atMs: answer.atMs, what: "answered", isRefusal: true }] : []),
    ...(resolution?.outcome === "expired"
      ? [{ atMs: resolution.atMs, what: "resolved", isRefusal: false }]
      : []),
    // Another rule reports final answers without a verdict.
    ...reports.flatMap(({ verdict, by, atMs }) =>
      verdict === "expired" && by !== "final"
        ? [{ atMs, what: `reported (${by})`, isRefusal: by === "promise" }]
        : [],
    ),
  ];
}

function isExcused({ clocks, failures }: History, { invocation }: Transaction, atMs: number): boolean {
  const bornMs = invocation.atMs;
  const hadWrongTime = clocks.some(
    (clock) => clock.of === "database" && clock.atMs <= atMs && clock.untilMs + TIME_REMEMBERED_MS >= bornMs,
  );
  const wasRestored = failures.some(
    ({ kept, atMs: restoredMs }) =>
      kept.length === 0 && restoredMs <= atMs && restoredMs + RESTORE_NOTICED_MS >= bornMs,
  );
  return hadWrongTime || wasRestored;
}

function keptFor(retentionMs: number | undefined): string {
  return retentionMs === undefined ? "the whole run" : `${String(retentionMs)} ms`;
}
