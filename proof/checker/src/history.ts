// The recorded history: everything that the checker knows. It has one JSON object per line. The
// recorder writes this format, and the checker imports nothing of the product, so that the two
// cannot be wrong together.
//  `atMs` is milliseconds on one clock for all processes that record (the machine's monotonic
// clock), with fractions. Offsets are decimal strings. Lines may come in any order.

/** Weakest first. */
export type Level = string;
/** A transaction's id: a UUID that its client chose. A body that runs again gets a new one. */
export type TxnId = string;
/** An epoch's UUID. */
export type EpochId = string;

export interface Scenario {
  readonly type: "scenario";
  readonly format: 1;
  readonly seed: number;
  /** Every level that verdicts may name, weakest first. */
  readonly levels: readonly Level[];
  /**
   * Levels that promise to survive a crash of the primary's node, but not the promotion of another
   * node. Default: `disk`.
   */
  readonly crashOnly?: readonly Level[];
  /** Accounts `0` to `accounts - 1` start with this balance each. Transfers keep the sum. */
  readonly bank: { readonly accounts: number; readonly balance: number };
  /**
   * How long receipts are kept after the time inside the id. Without it, nothing may expire in the
   * run.
   */
  readonly retentionMs?: number;
  /** An operator brought lost transactions back, and at the end ended each one (`End`). */
  readonly replays?: true;
}

/**
 * One operation of a transaction. `append` adds a value to the key's list, and no other operation
 * ever adds the same value; `read` reads the list; `readAppend` reads the list and then appends to
 * it. `transfer` moves money; `sum` reads the total. `insert` adds a row to a set. Values are
 * unique in the whole history.
 *
 * The others are about rows, which have a log of values and count them: `make` inserts one, `add`
 * appends to it and counts, `look` reads its log. `add` returns the log (`shown`), or only whether
 * there was a row (`silent`: null, and an empty list if not); `upsert` makes the row if there is
 * none, and returns the log.
 */
export type Operation =
  | { readonly f: "append" | "readAppend"; readonly key: string; readonly value: number }
  | { readonly f: "read"; readonly key: string }
  | { readonly f: "transfer"; readonly from: number; readonly to: number; readonly amount: number }
  | { readonly f: "sum" }
  | { readonly f: "insert"; readonly value: number }
  | { readonly f: "make"; readonly key: string; readonly value: number }
  | {
      readonly f: "add";
      readonly key: string;
      readonly value: number;
      readonly how: "shown" | "silent" | "upsert";
    }
  | { readonly f: "look"; readonly key: string };

/** Recorded before the request is sent. There is exactly one for each id. */
export interface Invocation {
  readonly type: "invocation";
  readonly atMs: number;
  readonly client: string;
  /** The owner of the key with which it is sent, where services require keys. */
  readonly owner?: string;
  /** The transaction's metadata, for filters of webhooks. */
  readonly metadata?: Readonly<Record<string, string>>;
  /**
   * Transactions of one session run one after the other. Each must see what the earlier ones
   * committed.
   */
  readonly session: string | null;
  readonly txn: TxnId;
  /** The same body ran before under this id, and that transaction was lost or aborted. */
  readonly rerunOf: TxnId | null;
  /** `commit`: fast. `durable`: safe, answered when durable at `level`. */
  readonly ack: "commit" | "durable";
  readonly level: Level;
  readonly readOnly: boolean;
  /** `snapshot`: it may read on a replica, and sees a consistent prefix that may be old. */
  readonly isolation: "serializable" | "snapshot";
  /**
   * It asked to see everything up to this transaction of its session (read-your-writes on any
   * node).
   */
  readonly after: TxnId | null;
  readonly operations: readonly Operation[];
  /**
   * False: services do not know it by this id. If its answer has no token, it may lack a receipt:
   * only its effects show whether it is there, and without an answer its outcome stays unknown.
   */
  readonly receipt?: false;
  /** Its contents are to be kept, so that it can be brought back if it is lost. */
  readonly keep?: true;
  /** It brings this lost transaction back, and repeats its operations; `operations` is empty. */
  readonly redoOf?: TxnId;
}

