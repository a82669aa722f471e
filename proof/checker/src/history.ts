// The recorded history: everything that the checker knows. One JSON object a line; whoever records it writes this format,
// and the checker imports nothing of the product, so that the two cannot be wrong together.
//
// `atMs` is milliseconds on one clock for all processes that record (the machine's monotonic clock), with fractions.
// Offsets are decimal strings. Lines may come in any order.

/** Weakest first. */
export type Level = string;
/** A transaction's id: a UUID that its client has chosen. A body that is run again has a new one. */
export type TxnId = string;
/** An epoch's UUID. */
export type EpochId = string;

export interface Scenario {
  readonly type: "scenario";
  readonly format: 1;
  readonly seed: number;
  /** Every level that verdicts may name, weakest first. */
  readonly levels: readonly Level[];
  /** Those that promise to survive a crash of the primary's node, not that another one takes over. Default: `disk`. */
  readonly crashOnly?: readonly Level[];
  /** Accounts `0` to `accounts - 1` have had so much each at the start. Transfers keep the sum. */
  readonly bank: { readonly accounts: number; readonly balance: number };
  /** How long receipts are kept after the time inside the id. Without it nothing may expire in the run. */
  readonly retentionMs?: number;
}

/**
 * One operation of a transaction. `append` adds a value that nobody else ever adds to the key's list; `read` reads the
 * list; `readAppend` reads the list and then appends to it. `transfer` moves money; `sum` reads the total. `insert` adds a
 * row to a set. Values are unique in the whole history.
 */
export type Operation =
  | { readonly f: "append" | "readAppend"; readonly key: string; readonly value: number }
  | { readonly f: "read"; readonly key: string }
  | { readonly f: "transfer"; readonly from: number; readonly to: number; readonly amount: number }
  | { readonly f: "sum" }
  | { readonly f: "insert"; readonly value: number };

/** Written before the request is sent. Exactly one for each id. */
export interface Invocation {
  readonly type: "invocation";
  readonly atMs: number;
  readonly client: string;
  /** Whose key it is sent with, where services ask for keys. */
  readonly owner?: string;
  /** What the client has written beside it, for filters of webhooks. */
  readonly metadata?: Readonly<Record<string, string>>;
  /** Transactions of one session run one after the other, and each must see what the ones before it have committed. */
  readonly session: string | null;
  readonly txn: TxnId;
  /** The same body ran before under this id, which was lost or aborted. */
  readonly rerunOf: TxnId | null;
  /** `commit`: fast. `durable`: safe, answered when durable at `level`. */
  readonly ack: "commit" | "durable";
  readonly level: Level;
  readonly readOnly: boolean;
  /** `snapshot`: it may read on a replica, and sees a consistent prefix, not more. */
  readonly isolation: "serializable" | "snapshot";
  /** It asked to see everything up to this transaction of the same session (read-your-writes on any node). */
  readonly after: TxnId | null;
  readonly operations: readonly Operation[];
}

/** What an operation showed, in the order of the operations: a list, a sum, or null where it shows nothing. */
export type Shown = readonly number[] | number | null;

/**
 * The client's one answer. `aborted`: certainly without effect, now and for ever. `unknown`: nobody has said.
 * A safe transaction that is answered `durable` is a promise at its level.
 */
export interface ClientReply {
  readonly type: "answer";
  readonly atMs: number;
  readonly txn: TxnId;
  readonly outcome: "committed" | "aborted" | "lost" | "unknown";
  /** A safe one's level, if the answer says that it is durable there. */
  readonly durableAt: Level | null;
  readonly position: { readonly epoch: EpochId; readonly offset: string } | null;
  /** Null when the answer is of a replay, or there is none. */
  readonly shown: readonly Shown[] | null;
  readonly replayed: boolean;
  /** Code of the error. */
  readonly error: string | null;
}

/** What the service said, asked by id, of a transaction whose answer was `unknown`. */
export interface Resolution {
  readonly type: "resolution";
  readonly atMs: number;
  readonly txn: TxnId;
  /** `never`: it has not run and never will. `expired`: its id is too old to tell. `unresolved`: the service did not say in time. */
  readonly outcome: "committed" | "aborted" | "lost" | "never" | "expired" | "unresolved";
  readonly position: { readonly epoch: EpochId; readonly offset: string } | null;
}

