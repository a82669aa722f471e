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

/** What a node's own tables prove about an epoch's log. */
export interface Witness {
  /** The log up to here is in the node's history. */
  readonly reached: Offset;
  /** The witness itself is in the log at or below this offset. */
  readonly seenBy: Offset;
  /** By level, the epoch's highest mark that a service knew when it wrote the witness. */
  readonly marks: Readonly<Record<string, string>>;
}

export interface ReplicaPosition {
  readonly node: string;
  /** One uninterrupted stream to the replica. */
  readonly session: string;
  readonly flushed: Offset;
  /**
   * Whether the primary's own synchronous commits now wait for this stream, and for every other one
   * that is marked so.
   */
  readonly synchronous: boolean;
}

/** The primary's view of itself and its replicas, taken at one moment within one epoch. */
export interface PositionsReport {
  readonly node: string;
  readonly epoch: EpochId;
  /** Null while the server flushes nothing. */
  readonly flushed: Offset | null;
  readonly applied: Offset;
  /** Leaves out two streams that match one node, and a stream that matches two nodes. */
  readonly replicas: readonly ReplicaPosition[];
}

/** An operator's decision to continue with a database that lacks its epochs. */
export interface Adoption {
  /** The epochs that it gives up. */
  readonly overrules: readonly EpochId[];
  readonly reason: string;
  readonly issuedBy: string;
  /**
   * `intact`: only tables of the service are gone, so a missing receipt does not prove a loss.
   * `restored`: the whole database was restored, so a transaction without a receipt is absent.
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
  /**
   * Before the epoch opens, every sequence is advanced by so many values, so that none which a lost
   * transaction got is handed out again. 0 or absent: none is.
   */
  readonly sequenceReserve?: number;
  /**
   * For so long at most gateways admit no write in the epoch, because lost transactions are brought
   * back first. 0 or absent: they do at once.
   */
  readonly replayHoldMs?: number;
  /** Called for each part of the sequences. */
  readonly onReserved?: (reserved: Reserved) => void;
}

export interface Reserved {
  readonly advanced: number;
  /** Why a sequence was not advanced, or by less, by its name. */
  readonly problems: Readonly<Record<string, string>>;
  /** How many more have problems. */
  readonly unnamed: number;
}

/**
 * Counts the memory that the rows of one call take. The caller that passes it to the store also
 * frees the memory.
 */
export interface ResultMeter {
  /**
   * Null while there was room for all rows. Otherwise the error of a read that had to leave out
   * rows.
   */
  readonly refusal: HighwaterError | null;
  /** Takes memory. False: there is not enough, and nothing was counted. */
  take(bytes: number): boolean;
  /** Counts memory that is in use already. */
  note(bytes: number): void;
}

/** Limits of the results that are kept. */
export interface ResultLimits {
  /** Per statement. */
  readonly maxRows: number;
  /** Of all results together. */
  readonly maxBytes: number;
  /** Whether columns come with their tables and full types, not only with names and type ids. */
  readonly fieldDetails?: boolean | undefined;
  /** Rows that it has no room for are left out. */
  readonly meter?: ResultMeter | undefined;
}

/** A column, if `fieldDetails` is set. */
export interface FieldDetails {
  readonly name: string;
  readonly oid: number;
  readonly tableOid: number;
  readonly columnNumber: number;
  readonly typeSize: number;
  readonly typeModifier: number;
}

/**
 * The key of a receipt. The tag is a UUID that only the deployment can compute, from the
 * transaction's owner and id. A row with the same id and another tag belongs to another
 * transaction, or is forged. A tag appears in no log, error or answer.
 */
export interface ReceiptKey {
  readonly id: TxnId;
  readonly tag: string;
}

export interface TransactionSpec extends ResultLimits, ReceiptKey {
  /** The epoch in which the request arrived. It runs in this epoch or not at all. */
  readonly epoch: EpochId;
  readonly statements: readonly Statement[];
  readonly isolation: Isolation;
  readonly readOnly: boolean;
  /** Waits for a safe snapshot; only with `serializable` and `readOnly`. */
  readonly deferrable?: boolean;
  /** The database's login role that runs it. Null or absent: the service's application role. */
  readonly role?: string | null;
  /**
   * Names the owner, key, role and access that it runs for. A session carries nothing over from one
   * principal to another.
   */
  readonly principal?: string;
  /**
   * A digest of its statements, kept in the receipt. Signed 64-bit. 0 only for a read, which writes
   * no receipt.
   */
  readonly digest: bigint;
  /** Null or absent: the service's own limit. */
  readonly statementTimeoutMs?: number | null;
  readonly lockTimeoutMs?: number | null;
  /**
   * For a write: its caller ends it within this time. Until then, a service that settles its id
   * does not end its session. Absent: the caller promises nothing, and the limits of other
   * transactions count.
   */
  readonly limitMs?: number;
  /** For a write: its execution says in which order it stands to others. */
  readonly tellsOrder?: boolean;
  readonly onBeforeSend?: BeforeSend;
}

