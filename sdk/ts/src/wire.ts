// The shapes of the v1 wire as this package sends and reads them. Owns no behaviour beyond a check that an answer
// has the shape it must have. `test/wire.test.ts` proves these types and guards equal to the protocol's schemas.

/** What became of the transaction that an error is about. */
export type Outcome = "not_applied" | "applied" | "unknown";

/**
 * What a caller may do after an error. `never`: the request itself is wrong. `transaction`: run the whole body
 * again, with a new id. `resolve_outcome`: ask for the state first. `wait`: send the same again later.
 */
export type Retry = "never" | "transaction" | "resolve_outcome" | "wait";

/** A place in one epoch's log. Offsets (decimal text) of different epochs are never compared. */
export interface Position {
  /** Id of the epoch: the time from one start or promotion of a primary to the next. */
  epoch: string;
  /** Bytes of log, as decimal text. */
  offset: string;
}

/** What is durable now, by level, in one epoch. A level that was never observed is absent, not zero. */
export interface Marks {
  /** Id of the epoch. */
  epoch: string;
  /** Number of the epoch: a later one has a larger one. */
  seq: number;
  /** By level: the offset up to which everything is durable at it. */
  levels: Record<string, string>;
}

export interface EpochRecord {
  id: string;
  seq: number;
  previous: string | null;
  node: string;
  cause: "first" | "clean_restart" | "crash_recovery" | "promotion" | "reinstated" | "restored";
  startedAt: string;
  /** Upper bound of this record's own position in the epoch's log. */
  startOffset: string;
  /** The previous epoch's log is contained in this history at least up to here. */
  forkOffset: string;
  forkLimit: string | null;
  supersedes: string[];
  commanded: boolean;
  finalMarks: Record<string, string>;
}

/** How much a transaction may see of those that run beside it, by PostgreSQL's names. */
export type Isolation = "serializable" | "repeatable read" | "read committed";
export type Param = string | number | boolean | null;

export interface Statement {
  sql: string;
  params?: Param[];
}

export interface TransactionRequest {
  id: string;
  statements: Statement[];
  isolation?: Isolation;
  readOnly?: boolean;
  deferrable?: boolean;
  ack?: "commit" | "durable";
  level?: string;
  maxWaitMs?: number;
  after?: string;
  mode?: "primary" | "local";
  maxDelayMs?: number;
  metadata?: Record<string, string>;
}

export interface BeginRequest {
  id: string;
  statements?: Statement[];
  isolation?: Isolation;
  readOnly?: boolean;
  deferrable?: boolean;
  maxDelayMs?: number;
  metadata?: Record<string, string>;
}

export interface StatementsRequest {
  seq: number;
  statements: Statement[];
}

export interface CommitRequest {
  seq: number;
  statements?: Statement[];
  ack?: "commit" | "durable";
  level?: string;
  maxWaitMs?: number;
  maxDelayMs?: number;
}

export interface RollbackRequest {
  seq: number;
}

export interface StatementResult {
  command: string;
  rowCount: number;
  fields: { name: string; oid: number }[];
  rows: (string | null)[][];
  truncated?: true;
}

/** Which node served a read, and how far its snapshot may be behind the primary. */
export interface Served {
  /** Its name. */
  node: string;
  /** Where it stands. */
  region: string;
  /** Whether it takes writes. */
  role: "primary" | "replica";
  /** Bytes of log, as decimal text; null where that is not known. */
  behindBytes: string | null;
  /** Milliseconds; null where that is not known. */
  behindMs: number | null;
}

/**
 * What became of a transaction. `active`: it is open or runs. `committed`: durability was not asked
 * about. `pending`: committed, and not known to be durable. `durable`, `lost`, `broken`: settled at
 * the level. `aborted`: never committed. `expired`: too old to know. `unknown`: the service does
 * not know the id.
 */
export type TransactionState =
  "active" | "committed" | "pending" | "durable" | "lost" | "aborted" | "broken" | "expired" | "unknown";

