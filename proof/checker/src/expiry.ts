// Which transactions are so old that the service may have forgotten them. Nothing else may be
// called expired.
import { type FinalState, type Scenario } from "./history.ts";
import { appendsOf, attemptIn, type History, isUnreceipted, serviceIdOf, type Transaction } from "./model.ts";

/**
 * Between the making of an id and the record of it, and between clocks of one machine that are read
 * by different processes.
 */
const CLOCK_SLACK_MS = 1_000;

const TIMED_ID = /^([0-9a-f]{8})-([0-9a-f]{4})-7/;

/** Milliseconds since 1970; null for an id that does not say. */
function timeInside(txn: string): number | null {
  const match = TIMED_ID.exec(txn);
  return match === null ? null : Number.parseInt(`${match[1] ?? ""}${match[2] ?? ""}`, 16);
}

/** At that moment its retention was over. */
export function mayBeExpired({ retentionMs }: Scenario, { invocation }: Transaction, atMs: number): boolean {
  return retentionMs !== undefined && atMs - invocation.atMs > retentionMs - CLOCK_SLACK_MS;
}

/** In the final state receipts of this id's time are dropped, if there ever was one. */
function isDropped({ expiry }: FinalState, txn: string): boolean {
  const bornMs = timeInside(txn);
  return expiry !== undefined && bornMs !== null && bornMs < expiry.expiredBeforeMs;
}

/** By how much receipts were dropped too early; 0 if they were not. */
export function droppedTooEarlyMs({ retentionMs }: Scenario, { expiry }: FinalState): number {
  if (expiry === undefined || retentionMs === undefined) return 0;
  const keptMs = expiry.readAtMs - expiry.expiredBeforeMs;
  return keptMs > retentionMs - CLOCK_SLACK_MS ? 0 : retentionMs - keptMs;
}

/**
 * Gives a transaction the receipt that it must have had, where this has expired or where it never
 * had one, and the effects are in the final state. Of two attempts the newer one is there: it could
 * not have run beside the other.
 */
export function restoreReceipts({ transactions, final, finalLists, epochs }: History): void {
  const inserted = new Set(final.inserted);
  const transfers = new Set(final.transfers.map(({ txn }) => txn));
  const listed = new Set<number>();
  for (const { spine, length } of finalLists.values())
    for (let at = 0; at < length; at++) listed.add(spine.values[at] ?? Number.NaN);
  for (const transaction of transactions) {
    const { txn, operations } = transaction.invocation;
    const id = serviceIdOf(transaction);
    if (transaction.receipt !== null || epochs.last === null) continue;
    if (!isUnreceipted(transaction) && !isDropped(final, id)) continue;
    const isThere =
      transfers.has(txn) ||
      appendsOf(transaction).some(({ value }) => listed.has(value)) ||
      operations.some((operation) => operation.f === "insert" && inserted.has(operation.value));
    transaction.isForgotten = operations.every(({ f }) => f === "read" || f === "sum");
    if (!isThere) continue;
    const epoch = attemptIn(epochs, transaction, epochs.last) ?? epochs.last;
    transaction.receipt = { txn: id, kind: "commit", epoch };
  }
}
