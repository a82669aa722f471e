// The errors of this package. Check `code` (it is API) rather than `instanceof` where two copies of the package may
// meet. `outcome` answers the question that an error of a database client must answer: was it applied?
//
// HighwaterError
// ├── InvalidRequestError         the request itself is wrong: fix the caller
// │   └── TokenRefusedError       a tracker does not judge this token for this caller; `token`
// ├── StatementError              the database refused a statement
// │   ├── ConstraintError         a constraint is violated; `constraint` names it
// │   └── SerializationError      conflicted with another transaction: run the whole body again, with a new id
// ├── UnavailableError            the service cannot do it now: wait
// │   ├── ConnectionError         no answer, or none that can be understood
// │   └── ExposureLimitError      too much is committed and not durable yet; `limit` and `exposure` say how much
// ├── UnknownOutcomeError         it may or may not have committed; `transactionId` is the id to ask about
// ├── TransactionAbortedError     this id never committed and never will
// ├── TransactionLostError        was committed, and is gone after a failure; `verdict` says how that is known
// ├── PromiseBrokenError          was durable at the level, and a failure that the level covers took it all the same
// └── DurabilityTimeoutError      still pending when the wait ended; nothing is lost
import {
  type AtRisk,
  isProblem,
  type Outcome,
  type Position,
  type ReachedLimit,
  type RefusedToken,
  type Retry,
  type TokenVerdict,
} from "./wire.ts";

export interface ErrorDetails {
  /** Stable identifier: a code of the service's catalogue, or one of this package's own (README). */
  readonly code: string;
  readonly outcome: Outcome;
  readonly retry: Retry;
  /** HTTP status of the answer; absent where there was none. */
  readonly status?: number | undefined;
  readonly sqlstate?: string | undefined;
  readonly constraint?: string | undefined;
  /** Index of the statement at fault, from 0. */
  readonly statement?: number | undefined;
  readonly fields?: readonly string[] | undefined;
  /** The limit that was met, by name and value. */
  readonly limit?: ReachedLimit | undefined;
  /** What is committed and not durable yet, of those that the limit counts. */
  readonly exposure?: AtRisk | undefined;
  readonly transactionId?: string | undefined;
  /** Of an interactive transaction: whether it is still open. */
  readonly open?: boolean | undefined;
  /** How long the service asked to wait before the next attempt. */
  readonly retryAfterMs?: number | undefined;
  readonly token?: string | undefined;
  /** Of a wait: the level that was waited for. */
  readonly level?: string | undefined;
  /** Of a transaction that is gone: where it had committed, or was carried over to, and the epoch that is without it. */
  readonly position?: Position | undefined;
  readonly successor?: string | undefined;
  /** Of a transaction of this client: what its options said. */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  readonly verdict?: TokenVerdict | undefined;
  readonly cause?: unknown;
}

type Details = Omit<ErrorDetails, "cause">;
// The fields of an error are its details: an interface says so to the compiler, and costs nothing at run time.
// eslint-disable-next-line @typescript-eslint/no-unsafe-declaration-merging, @typescript-eslint/no-empty-object-type
export interface HighwaterError extends Details {}
// eslint-disable-next-line @typescript-eslint/no-unsafe-declaration-merging
export class HighwaterError extends Error {
  override name = "HighwaterError";

  constructor(message: string, { cause, ...details }: ErrorDetails) {
    super(message, cause === undefined ? undefined : { cause });
    Object.assign(this, details);
  }
}

export class InvalidRequestError extends HighwaterError {
  override name = "InvalidRequestError";
}
export class TokenRefusedError extends InvalidRequestError {
  override name = "TokenRefusedError";
  declare readonly token: string;
}
export class StatementError extends HighwaterError {
  override name = "StatementError";
}
export class ConstraintError extends StatementError {
  override name = "ConstraintError";
}
export class SerializationError extends StatementError {
  override name = "SerializationError";
}
export class UnavailableError extends HighwaterError {
  override name = "UnavailableError";
}
export class ConnectionError extends UnavailableError {
  override name = "ConnectionError";
}
export class ExposureLimitError extends UnavailableError {
  override name = "ExposureLimitError";
}
export class UnknownOutcomeError extends HighwaterError {
  override name = "UnknownOutcomeError";
}
export class TransactionAbortedError extends HighwaterError {
  override name = "TransactionAbortedError";
}
/** `verdict` is absent when the service refused an id that was lost earlier. */
export class TransactionLostError extends HighwaterError {
  override name = "TransactionLostError";
}
export class PromiseBrokenError extends HighwaterError {
  override name = "PromiseBrokenError";
}
export class DurabilityTimeoutError extends HighwaterError {
  override name = "DurabilityTimeoutError";
}