export interface TransactionResponse {
  id: string;
  state: TransactionState;
  token: string;
  position: Position;
  level?: string;
  /** Null for a replay: the original results are not kept. */
  results: StatementResult[] | null;
  marks: Marks | null;
  announced: boolean;
  replayed?: true;
  served?: Served;
}

/** An interactive transaction that is open. */
export interface OpenTransactionResponse {
  id: string;
  state: "active";
  /** Number of the call that this answers; 0 for begin. */
  seq: number;
  results: StatementResult[];
  /** RFC 3339, by the gateway's clock: it is rolled back then unless another call comes before. */
  expiresAt: string;
  marks: Marks | null;
}

export interface RollbackResponse {
  id: string;
  state: "aborted";
}

/** What became of an id. */
export interface TransactionStateResponse {
  /** The transaction's. */
  id: string;
  /** At the level. */
  state: TransactionState;
  /** Of one that has committed: for `hw.promise(token)`. */
  token?: string;
  /** Of one that has committed: where. */
  position?: Position;
  /** The level that `state` is about, where it is about one. */
  level?: string;
  /** The newest that the gateway knows. */
  marks: Marks | null;
}

/**
 * The judgement of a tracker. `pending` may become any other; `durable` and `lost` are final, but
 * that a promise which a failure has violated becomes `broken`. `expired`: too old to know.
 * `unknown`: the service does not know the id.
 */
export type Verdict = "pending" | "durable" | "lost" | "broken" | "expired" | "unknown";

export interface VerdictsRequest {
  tokens: string[];
  level?: string;
  waitMs?: number;
}

/** The judgement of one transaction at one level. */
export interface TokenVerdict {
  /** The one that was judged. */
  token: string;
  /** Of the transaction. */
  id: string;
  /** What became of it. */
  verdict: Verdict;
  /** The level it was judged at. */
  level: string;
  /** Where the transaction is judged now: its own position, or the one it was carried over to. */
  position: Position;
  /** The rule that gave the verdict; one that this client found by itself starts with `client:`. */
  rule: string;
  /** For `lost`: the epoch in which another attempt under the same id committed. */
  retriedIn?: string;
  /** For `lost` and `broken`: the strongest level that the tombstone had reached when it was published. */
  settledAt?: string;
}

/** In the place of a verdict: the tracker does not judge this token for this caller. */
export interface RefusedToken {
  /** The one that was refused. */
  token: string;
  /** Always so: nothing is said of it. */
  verdict: "unknown";
  /** The level that was asked about. */
  level: string;
  /** Always so. */
  rule: "refused";
  /** Why: it is no token, or another owner's. */
  error: { code: "invalid_token" | "forbidden"; detail: string };
}

export interface VerdictsResponse {
  /** One for each token, in their order. */
  verdicts: (TokenVerdict | RefusedToken)[];
  marks: Marks | null;
  /**
   * The tracker gets nothing new from the primary: another tracker may settle what is pending here.
   */
  blind?: true;
}

export interface MarksResponse {
  marks: Marks | null;
  /** Those that are configured, weakest first. */
  levels: string[];
  /** The current epoch and its ancestors, oldest first. */
  epochs: EpochRecord[];
  /** As in an answer with verdicts. */
  blind?: true;
}

export interface EpochEvent {
  epochs: EpochRecord[];
}

export interface StallEvent {
  level: string;
  epoch: string;
  offset: string;
  pending: number;
}

/** Whether a tracker has lost sight of the primary. */
export interface BlindEvent {
  blind: boolean;
}

/** The limit that was met. */
export interface ReachedLimit {
  /** As the service's configuration calls it. */
  readonly name: string;
  /** In the unit that the name says. */
  readonly value: number;
}

/** What is committed and not durable yet. */
export interface AtRisk {
  /** How many they are. */
  readonly transactions: number;
  /** Of log, as decimal text. */
  readonly bytes: string;
  /** Age of the oldest in milliseconds; null when there is none. */
  readonly oldestMs: number | null;
}

