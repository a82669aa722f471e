// A history as the rules use it: transactions with all reports about them, and the lists that they
// read.
import { type EpochTree } from "./epochs.ts";
import {
  type ClientReply,
  type Delivery,
  type End,
  type EpochId,
  type Failure,
  type Fault,
  type FinalState,
  type Invocation,
  type Resolution,
  type Scenario,
  type Subscription,
  type TxnId,
  type VerdictReport,
  type WrongClock,
} from "./history.ts";
import { type ListView } from "./lists.ts";

export interface Report {
  readonly atMs: number;
  /** Its index among the levels, weakest first. */
  readonly level: number;
  readonly verdict: VerdictReport["verdict"];
  /** `answer`: the answer to a safe transaction. `webhook`: a delivery. */
  readonly by: VerdictReport["by"] | "answer" | "webhook";
  readonly tracker: string | null;
  /** As recorded; use `attemptOf`. */
  readonly attempt: EpochId | null;
  /**
   * The end of a wait for a whole session, which may repeat a verdict that the client already had.
   */
  readonly isOfSession?: boolean;
  /** The attempt's position, if the report names it. */
  readonly position: Position | null;
}

export interface Position {
  readonly epoch: EpochId;
  readonly offset: bigint;
}

/** A part of the log for which a level's promises were reported to all clients as broken. */
export interface UndoneRange {
  readonly atMs: number;
  readonly by: "event" | "webhook";
  readonly level: number;
  readonly epoch: EpochId;
  readonly from: bigint;
  readonly to: bigint;
}

export interface ListRead extends ListView {
  readonly key: string;
  /** The index of the operation that returned it. */
  readonly operation: number;
}

/** What an operation on a row returned; the log is null if it returned only that there is a row. */
interface RowRead {
  readonly key: string;
  readonly operation: number;
  readonly log: readonly number[] | null;
}

export interface Transaction {
  readonly index: number;
  readonly invocation: Invocation;
  /** Without the returned values: those are in `reads` and `sums`. */
  answer: ClientReply | null;
  resolution: Resolution | null;
  readonly reports: Report[];
  readonly reads: ListRead[];
  readonly sums: number[];
  readonly rowReads: RowRead[];
  /** Its receipt in the final state. */
  receipt: FinalState["receipts"][number] | null;
  /**
   * The final state cannot show whether it is there: it writes nothing, and any receipt has
   * expired.
   */
  isForgotten: boolean;
  /** The epoch in which its reads were made; null if it has none, or if the epoch is unknown. */
  readIn: EpochId | null;
  /** The epochs in which it is known to have committed: more than one if a lost id ran again. */
  attempts: EpochId[];
  /**
   * Its only attempt is an upper bound: it may have committed in an earlier epoch of that history.
   */
  isInferred: boolean;
  /** Epochs in which another transaction read one of its values. */
  readonly seenIn: Set<EpochId>;
}

export interface History {
  readonly scenario: Scenario;
  readonly crashOnly: ReadonlySet<number>;
  readonly transactions: readonly Transaction[];
  /** Also by the id in its token. */
  readonly byId: ReadonlyMap<string, Transaction>;
  /** The writer of each value, in a list or in the set. */
  readonly writers: ReadonlyMap<number, Transaction>;
  readonly faults: readonly Fault[];
  readonly clocks: readonly WrongClock[];
  readonly failures: readonly Failure[];
  /** Oldest first. */
  readonly undone: readonly UndoneRange[];
  readonly subscriptions: ReadonlyMap<string, Subscription>;
  /** Oldest first. */
  readonly deliveries: readonly Delivery[];
  readonly ends: readonly End[];
  readonly final: FinalState;
  /** Lost transactions that another one has brought back, by the final state, and that one. */
  readonly redone: ReadonlyMap<TxnId, TxnId>;
  readonly finalLists: ReadonlyMap<string, ListView>;
  readonly epochs: EpochTree;
  /** Every tracker that gave final verdicts. */
  readonly trackers: readonly string[];
  /** When the epoch was first named in an answer. */
  readonly firstSeen: ReadonlyMap<EpochId, number>;
}

export interface Append {
  readonly key: string;
  readonly value: number;
  /** The operation's index. */
  readonly operation: number;
}

export function appendsOf({ invocation }: Transaction): Append[] {
  return invocation.operations.flatMap((operation, at) =>
    operation.f === "append" || operation.f === "readAppend"
      ? [{ key: operation.key, value: operation.value, operation: at }]
      : [],
  );
}

/** Its effects are to be there in the end: it is there itself, or was brought back. */
export function isThere({ redone }: History, { invocation, receipt }: Transaction): boolean {
  return receipt?.kind === "commit" || redone.has(invocation.txn);
}

/** The client or the service recorded that it committed. */
export function isAcknowledged({ answer, resolution }: Transaction): boolean {
  return answer?.outcome === "committed" || resolution?.outcome === "committed";
}

/** The client or the service recorded that it has no effect and never will. */
export function isAborted({ answer, resolution }: Transaction): boolean {
  return (
    answer?.outcome === "aborted" ||
    (!isAcknowledged({ answer, resolution } as Transaction) &&
      (resolution?.outcome === "aborted" || resolution?.outcome === "never"))
  );
}

