// The store port: what Highwater needs from a replicated database, in terms of the domain. Only an
// adapter knows how a position, an epoch or a receipt is stored. One conformance suite tests all
// adapters.
import { type NodeSource } from "@highwater/authority";
import {
  type EpochId,
  type EpochRecord,
  type HighwaterError,
  type Isolation,
  type Offset,
  type Statement,
  type StatementResult,
  type TxnId,
} from "@highwater/protocol";

export interface StoreNode {
  readonly id: string;
  readonly region: string;
  readonly zone: string;
}

/** What a node's own tables prove of an epoch's log. */
export interface Witness {
  /** The log up to here is in the node's history. */
  readonly reached: Offset;
  /** The word itself is in the log at or below. */
  readonly seenBy: Offset;
  /** By level, the highest mark of the epoch that a service knew when it wrote its word. */
  readonly marks: Readonly<Record<string, string>>;
}

export interface ReplicaPosition {
  readonly node: string;
  /** One uninterrupted stream to the replica. */
  readonly session: string;
  readonly flushed: Offset;
  /**
   * The primary takes this stream for one of those that its own synchronous commits wait for, each
   * of them, at this moment.
   */
  readonly synchronous: boolean;
}

/** The primary's view of itself and its replicas, taken at one moment within one epoch. */
export interface PositionsReport {
  readonly node: string;
  readonly epoch: EpochId;
  /** Null while the server does not flush. */
  readonly flushed: Offset | null;
  readonly applied: Offset;
  /** Two streams that match one node are left out, and so is one that matches two. */
  readonly replicas: readonly ReplicaPosition[];
}

/** An operator's decision to continue with a database that lacks its epochs. */
export interface Adoption {
  /** The epochs that it gives up. */
  readonly overrules: readonly EpochId[];
  readonly reason: string;
  readonly issuedBy: string;
  /**
   * `intact`: only tables of the service are gone, so no receipt is no proof of a loss. `restored`:
   * the whole database was put back, so what has no receipt is absent.
   */
  readonly data: "intact" | "restored";
}

/** A session that was ended. */
export interface LockFlood {
  readonly role: string;
  readonly locks: number;
}

export interface MintRequest {
  /**
   * Lower bound for the new epoch's sequence number: one more than any that the caller has seen.
   */
  readonly minSeq: number;
  /**
   * Epochs known to the caller that the node's history lacks and that the command declares ended.
   */
  readonly supersedes: readonly EpochId[];
  readonly command: string | null;
  /**
   * The previous epoch's log is on this node at least up to here, as the caller saw it arrive in a
   * stream that is known to come from that epoch; valid only while the node is still in
   * `incarnation`.
   */
  readonly streamed: {
    readonly epoch: EpochId;
    readonly offset: Offset;
    readonly incarnation: string;
  } | null;
  /**
   * Marks that the caller has seen, by epoch and level. The record keeps those of the epoch before
   * it, which need not be the one that the caller has followed: offsets of one epoch say nothing of
   * another.
   */
  readonly finalMarks: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /**
   * By epoch: up to here every level has it, as far as the caller has seen. No caller settles such
   * an id again.
   */
  readonly everywhere?: Readonly<Record<string, string>>;
}

/**
 * Counts the memory that the rows of one call take. The caller that gave it to the store gives the
 * memory back.
 */
export interface ResultMeter {
  /**
   * Null: it has found room for all rows so far. Otherwise the error of a read that had to leave
   * out rows.
   */
  readonly refusal: HighwaterError | null;
  /** False: there is no room for so much, and nothing was counted. */
  take(bytes: number): boolean;
  /** Counts what is there already. */
  note(bytes: number): void;
}

/** How much of the results is kept. */
export interface ResultLimits {
  /** Per statement. */
  readonly maxRows: number;
  /** Of all results together. */
  readonly maxBytes: number;
  /** The columns' tables and types in full, not only names and type ids. */
  readonly fieldDetails?: boolean | undefined;
  /** Rows for which it has no room are left out. */
  readonly meter?: ResultMeter | undefined;
}

/** A column, when `fieldDetails` were asked for. */
export interface FieldDetails {
  readonly name: string;
  readonly oid: number;
  readonly tableOid: number;
  readonly columnNumber: number;
  readonly typeSize: number;
  readonly typeModifier: number;
}

