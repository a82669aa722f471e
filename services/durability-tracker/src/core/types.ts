// The vocabulary of the tracker's core: what it knows, what it receives, what it asks its shell to
// do. Plain data, so that every incident can be written down and replayed.
import {
  type EpochGraph,
  type EpochId,
  type EpochRecord,
  type LevelRule,
  type Offset,
  type OwnedId,
  type TokenKind,
  type TxnId,
  type Verdict,
} from "@highwater/protocol";
import { type ExposureTotals, type OwnerAccount, type Source } from "./accounts.ts";
import { type Backlog, type BacklogView } from "./backlog.ts";
import { type HeapView, type OffsetHeap } from "./offset-heap.ts";
import { type Waiting } from "./waiting-table.ts";

export interface LogPosition {
  readonly epoch: EpochId;
  readonly offset: Offset;
}

export interface NodeSite {
  readonly id: string;
  readonly region: string;
  readonly zone: string;
}

export interface CoreConfig {
  readonly nodes: readonly NodeSite[];
  /** Weakest first. */
  readonly levels: readonly Level[];
  /** What is not durable at it counts as at risk. */
  readonly exposureLevel: string;
  /** A level whose mark stands still for so long, while something waits for it, is stalled. */
  readonly stallAfterMs: number;
  /** A node without a report for so long does not count among the survivors. */
  readonly aliveMs: number;
  /**
   * How long a tombstone may wait for the strongest level that the survivors can reach, before the
   * next weaker one.
   */
  readonly publishPatienceMs: number;
  /**
   * An id that was announced so long ago, has met its deadline and never got a position is settled.
   */
  readonly intentPatienceMs: number;
  /**
   * After its epoch ended an id without a position is settled so soon: time for its gateway to
   * withdraw it. See also proof.ts.
   */
  readonly intentGraceMs: number;
  /**
   * An entry that is durable at some level beyond the primary leaves after this time, whatever the
   * other levels do.
   */
  readonly keepDurableMs: number;
  /** Above this number the oldest of those leave sooner. */
  readonly maxKept: number;
  /** A final verdict is remembered for so long. */
  readonly keepVerdictMs: number;
  /** Ids in one look-up. */
  readonly batch: number;
  /** Attempts of one owner that are known by their tokens alone. */
  readonly tokensPerOwner: number;
}

interface Level {
  readonly name: string;
  readonly rule: LevelRule;
}

/**
 * What the tracker knows of one node. Positions belong to an epoch and are never compared across
 * epochs.
 */
export interface NodeState {
  readonly site: NodeSite;
  readonly reportedAtMs: number | null;
  readonly alive: boolean;
  /** What it said last of itself; null before its first word. */
  readonly role: "primary" | "replica" | null;
  readonly unfit: boolean;
  readonly incarnation: string | null;
  /** When the last of its reports that arrived was asked for. */
  readonly askedAtMs: number;
  /** Highest position on the node's disk that is known to be of the current epoch's log. */
  readonly position: Offset | null;
  /**
   * Up to where a confirmed stream has brought this very server process the current epoch's log.
   */
  readonly streamed: Offset | null;
  /** The stream that the primary shows under this name, and since when it was seen. */
  readonly feed: { readonly session: string; readonly sinceMs: number } | null;
  /** The feed during which the current epoch's row was read on the node itself. */
  readonly confirmedFeed: string | null;
  /**
   * A feed that is confirmed as soon as the primary, asked after `seenAtMs`, shows it once more.
   */
  readonly candidateFeed: { readonly session: string; readonly seenAtMs: number } | null;
  /**
   * The latest feeds of earlier lives of this server. The primary may go on showing them for a
   * while.
   */
  readonly endedFeeds: readonly string[];
  /**
   * The node's own name for its stream, seen with the epoch's row, and what it had on disk then.
   * Confirmed by a later word of the primary that shows more: of two streams only the one that is
   * alive gets there.
   */
  readonly ownStream: {
    readonly session: string;
    readonly seenAtMs: number;
    readonly hadThen: Offset;
    readonly confirmed: boolean;
  } | null;
}

