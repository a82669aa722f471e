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
  epoch: string;
  offset: string;
}

/** What is durable now, by level, in one epoch. A level that was never observed is absent, not zero. */
export interface Marks {
  epoch: string;
  seq: number;
  levels: Record<string, string>;
}

export interface EpochRecord {
  id: string;
  seq: number;
  previous: string | null;
  node: string;
  cause: "first" | "clean_restart" | "crash_recovery" | "promotion" | "reinstated";
  startedAt: string;
  /** Upper bound of this record's own place in the epoch's log. */
  startOffset: string;
  /** The previous epoch's log is contained in this history at least up to here. */
  forkOffset: string;
  forkLimit: string | null;
  supersedes: string[];
  commanded: boolean;
  finalMarks: Record<string, string>;
}

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
  metadata?: Record<string, string>;
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
  node: string;
  region: string;
  role: "primary" | "replica";
  behindBytes: string | null;
  behindMs: number | null;
}

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

export interface TransactionStateResponse {
  id: string;
  state: TransactionState;
  token?: string;
  position?: Position;
  level?: string;
  marks: Marks | null;
}

export type Verdict = "pending" | "durable" | "lost" | "broken" | "expired" | "unknown";

export interface VerdictsRequest {
  tokens: string[];
  level?: string;
  waitMs?: number;
}

/** The judgement of one transaction at one level. */
export interface TokenVerdict {
  token: string;
  id: string;
  verdict: Verdict;
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
  token: string;
  verdict: "unknown";
  level: string;
  rule: "refused";
  error: { code: "invalid_token" | "forbidden"; detail: string };
}

export interface VerdictsResponse {
  /** One for each token, in their order. */
  verdicts: (TokenVerdict | RefusedToken)[];
  marks: Marks | null;
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
  transactionId?: string | undefined;
}

export const LIMITS = {
  tokensPerRequest: 10_000,
  waitMs: 60_000,
} as const;

const DECIMAL = /^(0|[1-9][0-9]{0,63})$/;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const OUTCOMES: readonly unknown[] = ["not_applied", "applied", "unknown"];
const RETRIES: readonly unknown[] = ["never", "transaction", "resolve_outcome", "wait"];
const STATES: readonly unknown[] = [
  ...["active", "committed", "pending", "durable", "lost", "aborted", "broken", "expired", "unknown"],
];
const VERDICTS: readonly unknown[] = ["pending", "durable", "lost", "broken", "expired", "unknown"];

type Fields = Record<string, unknown>;

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isUuid(value: unknown): value is string {
  return typeof value === "string" && UUID.test(value);
}

function isOffset(value: unknown): value is string {
  return typeof value === "string" && DECIMAL.test(value);
}

export function isPosition(value: unknown): value is Position {
  return isObject(value) && isUuid(value["epoch"]) && isOffset(value["offset"]);
}

export function isMarks(value: unknown): value is Marks {
  return (
    isObject(value) &&
    isUuid(value["epoch"]) &&
    typeof value["seq"] === "number" &&
    isObject(value["levels"]) &&
    Object.values(value["levels"]).every(isOffset)
  );
}

function isMarksOrNull(value: unknown): value is Marks | null {
  return value == null || isMarks(value);
}

/** Checks what the promise book relies on, and no more: a newer service may add fields. */
export function isEpochEvent(value: unknown): value is EpochEvent {
  return (
    isObject(value) &&
    Array.isArray(value["epochs"]) &&
    value["epochs"].length > 0 &&
    value["epochs"].every(
      (record) =>
        isObject(record) &&
        isUuid(record["id"]) &&
        (record["previous"] === null || isUuid(record["previous"])) &&
        isOffset(record["startOffset"]) &&
        isOffset(record["forkOffset"]),
    )
  );
}

export function isStallEvent(value: unknown): value is StallEvent {
  return isObject(value) && typeof value["level"] === "string" && isUuid(value["epoch"]);
}

function isField(value: unknown): boolean {
  return isObject(value) && typeof value["name"] === "string" && typeof value["oid"] === "number";
}

function isRow(value: unknown): boolean {
  return Array.isArray(value) && value.every((one) => one === null || typeof one === "string");
}

function isStatementResult(value: unknown): value is StatementResult {
  return (
    isObject(value) &&
    typeof value["command"] === "string" &&
    typeof value["rowCount"] === "number" &&
    Array.isArray(value["fields"]) &&
    value["fields"].every(isField) &&
    Array.isArray(value["rows"]) &&
    value["rows"].every(isRow)
  );
}

export function isTransactionResponse(value: unknown): value is TransactionResponse {
  return (
    isObject(value) &&
    isUuid(value["id"]) &&
    STATES.includes(value["state"]) &&
    typeof value["token"] === "string" &&
    isPosition(value["position"]) &&
    isMarksOrNull(value["marks"]) &&
    (value["results"] === null ||
      (Array.isArray(value["results"]) && value["results"].every(isStatementResult)))
  );
}

export function isTransactionStateResponse(value: unknown): value is TransactionStateResponse {
  return (
    isObject(value) &&
    isUuid(value["id"]) &&
    STATES.includes(value["state"]) &&
    (value["token"] === undefined || typeof value["token"] === "string") &&
    (value["position"] === undefined || isPosition(value["position"])) &&
    isMarksOrNull(value["marks"])
  );
}

function isTokenVerdict(value: unknown): value is TokenVerdict {
  return (
    isObject(value) &&
    typeof value["token"] === "string" &&
    isUuid(value["id"]) &&
    VERDICTS.includes(value["verdict"]) &&
    typeof value["level"] === "string" &&
    isPosition(value["position"])
  );
}

function isRefusedToken(value: unknown): value is RefusedToken {
  return (
    isObject(value) &&
    typeof value["token"] === "string" &&
    value["verdict"] === "unknown" &&
    isObject(value["error"]) &&
    typeof value["error"]["code"] === "string" &&
    typeof value["error"]["detail"] === "string"
  );
}

export function isVerdictsResponse(value: unknown): value is VerdictsResponse {
  return (
    isObject(value) &&
    Array.isArray(value["verdicts"]) &&
    value["verdicts"].every((one) => isTokenVerdict(one) || isRefusedToken(one)) &&
    isMarksOrNull(value["marks"])
  );
}

export function isProblem(value: unknown): value is Problem {
  return (
    isObject(value) &&
    typeof value["code"] === "string" &&
    OUTCOMES.includes(value["outcome"]) &&
    RETRIES.includes(value["retry"])
  );
}