/**
 * A tombstone aborted it after an unknown outcome. It may have committed in a history that has
 * ended; transactions that saw it there are lost with it.
 */
function wasSettled(transaction: Transaction): boolean {
  const { answer, resolution } = transaction;
  if (!isAborted(transaction)) return false;
  if (answer?.outcome === "aborted") return answer.error === "transaction_aborted";
  return resolution?.outcome === "aborted" || resolution?.outcome === "never";
}

/** Aborted, and not settled after others had seen it: no order of versions has its values. */
export function isVoid(transaction: Transaction): boolean {
  return isAborted(transaction) && !(wasSettled(transaction) && transaction.seenIn.size > 0);
}

/**
 * True if the reader may have seen it: its tombstone is in a history that the reader does not know.
 */
export function wasSettledBehind(epochs: EpochTree, transaction: Transaction, reader: Transaction): boolean {
  const { receipt } = transaction;
  if (!wasSettled(transaction) || reader.readIn === null) return false;
  return receipt === null || !epochs.contains(reader.readIn, receipt.epoch);
}

/** True if only its effects show whether it is there. */
export function isUnreceipted({ invocation, answer }: Transaction): boolean {
  return invocation.receipt === false && answer?.tokenOf === undefined;
}

/** The id by which services know it. */
export function serviceIdOf({ invocation, answer }: Transaction): TxnId {
  return invocation.receipt === false ? (answer?.tokenOf ?? invocation.txn) : invocation.txn;
}

/** True if it committed and a failure discarded it. */
export function isLost(transaction: Transaction): boolean {
  const { answer, reports, invocation, receipt } = transaction;
  return (
    answer?.outcome === "lost" ||
    (isUnreceipted(transaction) && !invocation.readOnly && receipt === null) ||
    reports.some(({ by, verdict }) => by === "final" && (verdict === "lost" || verdict === "broken"))
  );
}

/**
 * The time from which every transaction of the epoch had to see its effects. Infinite if no client
 * had an answer, or if the answer was about another attempt.
 */
export function answeredAt({ answer, attempts, readIn }: Transaction, epoch: EpochId): number {
  if (answer?.outcome !== "committed") return Number.POSITIVE_INFINITY;
  return attempts.length > 1 && readIn !== epoch ? Number.POSITIVE_INFINITY : answer.atMs;
}

/**
 * Its attempt in the epoch's history, up to a depth. Of two attempts, the newer one, which cannot
 * have committed beside the other.
 */
export function attemptIn(
  epochs: EpochTree,
  transaction: Transaction,
  epoch: EpochId,
  depthMax = Number.POSITIVE_INFINITY,
): EpochId | null {
  let found: EpochId | null = null;
  for (const attempt of transaction.attempts) {
    if (!epochs.contains(epoch, attempt) || epochs.depth(attempt) > depthMax) continue;
    if (found === null || epochs.depth(attempt) > epochs.depth(found)) found = attempt;
  }
  return found;
}

/** How many of its own appends to the key come before the operation. */
export function ownBefore(transaction: Transaction, key: string, operation: number): number {
  let count = 0;
  for (const append of appendsOf(transaction))
    if (append.key === key && append.operation < operation) count++;
  return count;
}

/** How many values at the beginning of the list come from others. */
export function externalLength(transaction: Transaction, read: ListRead): number {
  return Math.max(0, read.length - ownBefore(transaction, read.key, read.operation));
}

/**
 * Whether the final state contains the attempt; null if the attempt only reads, or if its receipt
 * was forgotten.
 */
export function isPresent(
  { invocation, receipt, isForgotten }: Transaction,
  attempt: EpochId | null,
): boolean | null {
  if (invocation.readOnly || isForgotten) return null;
  return receipt?.kind === "commit" && (attempt === null || receipt.epoch === attempt);
}

/**
 * True if it certainly committed in the epoch. A reported loss is no proof: the id may have been
 * sent again there and refused.
 */
export function isCertain({ attempts, readIn, receipt, reports }: Transaction, attempt: EpochId): boolean {
  if (attempts.length === 1 || readIn === attempt) return true;
  if (receipt?.kind === "commit" && receipt.epoch === attempt) return true;
  return reports.some((report) => report.attempt === attempt && report.verdict === "durable");
}

/**
 * The attempt of a report: the one that it names, else the only one, else the one that was answered
 * or is certain. Undefined if it cannot be determined.
 */
export function attemptOf(transaction: Transaction, report: Report): EpochId | null | undefined {
  if (report.attempt !== null) return report.attempt;
  const { attempts, answer } = transaction;
  if (attempts.length <= 1) return attempts[0] ?? null;
  // A replayed answer has the position of the look-up.
  const answered = answer?.replayed === true ? undefined : answer?.position?.epoch;
  if (answered !== undefined && attempts.includes(answered)) return answered;
  const certain = attempts.filter((attempt) => isCertain(transaction, attempt));
  return certain.length === 1 ? certain[0] : undefined;
}
