// Decides which transactions are old enough for the service to have forgotten them. No other may be
// reported expired.
import { type FinalState, type Scenario } from "./history.ts";
import { appendsOf, attemptIn, type History, isUnreceipted, serviceIdOf, type Transaction } from "./model.ts";

/** Covers the time from making an id to recording it, and clocks that different processes read. */
const CLOCK_SLACK_MS = 1_000;

const TIMED_ID = /^([0-9a-f]{8})-([0-9a-f]{4})-7/;

/** The time in an id, in milliseconds since 1970; null for an id without one. */
function timeInside(txn: string): number | null {
  const match = TIMED_ID.exec(txn);
  return match === null ? null : Number.parseInt(`${match[1] ?? ""}${match[2] ?? ""}`, 16);
}

/** True if its retention may be over at that time. */
export function mayBeExpired({ retentionMs }: Scenario, { invocation }: Transaction, atMs: number): boolean {
  return retentionMs !== undefined && atMs - invocation.atMs > retentionMs - CLOCK_SLACK_MS;
}

/** True if the final state has dropped any receipt of this id. */
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
 * Restores the receipt of a transaction whose effects are in the final state, if the receipt has
 * expired or never existed. Of two attempts, the newer one must be there: it could not have
 * committed beside the other.
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