/** What a refusal rests on: everything that the statement could see. */
export interface Evidence {
  /**
   * `committed`: visible; the request waited for no more. `pending`: not durable in the time.
   * `lost`: a failover took some of it back.
   */
  readonly state: "committed" | "durable" | "pending" | "lost";
  /** For `Highwater.promise`: durable when the refusal can no longer be taken back. */
  readonly token: string;
  /** The end of the log when the statement had been refused: everything that it could see is at or below. */
  readonly position: Position;
  /** At which it is durable, or was waited for. */
  readonly level?: string | undefined;
}

/** RFC 9457 body of an error answer. `code` is text here: a newer service may know more codes than this client. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  code: string;
  outcome: Outcome;
  retry: Retry;
  detail?: string | undefined;
  sqlstate?: string | undefined;
  statement?: number | undefined;
  constraint?: string | undefined;
  retryAfterMs?: number | undefined;
  fields?: readonly string[] | undefined;
  limit?: ReachedLimit | undefined;
  exposure?: AtRisk | undefined;
  evidence?: Evidence | undefined;
  transactionId?: string | undefined;
  open?: boolean | undefined;
}

/** The longest that the service holds an answer. */
export const WAIT_MS_MAX = 60_000;

type Guard = (value: unknown) => boolean;

const matches =
  (pattern: RegExp): Guard =>
  (value) =>
    typeof value === "string" && pattern.test(value);
const orNull =
  (guard: Guard): Guard =>
  (value) =>
    value == null || guard(value);
const listOf =
  (item: Guard): Guard =>
  (value) =>
    Array.isArray(value) && value.every(item);
const isRecord = (value: unknown): value is Record<string, unknown> => Object(value) === value;

/** Decimal text of 64 digits at most. */
export const isOffset = matches(/^(0|[1-9]\d{0,63})$/);
export const isUuid = matches(/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/);
const isText = matches(/^/);
const isNumber: Guard = (value) => typeof value === "number";
const oneOf = (alternatives: string): Guard => matches(new RegExp(`^(${alternatives})$`));
const isState = oneOf("active|committed|pending|durable|lost|aborted|broken|expired|unknown");

/**
 * Checks that a message has fields: their names with a space between, and a `?` behind those that
 * may be absent or null. The shapes that this package relies on, and no more: a newer service may
 * add fields.
 */
const has =
  <T>(names: string) =>
  (value: unknown): value is T =>
    isRecord(value) &&
    names.split(" ").every((name) => {
      const [field = ""] = name.split("?");
      const guard = FIELDS[field] ?? isText;
      return (field === name ? guard : orNull(guard))(value[field]);
    });

/** What a field holds, in whichever message it stands; any other one holds text. */
const FIELDS: Readonly<Record<string, Guard>> = {
  ...{ id: isUuid, epoch: isUuid, offset: isOffset, seq: isNumber, rowCount: isNumber, oid: isNumber },
  position: has("epoch offset"),
  levels: (levels) => isRecord(levels) && Object.values(levels).every(isOffset),
  marks: has("epoch seq levels"),
  epochs: listOf(has("id seq")),
  results: listOf(has("command rowCount fields rows")),
  fields: listOf(has("name oid")),
  rows: listOf(listOf(orNull(isText))),
  error: has("code detail"),
  verdicts: listOf((each) => has("token id level verdict position")(each) || has("token error")(each)),
  state: isState,
  verdict: isState,
  blind: (value) => typeof value === "boolean",
  outcome: oneOf("not_applied|applied|unknown"),
  retry: oneOf("never|transaction|resolve_outcome|wait"),
};

export const isMarks = has<Marks>("epoch seq levels");
export const isEpochEvent = has<EpochEvent>("epochs");
export const isStallEvent = has<StallEvent>("level epoch");
export const isBlindEvent = has<BlindEvent>("blind");
export const isTransactionResponse = has<TransactionResponse>("id state token position results? marks?");
export const isOpenTransactionResponse = has<OpenTransactionResponse>("state results expiresAt marks?");
export const isTransactionStateResponse = has<TransactionStateResponse>("id state token? position? marks?");
export const isRollbackResponse = has<RollbackResponse>("state");
export const isVerdictsResponse = has<VerdictsResponse>("verdicts marks? blind?");
export const isMarksResponse = has<MarksResponse>("epochs marks? blind?");
export const isProblem = has<Problem>("code outcome retry");
