// Generated (make gen) from packages/protocol: what goes over the wire.
/** What became of the transaction that an error is about. */ export type Outcome = "not_applied" | "applied" | "unknown";
/** What a caller may do after an error. `never`: the request itself is wrong. `transaction`: run the whole body again, with a new id. `resolve_outcome`: ask for the state, or send the same id again. `wait`: send the same again later. */ export type Retry = "never" | "transaction" | "resolve_outcome" | "wait";
/** How much a transaction may see of those that run beside it, by PostgreSQL's names. Default: `serializable`, but `repeatable read` for a read with `after` or `mode: local`, which may run on a replica. */ export type Isolation = "serializable" | "repeatable read" | "read committed";
/** A value as PostgreSQL's text. A number that a 64-bit float cannot hold exactly must be sent as a string. */ export type Param = string | number | boolean | null;
/** What became of a transaction. `active`: it is open or runs. `committed`: durability was not asked about. `pending`: committed, and not known to be durable. `durable`, `lost`, `broken`: settled at the level. `aborted`: never committed. `expired`: too old to know. `unknown`: the service does not know the id; of a token without an id, a failover may have discarded the transaction or not. */ export type TransactionState = "active" | "committed" | "pending" | "durable" | "lost" | "aborted" | "broken" | "expired" | "unknown";
/** The judgement of a tracker. `pending` may become any other; `durable` and `lost` are final, but that a promise which a failure has violated becomes `broken`. `expired`: too old to know. `unknown`: the service does not know the id. */ export type Verdict = "pending" | "durable" | "lost" | "broken" | "expired" | "unknown";
/** A position in one epoch's log. Offsets of different epochs must not be compared. */ export interface Position {
  /** Id of the epoch: the time from one start or promotion of a primary to the next. */ epoch: string;
  /** Bytes of log, as decimal text. */ offset: string;
}
/** The durable part of the log now, by level, in one epoch. A level that was never observed is absent, not zero. */ export interface Marks {
  /** Id of the epoch. */ epoch: string;
  /** Number of the epoch: a later one has a larger one. */ seq: number;
  /** By level: the offset up to which everything is durable at it. */ levels: Record<string, string>;
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
export interface TransactionRequest {
  id: string;
  statements: Statement[];
  isolation?: Isolation;
  readOnly?: boolean;
  /** Only with `serializable` and `readOnly`: waits for a snapshot that no later transaction can make unsafe. */ deferrable?: boolean;
  /** `commit`: answered at the commit point. `durable`: answered at the durability point of the level. */ ack?: "commit" | "durable";
  level?: string;
  /** Milliseconds that a durable answer may take behind the commit; then it is 202 `pending`, which is no loss. */ maxWaitMs?: number;
  after?: string;
  /** Only with `readOnly`: where it runs. `local`: on a replica in the gateway's region, if one can serve it; the default where there is `after`. */ mode?: "primary" | "local";
  /** Not durable at the level after so many milliseconds: an event `transaction.delayed` says so. */ maxDelayMs?: number;
  /** The application's own words; trackers hand them to webhooks. */ metadata?: Record<string, string>;
}
export interface BeginRequest {
  id: string;
  statements?: Statement[];
  isolation?: Isolation;
  readOnly?: boolean;
  /** Only with `serializable` and `readOnly`: waits for a snapshot that no later transaction can make unsafe. */ deferrable?: boolean;
  /** Not durable at the level after so many milliseconds: an event `transaction.delayed` says so. */ maxDelayMs?: number;
  /** The application's own words; trackers hand them to webhooks. */ metadata?: Record<string, string>;
}
export interface StatementsRequest {
  /** The calls of one transaction are numbered 1, 2, 3 …; a repeated number gets its answer again. */ seq: number;
  statements: Statement[];
}
export interface CommitRequest {
  /** The calls of one transaction are numbered 1, 2, 3 …; a repeated number gets its answer again. */ seq: number;
  statements?: Statement[];
  /** `commit`: answered at the commit point. `durable`: answered at the durability point of the level. */ ack?: "commit" | "durable";
  level?: string;
  /** Milliseconds that a durable answer may take behind the commit; then it is 202 `pending`, which is no loss. */ maxWaitMs?: number;
  /** Not durable at the level after so many milliseconds: an event `transaction.delayed` says so. */ maxDelayMs?: number;
}
export interface RollbackRequest {
  /** The calls of one transaction are numbered 1, 2, 3 …; a repeated number gets its answer again. */ seq: number;
}
export interface StatementResult {
  /** PostgreSQL's command tag without its numbers, such as `UPDATE`. */ command: string;
  /** Rows that were read or changed. */ rowCount: number;
  fields: { name: string; /** PostgreSQL's type. */ oid: number }[];
  /** PostgreSQL's text of each value, or null; decoding is the client's. */ rows: (string | null)[][];
  /** Rows were left out because of a limit of the service; a committed write is not undone for that. */ truncated?: true;
}
/** Which node served a read, and how far its snapshot may be behind the primary, as the gateway last saw that. */ export interface Served {
  /** Its name. */ node: string;
  /** Where it runs. */ region: string;
  /** Only a primary takes writes. */ role: "primary" | "replica";
  /** Bytes of log, as decimal text; 0 on the primary, null while it is not known. */ behindBytes: string | null;
  /** Age of the newest commit in it, in milliseconds; 0 on the primary, null while it is not known. */ behindMs: number | null;
}
export interface TransactionResponse {
  id: string;
  state: TransactionState;
  token: string;
  /** A position in one epoch's log. Offsets of different epochs must not be compared. */ position: Position;
  level?: string;
  /** One for each statement; null for a replay, whose original results are not kept. */ results: StatementResult[] | null;
  /** The newest marks that the gateway knows; null before it knows any. */ marks: Marks | null;
  /** A tracker had the announcement on disk when this was answered. */ announced: boolean;
  /** The id had committed before, and nothing was run now. */ replayed?: true;
  /** Which node served a read, and how far its snapshot may be behind the primary, as the gateway last saw that. */ served?: Served;
}
/** An interactive transaction that is open. */ export interface OpenTransactionResponse {
  id: string;
  state: "active";
  /** Number of the call that this answers; 0 for begin. */ seq: number;
  results: StatementResult[];
  /** RFC 3339, by the gateway's clock: it is rolled back then unless another call comes before. */ expiresAt: string;
  /** The newest marks that the gateway knows; null before it knows any. */ marks: Marks | null;
}
export interface RollbackResponse { id: string; state: "aborted" }
/** The state of an id. */ export interface TransactionStateResponse {
  /** The transaction's. */ id: string;
  /** At the level. */ state: TransactionState;
  /** Of one that has committed: for verdicts, or an SDK's `hw.promise(token)`. */ token?: string;
  /** Of one that has committed: where. */ position?: Position;
  /** The level that `state` is about, where it is about one. */ level?: string;
  /** The newest marks that the gateway knows; null before it knows any. */ marks: Marks | null;
}
export interface VerdictsRequest {
  tokens: string[];
  level?: string;
  /** The answer is held until none is pending, or for so long: one that stays pending holds up the others. Default: not held. */ waitMs?: number;
}
/** The judgement of one transaction at one level. */ export interface TokenVerdict {
  /** The one that was judged. */ token: string;
  /** Of the transaction; all zeros if the token names a position alone. */ id: string;
  /** The judgement. */ verdict: Verdict;
  /** The level it was judged at. */ level: string;
  /** Where the transaction is judged now: its own position, or the one it was carried over to. */ position: Position;
  /** The rule that gave the verdict; one that a client found by itself starts with `client:`. */ rule: string;
  /** For `lost`: the epoch in which another attempt under the same id committed. */ retriedIn?: string;
  /** For `lost` and `broken`: the strongest level that the published tombstone had reached. */ settledAt?: string;
}
/** In the place of a verdict: the tracker does not judge this token for this caller. It judges the others. */ export interface RefusedToken {
  /** The one that was refused. */ token: string;
  /** Always so: nothing is said of it. */ verdict: "unknown";
  /** The level that was asked about. */ level: string;
  /** Always so. */ rule: "refused";
  /** Why: it is no token, or another owner's. */ error: { code: "invalid_token" | "forbidden"; detail: string };
}
export interface VerdictsResponse {
  /** One for each token, in their order. */ verdicts: (TokenVerdict | RefusedToken)[];
  marks: Marks | null;
  /** The tracker is blind: it gets nothing new from the primary. Another tracker may settle what is pending here. */ blind?: true;
}
export interface MarksResponse {
  /** Null while none was ever observed. */ marks: Marks | null;
  /** Those that are configured, weakest first. */ levels: string[];
  /** The current epoch and its ancestors, oldest first. */ epochs: EpochRecord[];
  /** The tracker is blind: it gets nothing new from the primary. Another tracker may settle what is pending here. */ blind?: true;
}
export interface EpochEvent { epochs: EpochRecord[] }
export interface StallEvent { level: string; epoch: string; offset: string; pending: number }
export interface BlindEvent { /** True: it gets nothing new from the primary; another may. */ blind: boolean }
export interface TicketRequest {
  id: string;
  level?: string;
  /** Not durable at the level after so many milliseconds: an event `transaction.delayed` says so. */ maxDelayMs?: number;
  /** The application's own words; trackers hand them to webhooks. */ metadata?: Record<string, string>;
}
export interface Ticket {
  id: string;
  /** Of the receipt. Known to the service and the transaction's owner alone: send it as a bound parameter. */ tag: string;
  /** Of the receipt: it commits in this epoch, or not at all. */ epoch: string;
  /** Of the receipt: a signed 64-bit number, as decimal text. */ digest: string;
  /** The COMMIT must be answered within so many milliseconds of the request for the ticket; then trackers settle the id, as never committed if they find no receipt. */ lifeMs: number;
  /** Proof of a deployment's gateway that it has announced the transaction. Opaque. */ ticket: string;
}
export interface TicketEnd {
  /** Proof of a deployment's gateway that it has announced the transaction. Opaque. */ ticket: string;
  /** `commit`: COMMIT was sent, whether or not its answer came. `rollback`: it was not, and never will be. */ ended: "commit" | "rollback";
}
/** The limit that was met. */ export interface ReachedLimit {
  /** As the service's configuration calls it. */ readonly name: string;
  /** In the unit that the name says. */ readonly value: number;
}
/** Transactions that are committed and not durable yet, of those that the limit counts. */ export interface AtRisk {
  /** How many they are. */ readonly transactions: number;
  /** Of log, as decimal text. */ readonly bytes: string;
  /** Age of the oldest in milliseconds; null when there is none. */ readonly oldestMs: number | null;
}
/** The basis of a refusal: everything that the statement could see. */ export interface Evidence {
  /** `committed`: visible; the request waited for no more. `pending`: not durable in the time. `lost`: a failover took some of it back. */ readonly state: "committed" | "durable" | "pending" | "lost";
  /** Durable when the refusal can no longer be taken back: for an SDK's `hw.promise(token)`. */ readonly token: string;
  /** The end of the log when the statement had been refused: everything that it could see is at or below. */ readonly position: Position;
  /** At which it is durable, or was waited for. */ readonly level?: string | undefined;
}
/** RFC 9457. */ export interface Problem {
  /** A path of the service: GET it for the cause, the fix and an example. */ readonly type: string;
  readonly title: string;
  readonly status: number;
  /** Stable; a newer service may know more of them. */ readonly code: string;
  readonly outcome: Outcome;
  readonly retry: Retry;
  /** For people; may change. */ readonly detail?: string | undefined;
  /** PostgreSQL's code, where the database refused something. */ readonly sqlstate?: string | undefined;
  /** Index of the statement at fault, from 0. */ readonly statement?: number | undefined;
  /** Name of the constraint that was violated. */ readonly constraint?: string | undefined;
  /** Milliseconds to wait before the next attempt; Retry-After has them as whole seconds. */ readonly retryAfterMs?: number | undefined;
  /** The faults of the request, one text for each. */ readonly fields?: readonly string[] | undefined;
  /** The limit that was met. */ readonly limit?: ReachedLimit | undefined;
  /** Transactions that are committed and not durable yet, of those that the limit counts. */ readonly exposure?: AtRisk | undefined;
  /** Of the transaction that the error is about. */ readonly transactionId?: string | undefined;
  /** Of a refused statement: what the refusal rests on. An SDK's `hw.promise(error.evidence.token).durable()` waits for it. */ readonly evidence?: Evidence | undefined;
  /** Of an interactive transaction: whether it is still open. */ readonly open?: boolean | undefined;
}
