// What the tracker's core knows. Plain data, so that every incident can be written down and
// replayed.
import {
  type EpochGraph,
  type EpochId,
  type EpochRecord,
  type LevelRule,
  type Offset,
  type OwnedId,
  type TokenKind,
  type TxnId,
} from "@highwater/protocol";
import { type ExposureTotals, type OwnerAccount, type Source } from "./accounts.ts";
import { type Backlog, type BacklogView } from "./backlog.ts";
import { type HeapView, type OffsetHeap } from "./offset-heap.ts";

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
  /** The difference of two offsets is a number of bytes of log. */
  readonly countsBytes: boolean;
  /** The answer to a commit meets every level with the rule `primary`. */
  readonly commitsDurably: boolean;
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

export interface Level {
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
  readonly kind: Exclude<TokenKind, "position">;
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
  /** An amount and its unit; null: none. */
  readonly atRisk: string | null;
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