/**
 * What a receipt is found by. The tag is a UUID that only the deployment can compute, from the
 * transaction's owner and id: a row under the same id with another tag is another transaction's, or
 * forged. A tag appears in no log, error or answer.
 */
export interface ReceiptKey {
  readonly id: TxnId;
  readonly tag: string;
}

export interface TransactionSpec extends ResultLimits, ReceiptKey {
  /** The epoch in which the request arrived; it runs in this one or not at all. */
  readonly epoch: EpochId;
  readonly statements: readonly Statement[];
  readonly isolation: Isolation;
  readonly readOnly: boolean;
  /** Waits for a safe snapshot; only with `serializable` and `readOnly`. */
  readonly deferrable?: boolean;
  /** The database's login role that runs it; the service's application role when null or absent. */
  readonly role?: string | null;
  /**
   * Names the owner, key, role and access that it runs for. Sessions keep nothing from one
   * principal to another.
   */
  readonly principal?: string;
  /**
   * A digest of what it runs, kept in the receipt. Signed 64-bit, and 0 only for a read, which
   * writes no receipt.
   */
  readonly digest: bigint;
  /** The service's own when null or absent. */
  readonly statementTimeoutMs?: number | null;
  readonly lockTimeoutMs?: number | null;
  /**
   * Of a write: its caller will have ended it after so long. A service that settles its id leaves
   * it alone until then. When absent, nothing is promised: the limits of others count.
   */
  readonly limitMs?: number;
  readonly onBeforeSend?: BeforeSend;
}

/**
 * Called in the tick in which a transaction leaves for the database, before any of it has left;
 * once more when it is sent again. Not called for a transaction that is refused or cancelled
 * before. It must not throw.
 */
export type BeforeSend = () => void;

export type Execution =
  | {
      readonly kind: "committed";
      /**
       * `offset` is an upper bound of the commit record's place, unless `exact`; of a read: of
       * everything that it could see.
       */
      readonly offset: Offset;
      readonly exact: boolean;
      /**
       * Of a read: what it could see was on the primary's disk already, so there is nothing to help
       * along.
       */
      readonly isFlushed?: boolean;
      readonly results: readonly StatementResult[];
    }
  /** A receipt with this id and tag exists: nothing was run, the original outcome counts. */
  | { readonly kind: "already_settled" };

/**
 * A transaction that stays open between calls; one call at a time. It holds a session until it has
 * ended: by `commit`, by `rollback`, or by an error whose `isOver` is true.
 */
export interface OpenTransaction {
  /** Names its session, in any process of the service. */
  readonly holder: string;
  /**
   * True when nothing is open any more: it has ended, or its session is lost and with it everything
   * it did.
   */
  readonly isOver: boolean;
  /**
   * One round trip. After a failed statement only a ROLLBACK TO SAVEPOINT runs in it.
   * Errors: HighwaterError; `transaction_aborted` when the session is lost. `meter`: of this call
   * alone.
   */
  run(
    statements: readonly Statement[],
    signal?: AbortSignal,
    meter?: ResultMeter,
  ): Promise<readonly StatementResult[]>;
  /**
   * Ends it. `results` are those of the statements that rode along. Errors as those of `execute`.
   */
  commit(statements: readonly Statement[], options?: OpenCommitOptions): Promise<Execution>;
  /** Ends it, whatever is running in it. Never rejects. */
  rollback(): Promise<void>;
}

export interface OpenCommitOptions {
  readonly signal?: AbortSignal | undefined;
  /** Of this call alone. */
  readonly meter?: ResultMeter | undefined;
  readonly onBeforeSend?: BeforeSend | undefined;
}

export type Opening =
  | {
      readonly kind: "open";
      readonly transaction: OpenTransaction;
      readonly results: readonly StatementResult[];
    }
  | { readonly kind: "already_settled" };

export interface ReplicaRead extends ResultLimits {
  readonly statements: readonly Statement[];
  /** A replica has no serializable snapshots. */
  readonly isolation: Exclude<Isolation, "serializable">;
  readonly role?: string | null;
  /** As in a TransactionSpec. */
  readonly principal?: string;
  /** The snapshot has to contain this epoch's log up to here. */
  readonly after: { readonly epoch: EpochId; readonly offset: Offset } | null;
  readonly statementTimeoutMs?: number | null;
}