/** A statement with its parameters as a client of the PostgreSQL wire sent them. */
export interface AsSent extends Statement {
  /** The types that the client declared. */
  readonly types?: readonly number[] | undefined;
  /** Indexes of parameters in the binary format; their texts are base64. */
  readonly binary?: readonly number[] | undefined;
}

/** A write's transaction id, and which transactions its last snapshot shows. */
export interface CommitOrder {
  readonly xid: string;
  readonly snapshot: string;
}

/**
 * Called just before a transaction is sent to the database, in the same tick, and once more when it
 * is sent again. Not called for a transaction that is refused or cancelled before. Must not throw.
 */
export type BeforeSend = () => void;

export type Execution =
  | {
      readonly kind: "committed";
      /**
       * Unless `exact`, an upper bound of the commit record's position. For a read, an upper bound
       * of everything that it could see.
       */
      readonly offset: Offset;
      readonly exact: boolean;
      /** For a read: what it could see was on the primary's disk already, so no flush is needed. */
      readonly isFlushed?: boolean;
      readonly order?: CommitOrder;
      readonly results: readonly StatementResult[];
    }
  /** A receipt with this id and tag exists: nothing ran, and the original outcome counts. */
  | { readonly kind: "already_settled" };

/**
 * A transaction that stays open between calls, one call at a time. It holds a session until it
 * ends: by `commit`, by `rollback`, or by an error after which `isOver` is true.
 */
export interface OpenTransaction {
  /** Names its session, for any process of the service. */
  readonly holder: string;
  /**
   * True when the transaction is no longer open: it has ended, or its session is lost with
   * everything that it did.
   */
  readonly isOver: boolean;
  /**
   * Runs statements in one round trip. After a failed statement it runs only ROLLBACK TO SAVEPOINT.
   * `meter` counts this call alone. Errors: HighwaterError; `transaction_aborted` when the session
   * is lost.
   */
  run(
    statements: readonly Statement[],
    signal?: AbortSignal,
    meter?: ResultMeter,
  ): Promise<readonly StatementResult[]>;
  /**
   * Commits it, after the statements of this call. `results` are those of these statements. Errors:
   * those of `execute`.
   */
  commit(statements: readonly Statement[], options?: OpenCommitOptions): Promise<Execution>;
  /** Rolls it back, even while a call runs in it. Never rejects. */
  rollback(): Promise<void>;
}

export interface OpenCommitOptions {
  readonly signal?: AbortSignal | undefined;
  /** Counts this call alone. */
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
  /** A replica cannot take serializable snapshots. */
  readonly isolation: Exclude<Isolation, "serializable">;
  readonly role?: string | null;
  /** See TransactionSpec. */
  readonly principal?: string;
  /** The snapshot must contain this epoch's log up to this offset. */
  readonly after: { readonly epoch: EpochId; readonly offset: Offset } | null;
  readonly statementTimeoutMs?: number | null;
}

export type ReplicaReading =
  | {
      readonly kind: "read";
      readonly results: readonly StatementResult[];
      /**
       * Upper bound of everything that the snapshot shows: the newest epoch in it, and the end of
       * the replayed log.
       */
      readonly position: { readonly epoch: EpochId; readonly offset: Offset };
      /**
       * Age of the newest commit that it has replayed. Null: it has replayed none since it started.
       */
      readonly ageMs: number | null;
    }
  /**
   * The node does not have `after` yet, does not know which history it is on, or is not a replica.
   * Nothing ran.
   */
  | { readonly kind: "behind" };

export interface Receipt {
  readonly kind: "commit" | "aborted" | "lost";
  readonly epoch: EpochId;
  /** The digest of the transaction; 0 for a tombstone. */
  readonly digest: bigint;
  /** Lost, and another transaction has brought it back. */
  readonly isRedone?: true;
}

/**
 * `absent`: there is no receipt, and none was written. `held`: a transaction that may still commit
 * has the id, so it was not settled. `expired`: the id is older than the receipts that are kept.
 */
export type ReceiptState =
  | Receipt
  | { readonly kind: "absent" }
  | { readonly kind: "held" }
  | { readonly kind: "expired" }
  | { readonly kind: "out_of_window" };

