// Generated (make gen) from packages/protocol: what goes over the wire.
/** What became of the transaction that an error is about. */ export type Outcome = "not_applied" | "applied" | "unknown";
/** What a caller may do after an error. `never`: the request itself is wrong. `transaction`: run the whole body again, with a new id. `resolve_outcome`: ask for the state, or send the same id again. `wait`: send the same again later. */ export type Retry = "never" | "transaction" | "resolve_outcome" | "wait";
/** The isolation level, by PostgreSQL's names. Default: `serializable`; for a read with `after` or `mode: local`, which may run on a replica, `repeatable read`. */ export type Isolation = "serializable" | "repeatable read" | "read committed";
/** A value as PostgreSQL's text. Send a number as a string if a 64-bit float cannot hold it exactly. */ export type Param = string | number | boolean | null;
/** What became of a transaction. `active`: it is open or runs. `committed`: durability was not asked about. `pending`: committed, and not known to be durable. `durable`, `lost`, `broken`: settled at the level. `aborted`: never committed. `expired`: too old to know. `unknown`: the service does not know the id; of a token without an id, a failover may have discarded the transaction or not. */ export type TransactionState = "active" | "committed" | "pending" | "durable" | "lost" | "aborted" | "broken" | "expired" | "unknown";
/** A tracker's verdict. `pending` can become any other verdict. `durable` and `lost` are final, except that `durable` becomes `broken` if a failure breaks the promise, and `lost` if the transaction is back. `expired`: the transaction is too old. `unknown`: the service does not know the id. */ export type Verdict = "pending" | "durable" | "lost" | "broken" | "expired" | "unknown";
/** A position in one epoch's log. Offsets of different epochs must not be compared. */ export interface Position {
  /** Id of the epoch: the time from one start or promotion of a primary to the next. */ epoch: string;
  /** Bytes of log, as decimal text. */ offset: string;
}
/** How far the log of one epoch is durable now, by level. A level that was never observed is absent, not zero. */ export interface Marks {
  /** Id of the epoch. */ epoch: string;
  /** Number of the epoch. A later epoch has a higher number. */ seq: number;
  /** For each level, the offset up to which the log is durable at the level. */ levels: Record<string, string>;
}
export interface EpochRecord {
  id: string;
  seq: number;
  previous: string | null;
  node: string;
  /** How the epoch began. */ cause: "first" | "clean_restart" | "crash_recovery" | "promotion" | "reinstated" | "restored";
  startedAt: string;
  /** Upper bound of this record's own position in the epoch's log. */ startOffset: string;
  /** This history contains the previous epoch's log at least up to here. */ forkOffset: string;
  forkLimit: string | null;
  supersedes: string[];
  commanded: boolean;
  finalMarks: Record<string, string>;
}
export interface Statement {
  /** One statement; `$1`, `$2` … stand for the parameters. */ sql: string;
  params?: Param[];
}
/** The loss of the application if a failure discards the transaction after its commit was answered. It counts toward the limits of its unit until the transaction is durable at the exposure level. A transaction with `ack: durable` has nothing at risk. */ export interface ValueAtRisk {
  /** An exact decimal number, as text: at most 18 digits before the point and 9 behind it. */ amount: string;
  /** A currency's code, or any other word of at most 16 letters. */ unit: string;
}
export interface TransactionRequest {
  id: string;
  statements: Statement[];
  isolation?: Isolation;
  readOnly?: boolean;
  /** Only with `serializable` and `readOnly`: the transaction waits for a snapshot that no later transaction can make unsafe. */ deferrable?: boolean;
  /** `commit`: answer at the commit point. `durable`: answer when the transaction is durable at the level. */ ack?: "commit" | "durable";
  level?: string;
  /** Maximum milliseconds that a durable answer waits after the commit. Then the answer is 202 `pending`; the transaction is not lost. */ maxWaitMs?: number;
  after?: string;
  /** Only with `readOnly`: where the transaction runs. `local`: on a replica in the gateway's region, if one can serve it; the default with `after` and with `reads: durable`. */ mode?: "primary" | "local";
  /** `durable`, only with `readOnly`: the answer has rows only when everything that the read saw is durable at the level. Otherwise it is 503 `read_unconfirmed` after `maxWaitMs`. `committed`: as `ack` says. */ reads?: "committed" | "durable";
  /** The tracker sends an event `transaction.delayed` if the transaction is not durable at the level after this many milliseconds. */ maxDelayMs?: number;
  /** The application's own data. Trackers send it with events to webhooks. */ metadata?: Record<string, string>;
  /** True: trackers keep the contents of the transaction until it is durable at every level, and longer if it is lost. Default: GATEWAY_KEEP. */ keep?: boolean;
  /** `replay`: if a failover loses the transaction, the gateways bring it back before they admit writes, and its client must not run it again. Implies `keep`. Has no effect with `ack: durable`, because such a client learns of the loss itself. */ onLost?: "replay";
  /** The loss of the application if a failure discards the transaction after its commit was answered. It counts toward the limits of its unit until the transaction is durable at the exposure level. A transaction with `ack: durable` has nothing at risk. */ atRisk?: ValueAtRisk;
}
export interface BeginRequest {
  id: string;
  statements?: Statement[];
  isolation?: Isolation;
  readOnly?: boolean;
  /** Only with `serializable` and `readOnly`: the transaction waits for a snapshot that no later transaction can make unsafe. */ deferrable?: boolean;
  /** The tracker sends an event `transaction.delayed` if the transaction is not durable at the level after this many milliseconds. */ maxDelayMs?: number;
  /** The application's own data. Trackers send it with events to webhooks. */ metadata?: Record<string, string>;
  /** True: trackers keep the contents of the transaction until it is durable at every level, and longer if it is lost. Default: GATEWAY_KEEP. */ keep?: boolean;
  /** `replay`: if a failover loses the transaction, the gateways bring it back before they admit writes, and its client must not run it again. Implies `keep`. Has no effect with `ack: durable`, because such a client learns of the loss itself. */ onLost?: "replay";
  /** The loss of the application if a failure discards the transaction after its commit was answered. It counts toward the limits of its unit until the transaction is durable at the exposure level. A transaction with `ack: durable` has nothing at risk. */ atRisk?: ValueAtRisk;
}
export interface StatementsRequest {
  /** Number of the call within its transaction: 1, 2, 3 and so on. A repeated number gets its answer again. */ seq: number;
  statements: Statement[];
}
export interface CommitRequest {
  /** Number of the call within its transaction: 1, 2, 3 and so on. A repeated number gets its answer again. */ seq: number;
  statements?: Statement[];
  /** `commit`: answer at the commit point. `durable`: answer when the transaction is durable at the level. */ ack?: "commit" | "durable";
  level?: string;
  /** Maximum milliseconds that a durable answer waits after the commit. Then the answer is 202 `pending`; the transaction is not lost. */ maxWaitMs?: number;
  /** The tracker sends an event `transaction.delayed` if the transaction is not durable at the level after this many milliseconds. */ maxDelayMs?: number;
  /** The loss of the application if a failure discards the transaction after its commit was answered. It counts toward the limits of its unit until the transaction is durable at the exposure level. A transaction with `ack: durable` has nothing at risk. */ atRisk?: ValueAtRisk;
}
export interface RollbackRequest {
  /** Number of the call within its transaction: 1, 2, 3 and so on. A repeated number gets its answer again. */ seq: number;
}
export interface StatementResult {
  /** PostgreSQL's command tag without its numbers, such as `UPDATE`. */ command: string;
  /** Number of rows that the statement read or changed. */ rowCount: number;
  fields: { name: string; /** PostgreSQL's type. */ oid: number }[];
  /** PostgreSQL's text of each value, or null. The client decodes it. */ rows: (string | null)[][];
  /** The answer leaves rows out because of a limit of the service. A committed write stays committed. */ truncated?: true;
}
/** Which node served a read, and how far its snapshot may be behind the primary, by the gateway's latest observation. */ export interface Served {
  /** Name of the node. */ node: string;
  /** Region of the node. */ region: string;
  /** Only a primary takes writes. */ role: "primary" | "replica";
  /** Lag in bytes of log, as decimal text; 0 on the primary, null if not known. */ behindBytes: string | null;
  /** Age of the newest commit in the snapshot, in milliseconds; 0 on the primary, null if not known. */ behindMs: number | null;
  /** Only with `reads: durable`: how old the state in the answer is at most, in milliseconds. It includes the time that the answer waited; null if not known. */ ageMs?: number | null;
}
export interface TransactionResponse {
  id: string;
  state: TransactionState;
  token: string;
  /** A position in one epoch's log. Offsets of different epochs must not be compared. */ position: Position;
  level?: string;
  /** The strongest level at which the transaction is durable, by what the gateway knew when it answered; null: none yet. Absent if it has not committed. */ achieved?: string | null;
  /** Present if the database met the level in `achieved` with its answer to the commit, so that nothing had to be waited for. */ metBy?: "store";
  /** One result for each statement; null for a replay, because the service does not keep results. */ results: StatementResult[] | null;
  /** The newest marks that the gateway knows; null before it knows any. */ marks: Marks | null;
  /** True if a tracker had the announcement on disk when the gateway answered. */ announced: boolean;
  /** The id had committed before; this request ran nothing. */ replayed?: true;
  /** Which node served a read, and how far its snapshot may be behind the primary, by the gateway's latest observation. */ served?: Served;
  /** Present if the contents of the transaction were to be kept. True: a tracker had them and the position on disk when the gateway answered. */ kept?: boolean;
}
/** An open interactive transaction. */ export interface OpenTransactionResponse {
  id: string;
  state: "active";
  /** Number of the call that this answers; 0 for begin. */ seq: number;
  results: StatementResult[];
  /** When the gateway rolls the transaction back if no other call arrives. RFC 3339, by the gateway's clock. */ expiresAt: string;
  /** The newest marks that the gateway knows; null before it knows any. */ marks: Marks | null;
}
export interface RollbackResponse { id: string; state: "aborted" }
/** The state of an id. */ export interface TransactionStateResponse {
  /** The transaction's id. */ id: string;
  /** State at the level. */ state: TransactionState;
  /** Token of a committed transaction, for verdicts or an SDK's `hw.promise(token)`. */ token?: string;
  /** Position of a committed transaction. */ position?: Position;
  /** The level that `state` refers to, if it refers to one. */ level?: string;
  /** The strongest level at which the transaction is durable, by what the gateway knew when it answered; null: none yet. Absent if it has not committed. */ achieved?: string | null;
  /** The service brings the lost transaction back, as its request or its API key asked with `onLost: replay`. Do not run it again. */ redo?: "service";
  /** The newest marks that the gateway knows; null before it knows any. */ marks: Marks | null;
}
export interface VerdictsRequest {
  tokens: string[];
  level?: string;
  /** Maximum milliseconds that the answer waits until no transaction is pending. One pending transaction delays the others. Default: no wait. */ waitMs?: number;
}
/** The verdict on one transaction at one level. */ export interface TokenVerdict {
  /** The judged token. */ token: string;
  /** The transaction's id; all zeros for a position-only token. */ id: string;
  /** The verdict. */ verdict: Verdict;
  /** The level of the verdict. */ level: string;
  /** The position at which the tracker judges the transaction now: its own, or the one to which it was carried over. */ position: Position;
  /** The rule that gave the verdict. The rules of an SDK's own verdicts start with `client:`. */ rule: string;
  /** For `lost`: the epoch in which another attempt under the same id committed. */ retriedIn?: string;
  /** For `lost` and `broken`: the strongest level that the published tombstone had reached. */ settledAt?: string;
  /** The service brings the lost transaction back, as its request or its API key asked with `onLost: replay`. Do not run it again. */ redo?: "service";
}
/** Replaces the verdict: the tracker does not judge this token for this caller. It judges the others. */ export interface RefusedToken {
  /** The refused token. */ token: string;
  /** Always `unknown`. */ verdict: "unknown";
  /** The level in the question. */ level: string;
  /** Always `refused`. */ rule: "refused";
  /** The reason: the text is not a token, or the token belongs to another owner. */ error: { code: "invalid_token" | "forbidden"; detail: string };
}
export interface VerdictsResponse {
  /** One verdict for each token, in the order of the tokens. */ verdicts: (TokenVerdict | RefusedToken)[];
  marks: Marks | null;
  /** True if the tracker is blind: it receives nothing from the primary. Another tracker may have verdicts on transactions that are pending here. */ blind?: true;
}
export interface MarksResponse {
  /** Null if no mark was ever observed. */ marks: Marks | null;
  /** The configured levels, weakest first. */ levels: string[];
  /** The current epoch and its ancestors, oldest first. */ epochs: EpochRecord[];
  /** True if the tracker is blind: it receives nothing from the primary. Another tracker may have verdicts on transactions that are pending here. */ blind?: true;
}
export interface EpochEvent { epochs: EpochRecord[] }
export interface StallEvent { level: string; epoch: string; offset: string; pending: number }
export interface BlindEvent {
  /** True if the tracker receives nothing from the primary. Another tracker may receive it. */ blind: boolean;
}
export interface TicketRequest {
  id: string;
  level?: string;
  /** The tracker sends an event `transaction.delayed` if the transaction is not durable at the level after this many milliseconds. */ maxDelayMs?: number;
  /** The application's own data. Trackers send it with events to webhooks. */ metadata?: Record<string, string>;
  /** The loss of the application if a failure discards the transaction after its commit was answered. It counts toward the limits of its unit until the transaction is durable at the exposure level. A transaction with `ack: durable` has nothing at risk. */ atRisk?: ValueAtRisk;
}
export interface Ticket {
  id: string;
  /** Tag of the receipt. Only the service and the transaction's owner know it: send it as a bound parameter. */ tag: string;
  /** Epoch of the receipt. The transaction commits in this epoch or not at all. */ epoch: string;
  /** Digest of the receipt: a signed 64-bit number, as decimal text. */ digest: string;
  /** Milliseconds from the request for the ticket until COMMIT must be answered. After that trackers settle the id: it can never commit if they find no receipt. */ lifeMs: number;
  /** Proves that a gateway of this deployment has announced the transaction. Opaque. */ ticket: string;
}
export interface TicketEnd {
  /** Proves that a gateway of this deployment has announced the transaction. Opaque. */ ticket: string;
  /** `commit`: COMMIT was sent, whether or not it was answered. `rollback`: COMMIT was not and will not be sent. */ ended: "commit" | "rollback";
}
/** The limit that the request reached. */ export interface ReachedLimit {
  /** Name of the limit in the service's configuration. */ readonly name: string;
  /** Value of the limit, in the unit of its name. */ readonly value: number;
}
/** Transactions that the limit counts, that are committed and not durable yet. */ export interface AtRisk {
  /** Number of the transactions. */ readonly transactions: number;
  /** Bytes of log, as decimal text. */ readonly bytes: string;
  /** Age of the oldest transaction in milliseconds; null if there is none. */ readonly oldestMs: number | null;
}
/** The basis of a refusal: everything that the statement could see. */ export interface Evidence {
  /** `committed`: visible; the request did not wait for durability. `pending`: not durable in time. `lost`: a failover discarded some of it. */ readonly state: "committed" | "durable" | "pending" | "lost";
  /** Becomes durable when no failover can change the refusal. For an SDK's `hw.promise(token)`. */ readonly token: string;
  /** The end of the log after the refusal: everything that the statement could see is at or below it. */ readonly position: Position;
  /** The level at which it is durable, or at which the request waited. */ readonly level?: string | undefined;
}
/** RFC 9457. */ export interface Problem {
  /** A path of the service: GET it for the cause, the fix and an example. */ readonly type: string;
  readonly title: string;
  readonly status: number;
  /** Stable; a newer service may know more of them. */ readonly code: string;
  readonly outcome: Outcome;
  readonly retry: Retry;
  /** Explanation for people. The text may change. */ readonly detail?: string | undefined;
  /** PostgreSQL's error code, if the database refused a statement. */ readonly sqlstate?: string | undefined;
  /** Index of the statement that failed, from 0. */ readonly statement?: number | undefined;
  /** Name of the constraint that was violated. */ readonly constraint?: string | undefined;
  /** Milliseconds to wait before the next attempt. Retry-After has whole seconds. */ readonly retryAfterMs?: number | undefined;
  /** The faults of the request, one text for each. */ readonly fields?: readonly string[] | undefined;
  /** The limit that the request reached. */ readonly limit?: ReachedLimit | undefined;
  /** Transactions that the limit counts, that are committed and not durable yet. */ readonly exposure?: AtRisk | undefined;
  /** Id of the transaction that the error is about. */ readonly transactionId?: string | undefined;
  /** For a refused statement: the data that the refusal rests on. An SDK's `hw.promise(error.evidence.token).durable()` waits for it. */ readonly evidence?: Evidence | undefined;
  /** For a lost transaction. Absent: its client may run it again. */ readonly redo?: "service" | undefined;
  /** For an interactive transaction: true if it is still open. */ readonly open?: boolean | undefined;
}