export type ReplicaReading =
  | {
      readonly kind: "read";
      readonly results: readonly StatementResult[];
      /**
       * Upper bound of everything that the snapshot shows: the newest epoch in it, and what had
       * been replayed behind it.
       */
      readonly position: { readonly epoch: EpochId; readonly offset: Offset };
      /**
       * Age of the newest commit that it has replayed; null when it has replayed none since it
       * started.
       */
      readonly ageMs: number | null;
    }
  /**
   * The node has not got `after` yet, or does not know which history it is on, or is no replica.
   * Nothing was run.
   */
  | { readonly kind: "behind" };

export interface Receipt {
  readonly kind: "commit" | "aborted" | "lost";
  readonly epoch: EpochId;
  /** As the transaction said; 0 for a tombstone. */
  readonly digest: bigint;
}

/**
 * `absent`: no receipt, and none was written. `held`: a transaction that may still commit has the
 * id, so it was not settled. `expired`: older than the receipts that are kept.
 */
export type ReceiptState =
  | Receipt
  | { readonly kind: "absent" }
  | { readonly kind: "held" }
  | { readonly kind: "expired" }
  | { readonly kind: "out_of_window" };

export interface ReceiptsAsOf {
  /** One for each key that was asked for, in their order. */
  readonly receipts: readonly ReceiptState[];
  /** End of the log in `epoch`, read after the receipts on the same connection. */
  readonly epoch: EpochId;
  readonly asOf: Offset;
}

/**
 * Only for transactions that were announced, or that a valid token names: the store keeps what is
 * written here.
 */
export interface SettleRequest {
  readonly epoch: EpochId;
  readonly keys: readonly ReceiptKey[];
  readonly tombstone: "aborted" | "lost";
  readonly patienceMs: number;
}

export interface RetentionReport {
  /** Ids older than this are expired. */
  readonly expiredBeforeMs: number;
  /** Receipts of ids below this time can be written. */
  readonly ceilingMs: number;
  /** Where the log ended when `serverTimeMs` was read. */
  readonly position: { readonly epoch: EpochId; readonly offset: Offset };
  readonly serverTimeMs: number;
}

/** What the store keeps of a key of the deployment. */
export interface KeyCheck {
  readonly kid: number;
  readonly validFromMs: number;
  /** A MAC by the key, as 32 hexadecimal digits. */
  readonly value: string;
}

/** The sessions of all login roles together. */
export interface PoolReport {
  readonly node: string;
  readonly use: "write" | "read";
  readonly busy: number;
  readonly idle: number;
  /** Transactions that wait for a session. */
  readonly waiting: number;
}

/** Gets what only the store can know. Called on the path of every transaction. */
export interface StoreObserver {
  /** A one-shot transaction has waited for a session for so long, and goes on its way now. */
  onWaited(waitedMs: number): void;
  /**
   * A role that only reads has rights that it should not have, which only an operator can take
   * away.
   */
  onUnprotected(node: string, role: string, rights: readonly string[]): void;
}