export type EntryState =
  /** Announced before its COMMIT; nothing is known of how it ended. */
  | { readonly kind: "intent" }
  /** Committed at a place in the current epoch's history: marks decide. */
  | { readonly kind: "pending"; readonly position: LogPosition }
  /** Its epoch ended and its receipt must be looked up. */
  | { readonly kind: "unproven" }
  | { readonly kind: "asked"; readonly request: number }
  /** Proven absent as of a position; published once that position has reached the survivors. */
  | {
      readonly kind: "absent";
      readonly asOf: LogPosition;
      readonly sinceMs: number;
      readonly retriedIn: EpochId | null;
    }
  /**
   * Reported. `settledAt`: the level that the proof had reached. `broken`: levels (bits) whose
   * promise the loss violates.
   */
  | {
      readonly kind: "lost";
      /**
       * Where the newest proof stands. Null: another tracker had it, or it is to be asked for after
       * a restart.
       */
      readonly asOf: LogPosition | null;
      readonly settledAt: string;
      readonly retriedIn: EpochId | null;
      readonly reappeared: boolean;
      readonly broken: number;
      /** Its event has all that is known. */
      readonly isPublished: boolean;
    }
  | { readonly kind: "expired" }
  | { readonly kind: "unknown" };

/** One attempt of one transaction. */
export interface LedgerEntry {
  readonly key: string;
  readonly id: TxnId;
  readonly attempt: EpochId;
  readonly kind: TokenKind;
  /** A gateway announced it; otherwise somebody asked with a token. */
  readonly announced: boolean;
  /** Where it committed, as its token says; null while only its intent is known. */
  readonly origin: LogPosition | null;
  readonly state: EntryState;
  /** Levels (bits; see levels.ts) at which it was durable. Terminal. */
  readonly reached: number;
  readonly atMs: number;
  /**
   * Those who have announced an attempt and not taken it back; of no more interest once it has a
   * position.
   */
  readonly announcers: readonly string[];
  /** After `atMs`: by then every attempt that was announced has ended, or its gateway is gone. */
  readonly endsWithinMs: number;
  /** A client was answered whose token has another position than its origin. */
  readonly hasOtherTokens: boolean;
  readonly owner: OwnerAccount;
  /** The gateway that announced it; null when none did. */
  readonly source: Source | null;
  /** It is counted in the book of what is at risk. */
  readonly isExposed: boolean;
  readonly metadata: Readonly<Record<string, string>> | null;
}

/** A client asks for a report if it is not durable at the level by then. */
export interface Deadline extends OwnedId {
  readonly key: string;
  readonly attempt: EpochId;
  readonly level: string;
  readonly atMs: number;
}

export type Candidates =
  | { readonly kind: "known"; readonly nodes: readonly string[] }
  | { readonly kind: "unknown"; readonly reason: string };

/**
 * What the newest report of the current primary is worth for levels that count synchronous
 * standbys.
 */
export type SynchronousSet =
  /**
   * Everything at or below `offset` is on every node that the HA manager may promote; there are
   * `count`.
   */
  | { readonly kind: "known"; readonly count: number; readonly offset: Offset }
  /** `isManagers`: the HA manager has to do something first. */
  | { readonly kind: "unknown"; readonly reason: string; readonly isManagers: boolean };

/** How a level's mark has moved lately. */
interface Stall {
  readonly epoch: EpochId;
  readonly mark: Offset | null;
  readonly sinceMs: number;
  readonly isReported: boolean;
}

type Standing =
  | { readonly kind: "following"; readonly epoch: EpochId; readonly node: string }
  | { readonly kind: "unsettled"; readonly reason: string; readonly split: boolean };

/**
 * Attempts that were durable at a level before their positions came, and how long they took
 * together.
 */
export interface LateArrivals {
  readonly count: number;
  readonly sumMs: number;
}

/**
 * Readable everywhere, and writable in one module for each field: ownership.test.ts names it. The
 * other modules call its functions.
 */
export interface TrackerState {
  readonly config: CoreConfig;
  /** The bit of every level whose name anything may still say. */
  readonly levelBits: ReadonlyMap<string, number>;
  readonly nowMs: number;
  readonly topology: Topology;
  readonly ledger: Ledger;
  readonly proofs: Proofs;
  readonly exposure: ExposureTotals;
}

