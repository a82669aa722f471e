// Finds where the previous epoch's log ends in this history: a pure rule over what a node's log and
// its server can prove. All adapters whose store is one physical log share it; each gathers the
// facts itself.
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
 * `fork`: this history contains the previous epoch's log at least up to here. `limit`: this history
 * left that log exactly here. After `clean_restart` and `reinstated`, null means that this history
 * has all of that log, and the log may have gone on. After any other cause, null means that the
 * limit is not known. An upper bound must not stand in for it: it would report reads of lost data
 * as durable and hide a broken promise.
 */
export interface Fork {
  readonly cause: EpochCause;
  readonly fork: Offset;
  readonly limit: Offset | null;
}

export interface ForkFacts {
  /** The newest complete epoch record in this history; null in a database that has none. */
  readonly previous: { readonly id: EpochId; readonly startOffset: Offset } | null;
  /** No recovery has run on this data since the previous epoch began on it. */
  readonly unrecovered: boolean;
  /**
   * The server on which the previous epoch began is still running, so transactions of that epoch
   * may be committing right now.
   */
  readonly sameServer: boolean;
  /**
   * A restore wrote this data, or it was copied from another database. No log proves how much it
   * contains, and neither does a row that it brought along.
   */
  readonly isCopy: boolean;
  /**
   * The data was moved into another database system, whose log is not a continuation of the
   * previous epoch's.
   */
  readonly foreignLog: boolean;
  /** The node was promoted after the previous epoch began. */
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
   * How far the caller saw the stream of the previous epoch arrive on this node. Null unless the
   * node has been running without a restart since then.
   */
  readonly streamed: Offset | null;
  readonly supersedes: boolean;
}

/**
 * Finds the fork offset and its limit. The switch point of a promotion is where this history left
 * the old primary's log. It proves nothing about the log below: the old primary may have crashed
 * and recovered before the switch without beginning an epoch, and the log then has other records in
 * place of the lost ones. The lower bound needs proof from this history (the epoch's record and its
 * witnesses), or an uninterrupted stream that the caller watched.
 * (docs/decisions/0003-fork-offset-is-witnessed.md, 0176-a-fork-limit-is-exact.md)
 */
export function forkOf(facts: ForkFacts): Fork {
  const { previous, end, promoted } = facts;
  if (previous === null) {
    // An operator gives up the other nodes' history for this node.
    if (facts.supersedes) return { cause: "restored", fork: ZERO, limit: ZERO };
    return { cause: "first", fork: ZERO, limit: ZERO };
  }
  // A witness proves nothing in a copy: a dump can contain a witness and lack a transaction that
  // came before it in the log and became visible after it. The epoch's record is older than each
  // transaction of the epoch.
  if (facts.isCopy) return { cause: "restored", fork: previous.startOffset, limit: null };
  if (facts.unrecovered && !promoted && !facts.foreignLog) {
    // The server was stopped cleanly, or not at all: this history has all of the log.
    const cause = facts.supersedes ? "reinstated" : "clean_restart";
    return { cause, fork: end, limit: facts.sameServer ? null : end };
  }
  // The highest witness names its own offset, and this history contains that row: everything up to
  // the offset is here.
  const witnessed = maxOffset(previous.startOffset, facts.witnessed ?? ZERO);
  if (facts.foreignLog) return { cause: "crash_recovery", fork: witnessed, limit: null };
  if (!promoted) {
    // Log written since the recovery belongs to no epoch. If an older copy was restored, it may
    // have replaced the lost end of the log.
    const limit = facts.recoveredAt;
    const cause = facts.supersedes && limit !== null ? "reinstated" : "crash_recovery";
    return { cause, fork: witnessed, limit };
  }
  // The switch point cuts off received bytes that are not valid log. Without a switch point, the
  // received bytes prove nothing.
  const { switchedAt, streamed } = facts;
  const watched = switchedAt === null || streamed === null ? ZERO : minOffset(streamed, switchedAt);
  return { cause: "promotion", fork: maxOffset(witnessed, watched), limit: switchedAt };
}

/**
 * True when a transaction that every level covered in the previous epoch may be missing.
 * `everywhere`: the offset that every level had reached, as far as the caller knows.
 */
export function mayLack(fork: Fork, everywhere: Offset): boolean {
  const end = keptEnd(fork);
  return fork.cause === "restored" || (end !== null && everywhere > end);
}