export interface Store extends NodeSource {
  readonly nodes: readonly StoreNode[];
  /**
   * Creates or upgrades the service's tables on the primary; idempotent, safe when two run it at
   * once.
   */
  prepare(node: string): Promise<void>;
  /** The highest witness of the epoch that the node has replayed; null when it has none. */
  witnessOf(node: string, epoch: EpochId): Promise<Witness | null>;
  /**
   * The primary's and its replicas' positions; cheap, made to be called hundreds of times a second.
   * Null: no epoch minted. `wanted`: the highest offset that somebody waits for. A replica that has
   * to be asked itself can only prove what was witnessed, and then that offset is.
   */
  positions(node: string, wanted?: Offset | null): Promise<PositionsReport | null>;
  /**
   * Begins the epoch of a primary that has none, or returns the one that somebody else has just
   * begun.
   */
  mint(node: string, request: MintRequest): Promise<EpochRecord>;
  /**
   * Ends the epoch where it is current, as after a restore: the log is no proof of anything that
   * was committed in it, and the next epoch carries over only what has its receipt. Nothing where
   * another epoch is current. For the primary.
   */
  disownEpoch(node: string, epoch: EpochId): Promise<void>;
  /**
   * Ends the sessions of applications that hold so many locks that others may get none: not even a
   * login. On any node, also a replica.
   */
  endLockFloods(node: string): Promise<readonly LockFlood[]>;
  /**
   * How much of the node's queue of notifications is taken, from 0 to 1. When it is full, no
   * transaction that notifies can commit.
   */
  notificationQueueUsage(node: string): Promise<number>;
  /**
   * Names of applications' tables, a few of them, whose rows are not in the log: a failover empties
   * them. For the primary.
   */
  unloggedTables(node: string): Promise<readonly string[]>;
  /**
   * Raises the final marks in the epoch's record, by level, where they are lower: others have seen
   * more of the epoch before it than the service that began it. Nothing where the node has no such
   * record. For the primary.
   */
  raiseFinalMarks(node: string, epoch: EpochId, marks: Readonly<Record<string, string>>): Promise<void>;
  /**
   * Runs a whole transaction in one round trip. The signal cancels what is running, unless it has
   * committed by then; what became of the transaction is answered all the same.
   * Errors: HighwaterError; `outcome: unknown` when the connection died with the COMMIT on its way.
   */
  execute(node: string, spec: TransactionSpec, signal?: AbortSignal): Promise<Execution>;
  /**
   * Opens an interactive transaction; the statements ride along.
   * Errors: HighwaterError; nothing has been applied, and nothing is open.
   */
  begin(node: string, spec: TransactionSpec, signal?: AbortSignal): Promise<Opening>;
  /** Runs a read-only transaction on a replica. Errors: HighwaterError. */
  readReplica(node: string, read: ReplicaRead, signal?: AbortSignal): Promise<ReplicaReading>;
  /**
   * Brings everything committed so far to the primary's disk and wakes the streams to the replicas.
   * Answers a position at or above everything that had been committed when this was called, which
   * is on the disk. `marks`: those of the epoch that the caller knows, for its witness.
   */
  helpFlush(node: string, epoch: EpochId, marks?: Readonly<Record<string, string>>): Promise<Offset>;
  lookUp(node: string, keys: readonly ReceiptKey[]): Promise<ReceiptsAsOf>;
  /**
   * Where the primary's log ends now, and in which epoch: at or above everything that had been
   * committed when this was called. Cheap, made to be called thousands of times a second. Errors:
   * `epoch_changed` where the node has no epoch.
   */
  logEnd(node: string): Promise<{ readonly epoch: EpochId; readonly offset: Offset }>;
  /**
   * Looks the keys up and writes a tombstone for each absent one, so that it can never commit
   * again; durable on the primary when this resolves. It waits for those who hold keys for
   * `patienceMs` or up to a few seconds longer. If many are held, it waits for some of them. With 0
   * it settles those that are free, and no call that waits delays it. A session is ended for
   * holding a key only if it was given up, or if its transaction is older than the limit of any
   * gateway (`limitMs`); a key that a living transaction holds is `held`.
   */
  settle(node: string, request: SettleRequest): Promise<ReceiptsAsOf>;
  /**
   * The session that this names (`OpenTransaction.holder`) may be ended if it is found to hold the
   * key when that is settled.
   */
  giveUp(node: string, key: ReceiptKey, holder: string): void;
  /**
   * Makes room for the receipts of the next ids, and drops those of ids older than `expireBeforeMs`
   * if given.
   */
  maintain(node: string, request: { readonly expireBeforeMs: number | null }): Promise<RetentionReport>;
  /**
   * Why no session of a client may run as the login role; empty when it may. Settings of its own
   * are no reason: no other client has its sessions. `reads`: its client may only read.
   */
  roleFaults(node: string, role: string, reads: boolean): Promise<readonly string[]>;
  /** Of every key that a service of the deployment has published. For the primary. */
  keyChecks(node: string): Promise<readonly KeyCheck[]>;
  /** Adds those of keys that have none yet. For the primary. */
  addKeyChecks(node: string, checks: readonly KeyCheck[]): Promise<void>;
  /** How busy the sessions are in which transactions run, of those that have been opened so far. */
  pools(): readonly PoolReport[];
  /** From now on the observer is called; there is one at most. */
  observe(observer: StoreObserver): void;
  /**
   * Drops every connection to the node that writes; those that are opened later are checked anew.
   */
  forget(node: string): void;
  close(): Promise<void>;
}