/** Whose log is current, the epochs, what nodes have of them, and the marks that follow. */
export interface Topology {
  readonly standing: Standing;
  /** When the current epoch was first seen. */
  readonly epochSinceMs: number;
  /**
   * The epoch that this process has seen end, when the current one began. Null when it has followed
   * no other since its start.
   */
  readonly seenEnd: EpochId | null;
  /**
   * By ended epoch, since when this process has known that it has ended; -Infinity: for longer than
   * `keepVerdictMs`, so that verdicts about it may have left the ledger.
   */
  readonly endedAtMs: ReadonlyMap<EpochId, number>;
  /** Every epoch record ever seen. */
  readonly epochs: EpochGraph;
  /** The current epoch and its ancestors, oldest first. */
  readonly ancestry: readonly EpochRecord[];
  readonly nodes: ReadonlyMap<string, NodeState>;
  /** Marks by epoch and level; those of ended epochs are final. Monotone. */
  readonly marks: ReadonlyMap<EpochId, ReadonlyMap<string, Offset>>;
  /** Highest flush position of the primary in the current epoch. */
  readonly primaryFlushed: Offset | null;
  /** The latest of the current primary's reports that was asked for. */
  readonly primaryReport: {
    readonly flushed: Offset;
    readonly askedAtMs: number;
    readonly receivedAtMs: number;
  } | null;
  /** An epoch whose primary went back behind what it had on disk: it is never current again. */
  readonly wentBack: EpochId | null;
  /**
   * Belongs to the current epoch, as positions do. Set as a whole: positions of one word are no use
   * with the set of another.
   */
  readonly synchronous: SynchronousSet;
  readonly stalls: ReadonlyMap<string, Stall>;
  /** Since when a pending entry is above the primary's flush position. */
  readonly unflushedSinceMs: number | null;
  readonly helping: boolean;
}

/** The attempts, and in which order they wait and leave. */
export interface Ledger {
  /**
   * Most of what waits for marks; all else of the ledger is in `entries`. No attempt is in both.
   */
  readonly backlog: BacklogView;
  readonly entries: ReadonlyMap<string, LedgerEntry>;
  /** By owner, how many of the entries were never announced. */
  readonly presented: ReadonlyMap<bigint, number>;
  /** What left the ledger before every level had it, in the order in which it did. */
  readonly departed: readonly Departed[];
  /** By level: attempts that were durable when their positions came, and are yet to be reported. */
  readonly late: ReadonlyMap<string, LateArrivals>;
  /** By time. */
  readonly deadlines: HeapView<Deadline>;
  /** Somebody subscribes to single transactions that have become durable. */
  readonly publishesDurable: boolean;
  /**
   * Entries in `pending`, by level, lowest offset first; entries that have moved on are skipped
   * when met.
   */
  readonly waiting: ReadonlyMap<string, HeapView<LedgerEntry>>;
  /** Entries in `pending` that wait in no heap: their epoch is not current here, or not yet. */
  readonly unplaced: ReadonlySet<string>;
  /** Entries in `absent`. */
  readonly absent: ReadonlySet<string>;
  /** Announced ids without a position, oldest first. */
  readonly intents: ReadonlySet<string>;
  /**
   * Entries that wait for nothing more, in the order in which they became so; they are remembered
   * for a while.
   */
  readonly finished: ReadonlyMap<string, number>;
  /** How far the round through the entries has come that looks for those old enough to leave. */
  readonly retiring: Iterator<LedgerEntry> | null;
  readonly highestPending: Offset;
}

export interface LookUp {
  readonly epoch: EpochId;
  readonly keys: readonly string[];
}

/** Entries that no mark can judge, by how far their proof has come; and broken promises. */
export interface Proofs {
  readonly unproven: ReadonlySet<string>;
  /**
   * Entries whose id another attempt held when it was to be settled, and since when; they are asked
   * about again later.
   */
  readonly held: ReadonlyMap<string, number>;
  /**
   * Entries whose event waits: for a current epoch, for its proof in the current history, or for
   * metadata.
   */
  readonly unpublished: ReadonlySet<string>;
  readonly asked: ReadonlyMap<number, LookUp>;
  readonly nextRequest: number;
  /** Promises by `epoch/level` that were reported as broken. */
  readonly brokenPromises: ReadonlySet<string>;
}

/** Writable again, for the module that owns the field. */
export type Own<T> = { -readonly [K in keyof T]: OwnField<T[K]> };

type OwnField<F> =
  F extends ReadonlyMap<infer K, infer V>
    ? Map<K, OwnField<V>>
    : F extends ReadonlySet<infer V>
      ? Set<V>
      : F extends BacklogView
        ? Backlog
        : F extends HeapView<infer V>
          ? OffsetHeap<V>
          : F;

export interface AnnouncedItem {
  readonly kind: "intent" | "position" | "withdrawn";
  readonly id: TxnId;
  readonly epoch: EpochId;
  readonly offset?: Offset;
  readonly owner?: bigint;
  /** Of an intent and of a withdrawal: the attempt. */
  readonly by?: string;
  /** Of an intent; 0 when it is left out. */
  readonly endsWithinMs?: number;
  readonly maxDelayMs?: number;
  /** Of `maxDelayMs`; the strongest when it is left out. */
  readonly level?: string;
  readonly metadata?: Readonly<Record<string, string>>;
}

