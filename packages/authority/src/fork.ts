// Finds where the previous epoch's log ends in this history. A pure rule over what a node's own log
// and its server can prove. All adapters whose store is one physical log share it; each gathers the
// facts in its own way.
import {
  type EpochCause,
  type EpochId,
  keptEnd,
  maxOffset,
  minOffset,
  type Offset,
  ZERO,
} from "@highwater/protocol";

/**
 * `fork`: the previous epoch's log is in this history at least up to here. `limit`: this history
 * left that log exactly here. Null after `clean_restart` and `reinstated`: all of that log is here,
 * and it may have gone on. Null after any other cause: where the history left it is not known. An
 * upper bound is no limit, because it would call lost reads durable and hide a broken promise.
 */
export interface Fork {
  readonly cause: EpochCause;
  readonly fork: Offset;
  readonly limit: Offset | null;
}

export interface ForkFacts {
  /** The newest complete epoch record in this history; null in a database that has none. */
  readonly previous: { readonly id: EpochId; readonly startOffset: Offset } | null;
  /** No recovery of any kind has run on this data since the previous epoch was opened on it. */
  readonly unrecovered: boolean;
  /**
   * The server that opened the previous epoch is still running, so its transactions may be
   * committing right now.
   */
  readonly sameServer: boolean;
  /**
   * The data was written here by a restore, or copied from another database: a log says nothing of
   * it, nor does anything that was written into it before.
   */
  readonly isCopy: boolean;
  /**
   * The data was moved into another database system, whose log has nothing to do with the previous
   * epoch's.
   */
  readonly foreignLog: boolean;
  /** A promotion lies between the previous epoch and now. */
  readonly promoted: boolean;
  /** Where the promotion left the previous epoch's log; null when the server does not say. */
  readonly switchedAt: Offset | null;
  /** End of this node's log now. */
  readonly end: Offset;
  /** Where the server's last recovery ended; null when the server does not say. */
  readonly recoveredAt: Offset | null;
  /** Highest witness of the previous epoch in this history; null when there is none. */
  readonly witnessed: Offset | null;
  /**
   * How far the caller saw the previous epoch's own stream arrive on this node, which has not been
   * restarted since.
   */
  readonly streamed: Offset | null;
  readonly supersedes: boolean;
}

/**
 * Finds the fork offset and its limit. At a promotion's switch point this history left the old
 * primary's log. That proves nothing about the log below: the old primary may have crashed and
 * recovered before the switch without beginning an epoch, and then other records stand in place of
 * the lost ones. The lower bound is proven by this very history (the epoch's record and its
 * witnesses), or by an uninterrupted stream that the caller watched.
 * (docs/decisions/0003-fork-offset-is-witnessed.md, 0176-a-fork-limit-is-exact.md)
 */
export function forkOf(facts: ForkFacts): Fork {
  const { previous, end, promoted } = facts;
  if (previous === null) {
    // Others have a history, and an operator gives it up for this one.
    if (facts.supersedes) return { cause: "restored", fork: ZERO, limit: ZERO };
    return { cause: "first", fork: ZERO, limit: ZERO };
  }
  // A witness proves nothing of a copy: a dump can hold one and lack a transaction that came before
  // it in the log and became visible after it. The epoch's record is older than each of its
  // transactions.
  if (facts.isCopy) return { cause: "restored", fork: previous.startOffset, limit: null };
  if (facts.unrecovered && !promoted && !facts.foreignLog) {
    // The server was stopped cleanly, or never: all of the log is here.
    const cause = facts.supersedes ? "reinstated" : "clean_restart";
    return { cause, fork: end, limit: facts.sameServer ? null : end };
  }
  // The record says where it ends itself, and that update is in this history too: all up to there
  // is.
  const witnessed = maxOffset(previous.startOffset, facts.witnessed ?? ZERO);
  if (facts.foreignLog) return { cause: "crash_recovery", fork: witnessed, limit: null };
  if (!promoted) {
    // Log that was written since the recovery belongs to no epoch: after an older copy was restored
    // it stands where the lost end was.
    const limit = facts.recoveredAt;
    const cause = facts.supersedes && limit !== null ? "reinstated" : "crash_recovery";
    return { cause, fork: witnessed, limit };
  }
  // What arrived but was not valid log is cut off at the switch point; without that point, what
  // arrived proves nothing.
  const { switchedAt, streamed } = facts;
  const watched = switchedAt === null || streamed === null ? ZERO : minOffset(streamed, switchedAt);
  return { cause: "promotion", fork: maxOffset(witnessed, watched), limit: switchedAt };
}

/**
 * True when something of the previous epoch that every level had may be missing. `everywhere`: up
 * to where they had it, as far as the caller knows.
 */
export function mayLack(fork: Fork, everywhere: Offset): boolean {
  const end = keptEnd(fork);
  return fork.cause === "restored" || (end !== null && everywhere > end);
}