export interface ReceiptsAsOf {
  /** One for each requested key, in the same order. */
  readonly receipts: readonly ReceiptState[];
  /** End of the log in `epoch`, read after the receipts on the same connection. */
  readonly epoch: EpochId;
  readonly asOf: Offset;
}

/**
 * Use it only for transactions that were announced, or that a valid token names: the store keeps
 * what it writes.
 */
export interface SettleRequest {
  readonly epoch: EpochId;
  readonly keys: readonly ReceiptKey[];
  readonly tombstone: "aborted" | "lost";
  readonly patienceMs: number;
}

export interface RetentionReport {
  /** Ids older than this have expired. */
  readonly expiredBeforeMs: number;
  /** Ids below this time can get receipts. */
  readonly ceilingMs: number;
  /** Where the log ended when `serverTimeMs` was read. */
  readonly position: { readonly epoch: EpochId; readonly offset: Offset };
  readonly serverTimeMs: number;
}

/** The store's record of one of the deployment's keys. */
export interface KeyCheck {
  readonly kid: number;
  readonly validFromMs: number;
  /** A MAC by the key, as 32 hexadecimal digits. */
  readonly value: string;
}

/** The load of the sessions of all login roles together. */
export interface PoolReport {
  readonly node: string;
  readonly use: "write" | "read";
  readonly busy: number;
  readonly idle: number;
  /** Transactions that wait for a session. */
  readonly waiting: number;
}

/**
 * Receives what only the store can know. Called on the path of every transaction, so it must be
 * fast.
 */
export interface StoreObserver {
  /** A one-shot transaction has waited this long for a session, and has one now. */
  onWaited(waitedMs: number): void;
  /** A role that only reads has these rights, which only an operator can revoke. */
  onUnprotected(node: string, role: string, rights: readonly string[]): void;
}

/** The settings `highwater.*` of a session that the checks of the wire answer, in this order. */
export const WIRE_SETTINGS = [
  "ack",
  "level",
  "max_wait",
  "read_ack",
  "id",
  "reads",
  "at_risk",
  "keep",
] as const;

/**
 * What the PostgreSQL wire says to the database in a client's session, besides the client's own
 * messages. All names in the statements are safe from the session's search_path. Each check answers
 * one row of texts.
 */
export interface WireStatements {
  /**
   * Parameters of every session's startup message, whatever the client asks for: no COMMIT waits in
   * the database for more than the database's own promise.
   */
  readonly parameters: Readonly<Record<string, string>>;
  /**
   * Asks whether the transaction has written, or will when it commits (`t` or `f`), for the
   * WIRE_SETTINGS, and for the current role.
   */
  readonly check: string;
  /**
   * The same, and writes the receipt if the transaction has written: $1 id, $2 tag, $3 epoch, $4
   * digest. `types`: the types of the first parameters. One more column: `t` if the receipt is
   * written. No receipt if the id has changed since the settings were read, or where it would fail.
   */
  readonly receipt: { readonly text: string; readonly types: readonly number[] };
  /**
   * The receipt of a transaction whose contents are kept. Four more columns: its id and snapshot in
   * the database, its isolation level, and facts of the session as a text of JSON.
   */
  readonly keptReceipt: string;
  /** Asks whether the role can write receipts in this database (`t` or `f`), and for the role. */
  readonly probe: string;
  /**
   * The check at a replica: two more columns, `highwater.after` and the transaction's isolation
   * level.
   */
  readonly readCheck: string;
  /** A statement that fails with this error and undoes its transaction. `code`: SQLSTATE. */
  failing(error: {
    readonly code: string;
    readonly message: string;
    readonly hint?: string | undefined;
  }): string;
}

/**
 * Offsets are whole numbers of up to 64 digits whose order is the order of an epoch's log: what is
 * at or below an offset has been committed before it. How an adapter makes them is its own affair.
 */