/** One word about durability, wherever it was heard. */
export interface VerdictReport {
  readonly type: "report";
  readonly atMs: number;
  readonly txn: TxnId;
  readonly level: Level;
  readonly verdict: "durable" | "lost" | "broken" | "pending" | "expired" | "unknown" | "refused";
  /**
   * `promise`: an SDK's promise. `event`: the stream of events. `asked`: a tracker was asked while faults went on.
   * `final`: a tracker was asked at the end; there is one for each tracker, level and token.
   */
  readonly by: "promise" | "event" | "asked" | "final";
  /** Of `event`, `asked` and `final`: whose word it is. */
  readonly tracker: string | null;
  /** The epoch of the attempt that it is about, where it is told. */
  readonly attempt: EpochId | null;
  /** The rule by which it was judged, where it is told. `session`: a wait for a whole session has ended. */
  readonly rule: string | null;
  /** Where the attempt stands in the log, if the word says so. */
  readonly position?: { readonly epoch: EpochId; readonly offset: string } | null;
}

/**
 * Told to everybody by the stream of events: what the level has promised of this part of the epoch's log, above `from` and up to `to`,
 * a failure has undone. Whoever was told of an attempt in it and nothing else knows by this that the promise is broken.
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

/** An endpoint for webhooks. Its maker had the answer at that time. */
export interface Subscription {
  readonly type: "subscription";
  readonly atMs: number;
  readonly endpoint: string;
  readonly owner: string;
  /** Types of events that it asks for. */
  readonly events: readonly string[];
  /** It gets only transactions whose metadata have all of these values. */
  readonly filter: Readonly<Record<string, string>>;
}

/** One request that an endpoint was sent. */
export interface Delivery {
  readonly type: "delivery";
  /** The request was there as a whole. */
  readonly atMs: number;
  /** Its answer was sent, or its sender was gone. */
  readonly untilMs: number;
  readonly endpoint: string;
  /** The same in every delivery of one message. */
  readonly message: string;
  /** With the endpoint's secret. */
  readonly isSigned: boolean;
  /** The status of the answer; null if there was none. */
  readonly answer: number | null;
  /** Of the body: its length, and a digest. */
  readonly bytes: number;
  readonly digest: string;
  readonly event: string;
  /** The first and the last event of the message, by their ids. */
  readonly sequence: { readonly first: string; readonly last: string } | null;
  /** What it says of single transactions. */
  readonly transactions: readonly {
    readonly event: string;
    readonly txn: TxnId;
    readonly attempt: EpochId;
    readonly verdicts: Readonly<Record<Level, VerdictReport["verdict"]>>;
    readonly position: { readonly epoch: EpochId; readonly offset: string } | null;
  }[];
  /** What it says of parts of the log, as a `broken_range`. */
  readonly promises: readonly (Pick<BrokenRange, "level" | "epoch" | "from" | "to"> & {
    readonly event: string;
  })[];
}

/** What the nemesis did. Between the two times the fault was there; for one that happens in a moment they are equal. */
export interface Fault {
  readonly type: "fault";
  readonly atMs: number;
  readonly untilMs: number;
  /** As `kill_primary`, `cut_link`. */
  readonly kind: string;
  readonly target: string;
  /** It did what it should; otherwise the error. */
  readonly error: string | null;
}

/** A wall clock that was wrong: by so much from one time to the other. */
export interface WrongClock {
  readonly type: "clock";
  readonly atMs: number;
  readonly untilMs: number;
  readonly of: "database" | "service";
  /** As `us-east`, `tracker-us-east`. */
  readonly name: string;
  readonly offMs: number;
}

/**
 * The history that counts may have changed: a crash, a promotion, a restore. `kept`: the levels whose promises this failure
 * covers and whoever decided respected; at every other one promises may be broken.
 */
export interface Failure {
  readonly type: "failure";
  readonly atMs: number;
  readonly kind: string;
  /** The node whose history went on from here. */
  readonly node: string;
  readonly kept: readonly Level[];
}

/** The end: what is in the database whose history counts, read past all services. */
export interface FinalState {
  readonly type: "final";
  readonly atMs: number;
  readonly node: string;
  readonly lists: Readonly<Record<string, readonly number[]>>;
  readonly balances: readonly number[];
  /** Every row of the set, also twice if it is there twice. */
  readonly inserted: readonly number[];
  /** Every row of the table of transfers: which transaction moved how much. */
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
  /** Which receipts had expired when these were read. In milliseconds since 1970, as the time inside an id. */
  readonly expiry?: {
    /** Receipts of ids from before this time are dropped. */
    readonly expiredBeforeMs: number;
    /** The time of the reading. */
    readonly readAtMs: number;
  };
  /** The table of epochs in this history, oldest first; after it epochs that only other nodes or trackers know of. */
  readonly epochs: readonly {
    readonly id: EpochId;
    readonly seq: number;
    readonly previous: EpochId | null;
    readonly node: string;
    /** It is in the history that counts. */
    readonly inHistory: boolean;
    /** An operator has named its node the primary, when it began or since. */
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
  | Fault
  | WrongClock
  | Failure
  | FinalState;
