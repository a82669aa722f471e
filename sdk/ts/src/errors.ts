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
// ├── DurabilityTimeoutError      still pending when the wait ended; nothing is lost
// └── AbortError                  a signal ended the call; `cause` is its reason, `outcome` what that means for the transaction
import {
  isProblem,
  type Outcome,
  type Position,
  type Problem,
  type RefusedToken,
  type Retry,
  type TokenVerdict,
} from "./wire.ts";

export interface ErrorDetails extends Omit<Problem, "type" | "title" | "status" | "detail"> {
  /** Stable identifier: a code of the service's catalogue, or one of this package's own (README). */
  readonly code: string;
  /** Whether the transaction that the error is about was applied. */
  readonly outcome: Outcome;
  /** What a caller may do. */
  readonly retry: Retry;
  /** HTTP status of the answer; absent where there was none. */
  readonly status?: number | undefined;
  /** The token that was refused. */
  readonly token?: string | undefined;
  /** The level that was waited for in vain; of a transaction that is gone, that of its verdict. */
  readonly level?: string | undefined;
  /** Of a transaction that is gone: where it had committed, or was carried over to. */
  readonly position?: Position | undefined;
  /** Of a transaction that is gone: the epoch that is without it, or the one in which another attempt of it committed. */
  readonly successor?: string | undefined;
  /** Of a transaction of this client: what its options said. */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  /** Of a wait that a verdict has ended: that verdict, with the rule it was given by. */
  readonly verdict?: TokenVerdict | undefined;
  /** What led to it, as every error of JavaScript may have it. */
  readonly cause?: unknown;
}

type Details = Omit<ErrorDetails, "cause">;
// The fields of an error are its details: an interface says so to the compiler, and costs nothing at run time.
/**
 * What every error of this package is. `code` is API, and messages are not; `outcome` answers the question that an error of a
 * database client must answer: was it applied? Where two copies of the package may meet, `code` is a better test than `instanceof`.
 *
 * @example
 * ```ts
 * try {
 *   await hw.transaction(sql`INSERT INTO account VALUES (${1}, ${100})`);
 * } catch (error) {
 *   if (!(error instanceof HighwaterError)) throw error;
 *   console.log(error.code, error.outcome, error.retry, error.constraint); // constraint_violation not_applied never account_pkey
 * }
 * ```
 */
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

/** The request itself is wrong: fix the caller. Nothing was applied. */
export class InvalidRequestError extends HighwaterError {
  override name = "InvalidRequestError";
}
/** A tracker does not judge this token for this caller: it is no token (`invalid_token`) or another owner's (`forbidden`). */
export class TokenRefusedError extends InvalidRequestError {
  override name = "TokenRefusedError";
  /** The one that was refused. */
  declare readonly token: string;
}
/** The database refused a statement; `sqlstate` says why, `statement` which one. Nothing was applied. */
export class StatementError extends HighwaterError {
  override name = "StatementError";
}
/** A constraint is violated; `constraint` names it. */
export class ConstraintError extends StatementError {
  override name = "ConstraintError";
}
/** Conflicted with another transaction: run the whole body again, with a new id. `Highwater.transact` does. */
export class SerializationError extends StatementError {
  override name = "SerializationError";
}
/** The service cannot do it now: wait. The client has tried until its time was over. */
export class UnavailableError extends HighwaterError {
  override name = "UnavailableError";
}
/** No answer, or none that can be understood; `client_closed` where the client was closed. `outcome` says whether it may be applied. */
export class ConnectionError extends UnavailableError {
  override name = "ConnectionError";
}
/** Too much is committed and not durable yet; `limit` and `exposure` say how much. Nothing was applied. */
export class ExposureLimitError extends UnavailableError {
  override name = "ExposureLimitError";
}
/** It may or may not have committed; `transactionId` is the id to ask `Highwater.status` about. Never run it again under another id. */
export class UnknownOutcomeError extends HighwaterError {
  override name = "UnknownOutcomeError";
}
/** This id never committed and never will: run the whole body again, with a new id. */
export class TransactionAbortedError extends HighwaterError {
  override name = "TransactionAbortedError";
}
/**
 * Was committed, and is gone after a failure. `verdict` says how that is known; it is absent when the service refused an id that was
 * lost earlier. Where `outcome` is `applied`, another attempt under the same id has committed: nothing is to be run again.
 */
export class TransactionLostError extends HighwaterError {
  override name = "TransactionLostError";
}
/** Was durable at the level, and a failure that the level covers took it all the same; `verdict` says how that is known. */
export class PromiseBrokenError extends HighwaterError {
  override name = "PromiseBrokenError";
}
/** Still pending when the wait ended; nothing is lost, and it can be waited for again. */
export class DurabilityTimeoutError extends HighwaterError {
  override name = "DurabilityTimeoutError";
}
/** A signal ended the call: `cause` is its reason, `outcome` what that means for the transaction; `unknown` can be asked about. */
export class AbortError extends HighwaterError {
  override name = "AbortError";
}

type ErrorClass = new (message: string, details: ErrorDetails) => HighwaterError;

/** What a code means: its class, and what holds where the service has not said otherwise. */
interface Kind {
  readonly Class: ErrorClass;
  readonly outcome?: Outcome;
  readonly retry?: Retry;
}

const ABORTED: Kind = { Class: TransactionAbortedError, outcome: "not_applied", retry: "transaction" };
const UNKNOWN: Kind = { Class: UnknownOutcomeError, outcome: "unknown", retry: "resolve_outcome" };
const NO_ANSWER: Kind = { Class: ConnectionError, outcome: "unknown", retry: "wait" };