export type ReceiptFact =
  | { readonly kind: "commit" | "aborted" | "lost"; readonly epoch: EpochId }
  | { readonly kind: "absent" | "expired" | "out_of_window" }
  /** Another attempt has the id, and may yet commit. */
  | { readonly kind: "held" };

export type TrackerEvent =
  | {
      readonly kind: "node_reported";
      readonly nowMs: number;
      readonly askedAtMs: number;
      readonly node: string;
      readonly role: "primary" | "replica";
      readonly incarnation: string;
      readonly epochs: readonly EpochRecord[];
      readonly unfit: boolean;
      readonly upstream: { readonly session: string; readonly flushed: Offset } | null;
      /** False: no stream feeds it now, whatever the primary shows. */
      readonly isFed?: boolean;
    }
  | { readonly kind: "node_unreachable"; readonly nowMs: number; readonly node: string }
  | {
      readonly kind: "positions_reported";
      readonly nowMs: number;
      readonly askedAtMs: number;
      readonly node: string;
      readonly epoch: EpochId;
      readonly flushed: Offset;
      readonly replicas: readonly {
        readonly node: string;
        readonly session: string;
        readonly flushed: Offset;
        /**
         * The primary took this stream for a synchronous one when it reported this position of it.
         * Absent: no.
         */
        readonly synchronous?: boolean;
      }[];
      /**
       * Whom the HA manager might have promoted at some moment after this was said. Absent: no
       * manager was asked.
       */
      readonly candidates?: Candidates;
    }
  | {
      readonly kind: "epoch_followed";
      readonly nowMs: number;
      readonly epoch: EpochId;
      readonly node: string;
    }
  | {
      readonly kind: "authority_unsettled";
      readonly nowMs: number;
      readonly reason: string;
      readonly split: boolean;
    }
  | {
      readonly kind: "announced";
      readonly nowMs: number;
      /** The gateway that says so, and its region. */
      readonly from?: { readonly gateway: string; readonly region: string };
      readonly items: readonly AnnouncedItem[];
      /** By epoch of the items, the one before it. */
      readonly parents?: Readonly<Record<EpochId, EpochId>>;
    }
  | {
      readonly kind: "token_presented";
      readonly nowMs: number;
      readonly id: TxnId;
      readonly owner: bigint;
      readonly attempt: EpochId;
      readonly tokenKind: TokenKind;
      readonly position: LogPosition;
      /** The epoch before that of its place, as the token says. */
      readonly parent?: EpochId | null;
      /** False: its holder may only ask, so nothing is kept that was not there before. */
      readonly mayEnter?: boolean;
    }
  | {
      readonly kind: "receipts_read";
      readonly nowMs: number;
      readonly request: number;
      readonly epoch: EpochId;
      readonly asOf: Offset;
      /** By `ownedName`. */
      readonly receipts: ReadonlyMap<string, ReceiptFact>;
    }
  | { readonly kind: "receipts_unread"; readonly nowMs: number; readonly request: number }
  /** Another tracker has reported them as broken: see peer-verdicts.ts. */
  | {
      readonly kind: "peer_verdicts_received";
      readonly nowMs: number;
      readonly peerVerdicts: readonly Published[];
    }
  /** Of an ended epoch, by replicas that have followed none since: up to where each has its log. */
  | {
      readonly kind: "witnesses_read";
      readonly nowMs: number;
      readonly epoch: EpochId;
      readonly reached: ReadonlyMap<string, Offset>;
    }
  /** `epoch`: of the help that has ended; when it is left out, the help that is in flight. */
  | { readonly kind: "flush_helped"; readonly nowMs: number; readonly epoch?: EpochId }
  /**
   * Other levels, or other rules for them. A level whose rule has changed keeps its mark: it was
   * true of the rule before.
   */
  | {
      readonly kind: "configured";
      readonly nowMs: number;
      readonly levels: readonly Level[];
      readonly exposureLevel: string;
    }
  | { readonly kind: "durable_wanted"; readonly nowMs: number; readonly wanted: boolean }
  | { readonly kind: "ticked"; readonly nowMs: number };

/** Verdicts of one attempt by level, with the rule and the evidence that gave them. */
export interface Published {
  readonly id: TxnId;
  readonly attempt: EpochId;
  readonly kind: TokenKind;
  /** Where it committed; null when only its intent is known. */
  readonly origin: LogPosition | null;
  readonly owner: bigint;
  readonly verdicts: Readonly<Record<string, Verdict>>;
  readonly rule: string;
  readonly settledAt: string;
  readonly retriedIn: EpochId | null;
  readonly metadata: Readonly<Record<string, string>> | null;
}