type ErrorClass = new (message: string, details: ErrorDetails) => HighwaterError;
type Kind = readonly [ErrorClass, Outcome?, Retry?];

/** Errors that are told by their code, whoever finds them: their class, and what holds where nobody else says otherwise. */
const BY_CODE: Readonly<Record<string, Kind>> = {
  constraint_violation: [ConstraintError],
  serialization_failure: [SerializationError],
  statement_failed: [StatementError],
  statement_timeout: [StatementError],
  transaction_aborted: [TransactionAbortedError, "not_applied", "transaction"],
  transaction_expired: [TransactionAbortedError],
  gateway_lost: [TransactionAbortedError, "not_applied", "transaction"],
  transaction_lost: [TransactionLostError, "not_applied", "transaction"],
  promise_broken: [PromiseBrokenError, "unknown"],
  id_expired: [UnknownOutcomeError, "unknown"],
  outcome_unknown: [UnknownOutcomeError, "unknown", "resolve_outcome"],
  transaction_unknown: [UnknownOutcomeError, "unknown", "resolve_outcome"],
  exposure_limit: [ExposureLimitError],
  overloaded: [UnavailableError, "not_applied", "wait"],
  durability_timeout: [DurabilityTimeoutError, "applied", "wait"],
  connection_failed: [ConnectionError, "unknown", "wait"],
  request_timeout: [ConnectionError, "unknown", "wait"],
  bad_answer: [ConnectionError, "unknown", "wait"],
  client_closed: [ConnectionError],
};

/** A code that this version does not know is typed by its retry rule. */
const BY_RETRY: Readonly<Record<Retry, ErrorClass>> = {
  wait: UnavailableError,
  resolve_outcome: UnknownOutcomeError,
  never: InvalidRequestError,
  transaction: InvalidRequestError,
};

/** The error of a code of this package's own, or of one that both know. Any other code blames the caller. */
export function failure(code: string, message: string, details: Partial<ErrorDetails> = {}): HighwaterError {
  const [Class, outcome = "not_applied", retry = "never"] = BY_CODE[code] ?? [InvalidRequestError];
  return new Class(message, { code, outcome, retry, ...details });
}

/** The typed error of any answer outside 2xx: a problem of the service, or something a proxy on the way made up. */
export function answerError(status: number, body: unknown, retryAfterMs: number | undefined): HighwaterError {
  if (isProblem(body)) {
    const { type: _type, title, detail, ...problem } = body;
    const known = Object.hasOwn(BY_CODE, problem.code) ? BY_CODE[problem.code]?.[0] : undefined;
    const details = { retryAfterMs, ...problem, status };
    return new (known ?? BY_RETRY[problem.retry])(detail ?? title, details);
  }
  const code = status === 429 ? "overloaded" : status >= 500 ? "bad_answer" : "unexpected_status";
  return failure(code, `status ${String(status)}, not of the service`, { status, retryAfterMs });
}

export function closedError(): HighwaterError {
  return failure("client_closed", "the client is closed");
}

export function refusedError({ token, error: { code, detail } }: RefusedToken): TokenRefusedError {
  return new TokenRefusedError(detail, { code, outcome: "not_applied", retry: "never", token });
}

export function unknownOutcome(transactionId: string, cause: unknown): HighwaterError {
  return failure("outcome_unknown", `${transactionId} may or may not have committed`, {
    transactionId,
    cause,
  });
}

const SETTLED: Readonly<Record<string, readonly [code: string, what: string]>> = {
  lost: ["transaction_lost", "was committed and is lost"],
  aborted: ["transaction_aborted", "is aborted"],
  broken: ["promise_broken", "was durable, and is lost"],
  expired: ["id_expired", "is too old to know"],
};

/** The error that stands for a settled state other than committed, or undefined where the state settles nothing. */
export function stateError(
  transactionId: string,
  state: string,
  details: Partial<ErrorDetails> = {},
): HighwaterError | undefined {
  const settled = SETTLED[state];
  if (settled === undefined) return undefined;
  const [code, what] = settled;
  const message = `transaction ${transactionId} ${what}`;
  // A copy of the request that was on its way for long has run in the new history: whoever ran the body again under a
  // new id would do it twice.
  if (details.verdict?.retriedIn !== undefined)
    return failure(code, `${message}; another attempt committed`, {
      ...{ transactionId, ...details, outcome: "applied", retry: "resolve_outcome" },
    });
  return failure(code, message, { transactionId, ...details });
}