/** Any other code of this package's own is an `InvalidRequestError`. */
const KINDS: Readonly<Partial<Record<string, Kind>>> = {
  constraint_violation: { Class: ConstraintError },
  serialization_failure: { Class: SerializationError },
  refusal_unconfirmed: { Class: SerializationError },
  statement_failed: { Class: StatementError },
  statement_timeout: { Class: StatementError },
  transaction_aborted: ABORTED,
  transaction_expired: ABORTED,
  cancelled: ABORTED,
  gateway_lost: ABORTED,
  transaction_lost: { Class: TransactionLostError, retry: "transaction" },
  promise_broken: { Class: PromiseBrokenError, outcome: "unknown" },
  id_expired: { Class: UnknownOutcomeError, outcome: "unknown" },
  outcome_unknown: UNKNOWN,
  transaction_unknown: UNKNOWN,
  exposure_limit: { Class: ExposureLimitError },
  overloaded: { Class: UnavailableError, retry: "wait" },
  durability_timeout: { Class: DurabilityTimeoutError, outcome: "applied", retry: "wait" },
  connection_failed: NO_ANSWER,
  request_timeout: NO_ANSWER,
  bad_answer: NO_ANSWER,
  client_closed: { Class: ConnectionError },
  call_aborted: { Class: AbortError },
  results_not_kept: { Class: HighwaterError, outcome: "applied" },
};

/** A code that this version does not know is typed by its retry rule. */
const BY_RETRY: Readonly<Record<Retry, ErrorClass>> = {
  wait: UnavailableError,
  resolve_outcome: UnknownOutcomeError,
  never: InvalidRequestError,
  transaction: InvalidRequestError,
};

/** An error that this package finds itself. `message` says what happened and what to do; the transaction's id is added to it. */
export function failure(code: string, message: string, details: Partial<ErrorDetails> = {}): HighwaterError {
  const {
    Class,
    outcome = "not_applied",
    retry = "never",
  }: Kind = KINDS[code] ?? {
    Class: InvalidRequestError,
  };
  const { transactionId } = details;
  const about = transactionId === undefined ? "" : ` (transaction ${transactionId})`;
  return new Class(message + about, { code, outcome, retry, ...details });
}

/** The typed error of any answer outside 2xx: a problem of the service, or something a proxy on the way made up. */
export function answerError(status: number, body: unknown, retryAfterMs: number | undefined): HighwaterError {
  if (isProblem(body)) {
    const { type: _type, title, detail, ...problem } = body;
    const Class = KINDS[problem.code]?.Class ?? BY_RETRY[problem.retry];
    return new Class(detail ?? title, { retryAfterMs, ...problem, status });
  }
  const code = status === 429 ? "overloaded" : status >= 500 ? "bad_answer" : "unexpected_status";
  const message = `status ${String(status)}, and the body is not the service's: a proxy may have answered`;
  return failure(code, message, { status, retryAfterMs });
}

export function closedError(): HighwaterError {
  return failure("client_closed", "the client is closed: make another one");
}

export function refusedError({ token, error: { code, detail } }: RefusedToken): TokenRefusedError {
  return new TokenRefusedError(detail, { code, outcome: "not_applied", retry: "never", token });
}

/** Time or signal ended a wait for something that goes on by itself. */
export function endError(
  isAborted: boolean,
  signal: AbortSignal | undefined,
  outcome: Outcome,
  transactionId?: string,
): HighwaterError {
  return isAborted
    ? abortError(signal?.reason, outcome, transactionId)
    : failure("request_timeout", "the time of the call is over", { outcome, transactionId });
}

const ABORT_MESSAGES: Readonly<Record<Outcome, string>> = {
  applied: "the signal ended the wait; the transaction stays committed",
  not_applied: "the signal ended the call before anything was applied",
  unknown: "the signal ended the call; ask for the transaction's status to learn whether it committed",
};

/** A signal ended the call; its reason may be anything. */
export function abortError(cause: unknown, outcome: Outcome, transactionId?: string): HighwaterError {
  const retry = outcome === "unknown" ? "resolve_outcome" : "never";
  return failure("call_aborted", ABORT_MESSAGES[outcome], { outcome, retry, transactionId, cause });
}

export function unknownOutcome(transactionId: string | undefined, cause: unknown): HighwaterError {
  const message = "the transaction may or may not have committed: ask for its status";
  return failure("outcome_unknown", message, { transactionId, cause });
}

/** A settled state other than committed: its code and message. */
const SETTLED: Readonly<Partial<Record<string, readonly [code: string, message: string]>>> = {
  lost: ["transaction_lost", "a failover discarded the committed transaction: run it again with a new id"],
  aborted: ["transaction_aborted", "the transaction never commits: run it again with a new id"],
  broken: ["promise_broken", "a failure discarded the transaction after it was durable"],
  expired: ["id_expired", "the transaction is too old: its receipt is no longer kept"],
};

/** The error that stands for a settled state other than committed, or undefined where the state settles nothing. */
export function stateError(
  transactionId: string,
  state: string,
  details: Partial<ErrorDetails> = {},
): HighwaterError | undefined {
  const [code, message] = SETTLED[state] ?? [];
  if (code === undefined || message === undefined) return undefined;
  // A late copy of the request has run in the new history: running the body again under a new id would do it twice.
  return details.verdict?.retriedIn === undefined
    ? failure(code, message, { ...details, transactionId })
    : failure(code, "a failover discarded this attempt, and another one under the same id committed", {
        ...details,
        ...({ transactionId, outcome: "applied", retry: "resolve_outcome" } as const),
      });
}