/** An attempt that has become durable at a level. */
export interface BecameDurable {
  readonly id: TxnId;
  readonly attempt: EpochId;
  /** Where it committed; null when only its look-up has found it. */
  readonly origin: LogPosition | null;
  readonly owner: bigint;
  readonly metadata: Readonly<Record<string, string>> | null;
}

/**
 * Of one owner in one part of an epoch's log. Ids are in the order of their texts, which is that of
 * their times.
 */
export interface OwnersDeparted {
  readonly transactions: number;
  readonly firstId: TxnId;
  readonly lastId: TxnId;
}

export interface Departed {
  /** Its key on disk. */
  readonly number: number;
  readonly epoch: EpochId;
  readonly from: Offset;
  readonly to: Offset;
  readonly transactions: number;
  readonly owners: ReadonlyMap<bigint, OwnersDeparted>;
}

export type Effect =
  | { readonly kind: "publish_marks"; readonly epoch: EpochId }
  | { readonly kind: "publish_epochs" }
  | { readonly kind: "publish_verdict"; readonly published: Published }
  /** Only while somebody subscribes to them. */
  | { readonly kind: "publish_durable"; readonly level: string; readonly items: readonly BecameDurable[] }
  /** So many have become durable at the level; the times of some of them stand for all. */
  | {
      readonly kind: "publish_lag";
      readonly level: string;
      readonly count: number;
      readonly lagsMs: readonly number[];
    }
  /** Not durable in the time that its client has set. Verdicts as they are now. */
  | { readonly kind: "publish_delayed"; readonly published: Published }
  | {
      readonly kind: "publish_stall";
      readonly isStalled: boolean;
      readonly level: string;
      readonly epoch: EpochId;
      readonly offset: bigint;
      readonly pending: number;
    }
  /**
   * Everything of the ended epoch above `from`, up to `to`, was promised by the level, and is not
   * in the current history.
   */
  | {
      readonly kind: "publish_broken_promise";
      readonly level: string;
      readonly epoch: EpochId;
      readonly from: bigint;
      readonly to: bigint;
      /** Those of them that the ledger holds. */
      readonly transactions: number;
    }
  /**
   * Of the ended epoch so many of the owner's had left the ledger, and may be missing from the
   * current history.
   */
  | {
      readonly kind: "publish_unlisted";
      readonly epoch: EpochId;
      readonly currentEpoch: EpochId;
      readonly owner: bigint;
      readonly transactions: number;
      readonly from: Offset;
      readonly to: Offset;
      readonly firstId: TxnId;
      readonly lastId: TxnId;
    }
  | {
      readonly kind: "read_receipts";
      readonly request: number;
      readonly node: string;
      readonly epoch: EpochId;
      readonly of: readonly OwnedId[];
      readonly tombstone: "lost" | "aborted";
    }
  /**
   * The primary had this on disk, and has only that now: another state was put under the running
   * server.
   */
  | {
      readonly kind: "disown_epoch";
      readonly node: string;
      readonly epoch: EpochId;
      readonly was: Offset;
      readonly now: Offset;
    }
  | { readonly kind: "help_flush"; readonly node: string; readonly epoch: EpochId }
  | { readonly kind: "save"; readonly entry: LedgerEntry }
  | { readonly kind: "save_waiting"; readonly item: Waiting }
  /** Every one of the backlog at or below. */
  | { readonly kind: "forget_waiting"; readonly through: Offset }
  /** The backlog is empty, and holds attempts of this epoch from now on. */
  | { readonly kind: "begin_waiting"; readonly epoch: EpochId }
  | { readonly kind: "save_levels" }
  | { readonly kind: "save_departed"; readonly part: Departed }
  | { readonly kind: "forget_departed"; readonly number: number }
  | { readonly kind: "forget"; readonly key: string }
  | { readonly kind: "save_epochs"; readonly records: readonly EpochRecord[] }
  /** Of an epoch whose record was never seen. */
  | { readonly kind: "save_parent"; readonly epoch: EpochId; readonly parent: EpochId }
  /** Verdicts about the epoch may have left the ledger; or it is current again. */
  | { readonly kind: "save_old_epoch"; readonly epoch: EpochId; readonly isOld: boolean }
  | { readonly kind: "save_marks"; readonly epoch: EpochId };