/** The result of each operation, in order: a list, a sum, or null if it returns nothing. */
export type Shown = readonly number[] | number | null;

/**
 * The client's only answer. `aborted`: certainly without effect, for ever. `unknown`: no service
 * has reported an outcome. A safe transaction that is answered as durable is a promise at its
 * level.
 */
export interface ClientReply {
  readonly type: "answer";
  readonly atMs: number;
  readonly txn: TxnId;
  readonly outcome: "committed" | "aborted" | "lost" | "unknown";
  /** The level of a safe transaction, if the answer says that it is durable there. */
  readonly durableAt: Level | null;
  readonly position: { readonly epoch: EpochId; readonly offset: string } | null;
  /** Null if the answer belongs to a replay, or if there is none. */
  readonly shown: readonly Shown[] | null;
  readonly replayed: boolean;
  /** The id in the answer's token, if only the answer gives the client its token. */
  readonly tokenOf?: TxnId;
  /** The error's code. */
  readonly error: string | null;
}

/** The service's answer to a look-up by id, after an answer of `unknown`. */
export interface Resolution {
  readonly type: "resolution";
  readonly atMs: number;
  readonly txn: TxnId;
  /**
   * `never`: it has not run and never will. `expired`: its id is too old for an answer.
   * `unresolved`: the service did not answer in time.
   */
  readonly outcome: "committed" | "aborted" | "lost" | "never" | "expired" | "unresolved";
  readonly position: { readonly epoch: EpochId; readonly offset: string } | null;
}

/** One verdict, from any source. */
export interface VerdictReport {
  readonly type: "report";
  readonly atMs: number;
  readonly txn: TxnId;
  readonly level: Level;
  readonly verdict: "durable" | "lost" | "broken" | "pending" | "expired" | "unknown" | "refused";
  /**
   * `promise`: an SDK's promise. `event`: the stream of events. `asked`: a tracker's answer during
   * the faults. `final`: a tracker's answer at the end, one for each tracker, level and token.
   */
  readonly by: "promise" | "event" | "asked" | "final";
  /** The tracker that answered; for `event`, `asked` and `final`. */
  readonly tracker: string | null;
  /** The epoch of the attempt, if the report names it. */
  readonly attempt: EpochId | null;
  /**
   * The rule behind the verdict, if the report names it. `session`: a wait for a whole session
   * ended.
   */
  readonly rule: string | null;
  /** The attempt's position, if the report names it. */
  readonly position?: { readonly epoch: EpochId; readonly offset: string } | null;
}

/**
 * The stream of events reported to all clients that a failure broke the level's promises for this
 * part of the epoch's log, above `from` and up to `to`. A client that learned of an attempt in it,
 * and learns nothing more, knows from this that the promise is broken.
 */
export interface BrokenRange {
  readonly type: "broken_range";
  readonly atMs: number;
  readonly tracker: string;
  readonly level: Level;
  readonly epoch: EpochId;
  readonly from: string;
  readonly to: string;
}

/** An endpoint for webhooks. `atMs`: when its creator received the answer. */
export interface Subscription {
  readonly type: "subscription";
  readonly atMs: number;
  readonly endpoint: string;
  readonly owner: string;
  /** The types of events to which it subscribes. */
  readonly events: readonly string[];
  /** It receives only transactions whose metadata have all of these values. */
  readonly filter: Readonly<Record<string, string>>;
}

/** One request that was sent to an endpoint. */
export interface Delivery {
  readonly type: "delivery";
  /** When the whole request had arrived. */
  readonly atMs: number;
  /** When its answer was sent, or its sender had disconnected. */
  readonly untilMs: number;
  readonly endpoint: string;
  /** The same in every delivery of a message. */
  readonly message: string;
  /** The signature is that of the endpoint's secret. */
  readonly isSigned: boolean;
  /** The status of the answer; null if there was none. */
  readonly answer: number | null;
  /** Length and digest of the body. */
  readonly bytes: number;
  readonly digest: string;
  readonly event: string;
  /** The ids of the message's first and last event. */
  readonly sequence: { readonly first: string; readonly last: string } | null;
  /** Its reports about single transactions. */
  readonly transactions: readonly {
    readonly event: string;
    readonly txn: TxnId;
    readonly attempt: EpochId;
    readonly verdicts: Readonly<Record<Level, VerdictReport["verdict"]>>;
    readonly position: { readonly epoch: EpochId; readonly offset: string } | null;
  }[];
  /** Its reports about parts of the log, like those of a `broken_range`. */
  readonly promises: readonly (Pick<BrokenRange, "level" | "epoch" | "from" | "to"> & {
    readonly event: string;
  })[];
}