export interface Store extends NodeSource {
  readonly nodes: readonly StoreNode[];
  /**
   * The difference of two offsets of an epoch is a number of bytes of its log. False: it means
   * nothing, and no service reports it.
   */
  readonly countsBytes: boolean;
  /**
   * The database answers a commit when it has what a level with the rule `primary` promises, so the
   * answer itself meets such a level. False: it answers sooner, and positions() says when it has.
   */
  readonly commitsDurably: boolean;
  /** Null: the PostgreSQL wire cannot stand before this store. */
  readonly wire: WireStatements | null;
  /**
   * Creates or upgrades the service's tables on the primary. Idempotent, and safe when two
   * processes run it at once.
   */
  prepare(node: string): Promise<void>;
  /** Returns the epoch's highest witness that the node has replayed, or null. */
  witnessOf(node: string, epoch: EpochId): Promise<Witness | null>;
  /**
   * Returns the positions of the primary and its replicas. Cheap enough for hundreds of calls a
   * second. Null: the primary has no epoch. `wanted`: the highest offset that is waited for. A
   * replica that must be asked itself can prove only witnessed offsets, so this one is witnessed.
   */
  positions(node: string, wanted?: Offset | null): Promise<PositionsReport | null>;
  /**
   * Begins the epoch of a primary that has none, or returns the one that another process has just
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
   * Ends the sessions of applications that hold so many locks that others may get none, not even
   * for a login. Works on any node, also on a replica.
   */
  endLockFloods(node: string): Promise<readonly LockFlood[]>;
  /**
   * Returns how full the node's queue of notifications is, from 0 to 1. When it is full, no
   * transaction with a NOTIFY can commit.
   */
  notificationQueueUsage(node: string): Promise<number>;
  /**
   * Returns the names of some tables of applications whose rows are not in the log, so that a
   * failover empties them. For the primary.
   */
  unloggedTables(node: string): Promise<readonly string[]>;
  /**
   * Raises the final marks in the epoch's record, by level, where they are lower: others have seen
   * more of the epoch before it than the service that began it. Nothing where the node has no such
   * record. For the primary.
   */
  raiseFinalMarks(node: string, epoch: EpochId, marks: Readonly<Record<string, string>>): Promise<void>;
  /**
   * Runs a whole transaction in one round trip. The signal cancels it unless it has committed by
   * then; the answer says what became of it either way. Errors: HighwaterError; `outcome: unknown`
   * when the connection was lost while the COMMIT was on its way.
   */
  execute(node: string, spec: TransactionSpec, signal?: AbortSignal): Promise<Execution>;
  /**
   * Opens an interactive transaction, and runs the first statements in the same round trip. Errors:
   * HighwaterError; nothing was applied, and no transaction is open.
   */
  begin(node: string, spec: TransactionSpec, signal?: AbortSignal): Promise<Opening>;
  /**
   * Runs a read-only transaction on a replica; or on a primary whose store can read as of a
   * position. Errors: HighwaterError.
   */
  readReplica(node: string, read: ReplicaRead, signal?: AbortSignal): Promise<ReplicaReading>;
  /**
   * Flushes everything committed so far to the primary's disk, and wakes the streams to the
   * replicas. Returns a position on the disk, at or above everything that was committed before the
   * call. `marks`: the epoch's marks that the caller knows, for its witness.
   */
  helpFlush(node: string, epoch: EpochId, marks?: Readonly<Record<string, string>>): Promise<Offset>;
  lookUp(node: string, keys: readonly ReceiptKey[]): Promise<ReceiptsAsOf>;
  /**
   * Returns the end of the primary's log and its epoch. The end is at or above everything that was
   * committed before the call. Cheap enough for thousands of calls a second. Errors:
   * `epoch_changed` if the node has no epoch.
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
   * Allows that the session that `holder` names (`OpenTransaction.holder`) is ended if it holds the
   * key when that is settled.
   */
  giveUp(node: string, key: ReceiptKey, holder: string): void;
  /**
   * Prepares the store for receipts of the next ids. Drops receipts of ids older than
   * `expireBeforeMs`, unless that is null.
   */
  maintain(node: string, request: { readonly expireBeforeMs: number | null }): Promise<RetentionReport>;
  /**
   * Returns why no session of a client may run as the login role; empty if it may. Settings of the
   * role are no reason, because no other client uses its sessions. `reads`: the client may only
   * read.
   */
  roleFaults(node: string, role: string, reads: boolean): Promise<readonly string[]>;
  /**
   * Ends a client's session on the node, whatever it runs. Does nothing if the process no longer
   * serves the login role, or if the service may not end the role's sessions.
   */
  endSession(node: string, session: { readonly process: number; readonly role: string }): Promise<void>;
  /**
   * Returns the check of every key that a service of the deployment has published. For the primary.
   */
  keyChecks(node: string): Promise<readonly KeyCheck[]>;
  /** Adds the checks of keys that have none yet. For the primary. */
  addKeyChecks(node: string, checks: readonly KeyCheck[]): Promise<void>;
  /** Returns how busy the sessions of transactions are that have been opened so far. */
  pools(): readonly PoolReport[];
  /** Sets the observer. There is one at most. */
  observe(observer: StoreObserver): void;
  /** Drops every connection to the node that writes. Later ones are checked anew. */
  forget(node: string): void;
  close(): Promise<void>;
}