/** How a lost transaction ended, by the answer to the operator after the last failure. */
export interface End {
  readonly type: "end";
  readonly atMs: number;
  readonly txn: TxnId;
  readonly attempt: EpochId;
  readonly outcome: "replayed" | "conflict" | "unrecoverable";
  /** Null if it was replayed. */
  readonly reason: string | null;
}

/**
 * A fault that the nemesis caused, with its beginning and end. They are equal if it lasted a
 * moment.
 */
export interface Fault {
  readonly type: "fault";
  readonly atMs: number;
  readonly untilMs: number;
  /** For example `kill_primary`, `cut_link`. */
  readonly kind: string;
  readonly target: string;
  /** Null if it took effect; otherwise the error. */
  readonly error: string | null;
}

/** A wall clock that was wrong by this much from one time to the other. */
export interface WrongClock {
  readonly type: "clock";
  readonly atMs: number;
  readonly untilMs: number;
  readonly of: "database" | "service";
  /** For example `us-east`, `tracker-us-east`. */
  readonly name: string;
  readonly offMs: number;
}

/**
 * An event after which another history may count: a crash, a promotion, a restore. `kept`: levels
 * whose promises cover this failure and that the promotion respected. Promises of all other levels
 * may be broken.
 */
export interface Failure {
  readonly type: "failure";
  readonly atMs: number;
  readonly kind: string;
  /** The node whose history continued from here. */
  readonly node: string;
  readonly kept: readonly Level[];
}

/**
 * The end: the content of the database in the history that counts, read directly and not through
 * services.
 */
export interface FinalState {
  readonly type: "final";
  readonly atMs: number;
  readonly node: string;
  readonly lists: Readonly<Record<string, readonly number[]>>;
  readonly balances: readonly number[];
  /** Every row of the set; duplicates appear twice. */
  readonly inserted: readonly number[];
  /** Every row of the table of transfers, with the amount that each transaction moved. */
  readonly transfers: readonly {
    readonly txn: TxnId;
    readonly from: number;
    readonly to: number;
    readonly amount: number;
  }[];
  readonly receipts: readonly {
    readonly txn: TxnId;
    readonly kind: "commit" | "aborted" | "lost";
    readonly epoch: EpochId;
  }[];
  /** The rows with their logs. */
  readonly rows?: readonly {
    readonly key: string;
    readonly count: number;
    readonly log: readonly number[];
  }[];
  /** Which transaction brought which lost one back, as the database has it. */
  readonly redone?: readonly { readonly root: TxnId; readonly txn: TxnId }[];
  /**
   * Which receipts had expired when this was read. In milliseconds since 1970, like the time in an
   * id.
   */
  readonly expiry?: {
    /** Receipts of ids from before this time are dropped. */
    readonly expiredBeforeMs: number;
    /** The time of the reading. */
    readonly readAtMs: number;
  };
  /**
   * The table of epochs in this history, oldest first, and then the epochs that only other nodes or
   * trackers know.
   */
  readonly epochs: readonly {
    readonly id: EpochId;
    readonly seq: number;
    readonly previous: EpochId | null;
    readonly node: string;
    /** True in the history that counts. */
    readonly inHistory: boolean;
    /** An operator named its node the primary, at its beginning or later. */
    readonly commanded: boolean;
  }[];
}

export type HistoryRecord =
  | Scenario
  | Invocation
  | ClientReply
  | Resolution
  | VerdictReport
  | BrokenRange
  | Subscription
  | Delivery
  | End
  | Fault
  | WrongClock
  | Failure
  | FinalState;
