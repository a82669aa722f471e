// The errors of this package. Check `code`, which is API, rather than `instanceof` if two copies of
// the package may be loaded. `outcome` says whether the transaction was applied.
//
// HighwaterError
// ├── InvalidRequestError         the request is wrong: fix the caller
// │   └── TokenRefusedError       a tracker does not judge this token for this caller; `token`
// ├── StatementError              the database refused a statement
// │   ├── ConstraintError         a statement violates a constraint; `constraint` names it
// │   └── SerializationError      a conflict: run the whole body again with a new id
// ├── UnavailableError            the service cannot do it now: wait
// │   ├── NoAnswerError           no answer, or one that cannot be understood
// │   └── ExposureLimitError      too much is committed but not durable; `limit` and `exposure`
// ├── UnknownOutcomeError         it may or may not have committed; look up `transactionId`
// ├── TransactionAbortedError     this id has not committed and never will
// ├── TransactionLostError        it was committed, and a failure discarded it; `verdict`
// ├── PromiseBrokenError          it was durable, and a failure discarded it; `verdict`
// ├── DurabilityTimeoutError      still pending when the wait ended; not a loss; `token`
// └── AbortError                  a signal ended the call; `cause` is its reason, and `outcome`
import {
  isProblem,
  type Outcome,
  type Position,
  type Problem,
  type RefusedToken,
  type Retry,
  type TokenVerdict,
  type TransactionState,
  type Verdict,
} from "./wire.ts";

export interface ErrorDetails extends Omit<Problem, "type" | "title" | "status" | "detail"> {
  /**
   * Stable identifier: a code of the service's catalogue, or one of this package's own (README).
   */
  readonly code: string;
  /** Whether the transaction was applied. */
  readonly outcome: Outcome;
  /** What the caller may do. */
  readonly retry: Retry;
  /** HTTP status of the response; absent if there was none. */
  readonly status?: number | undefined;
  /** The refused token, or the token of the transaction that was waited for. */
  readonly token?: string | undefined;
  /** For a wait that has ended early: the state of the transaction, `pending`. */
  readonly state?: TransactionState | undefined;
  /** Level of the wait. For a lost or broken transaction: the level of its verdict. */
  readonly level?: string | undefined;
  /** For a lost or broken transaction: where it committed, or was carried over to. */
  readonly position?: Position | undefined;
  /**
   * For a lost or broken transaction: the epoch that does not contain it, or the epoch in which
   * another attempt of it committed.
   */
  readonly successor?: string | undefined;
  /** For a transaction of this client: the metadata from its options. */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  /** The verdict that ended a wait, with the rule that gave it. */
  readonly verdict?: TokenVerdict | undefined;
  /** For a wait in several stores: name of the store that the error is about. */
  readonly store?: string | undefined;
  /** For a wait in several stores: what is known of each part. */
  readonly parts?: readonly StorePart[] | undefined;
  /** Underlying error or reason, as in any JavaScript error. */
  readonly cause?: unknown;
}

/** What is known of one part of a wait: one transaction, or what a session did in one store. */
export interface StorePart {
  /** Name of the store. */
  readonly store: string;
  /**
   * Verdict of the part. `pending` if there is no evidence, also because its store could not be
   * asked; `error` then says why. `unknown` if a tracker refused the token.
   */
  readonly state: Verdict;
  /** Id of the transaction; of a session, of the one that `error` is about. */
  readonly transactionId?: string | undefined;
  /** Why the part is not durable. Absent if it is, and if it was pending when the wait ended. */
  readonly error?: HighwaterError | undefined;
}

type Details = Omit<ErrorDetails, "cause">;
// The fields of an error are its details. The interface declares them and costs nothing at run
// time.
/**
 * Base class of all errors of this package. `code` is API; messages are not. `outcome` says whether
 * the transaction was applied. If two copies of the package may be loaded, test `code` rather than
 * `instanceof`.
 *
 * @example
 * ```ts
 * try {
 *   await hw.transaction(sql`INSERT INTO account VALUES (${1}, ${100})`);
 * } catch (error) {
 *   if (!(error instanceof HighwaterError)) throw error;
 *   // constraint_violation not_applied never account_pkey
 *   console.log(error.code, error.outcome, error.retry, error.constraint);
 * }
 * ```
 */
// oxlint-disable-next-line typescript/no-unsafe-declaration-merging, typescript/no-empty-object-type
export interface HighwaterError extends Details {}
export class HighwaterError extends Error {
  override name = "HighwaterError";

  constructor(message: string, { cause, ...details }: ErrorDetails) {
    super(message, cause === undefined ? undefined : { cause });
    Object.assign(this, details);
  }
}

/** The request is wrong: fix the caller. Nothing was applied. */
export class InvalidRequestError extends HighwaterError {
  override name = "InvalidRequestError";
}
/**
 * A tracker does not judge this token for this caller: the text is not a token (`invalid_token`),
 * or the token is another owner's (`forbidden`).
 */
export class TokenRefusedError extends InvalidRequestError {
  override name = "TokenRefusedError";
  /** The refused token. */
  declare readonly token: string;
}
/** The database refused a statement; see `sqlstate` and `statement`. Nothing was applied. */
export class StatementError extends HighwaterError {
  override name = "StatementError";
}
/** A statement violates a constraint; `constraint` names it. */
export class ConstraintError extends StatementError {
  override name = "ConstraintError";
}
/**
 * The transaction conflicted with another one. Run the whole body again with a new id, as
 * `Highwater.transact` does.
 */
export class SerializationError extends StatementError {
  override name = "SerializationError";
}
/** The service cannot do it now: wait. The client has retried until its time ran out. */
export class UnavailableError extends HighwaterError {
  override name = "UnavailableError";
}
/**
 * No answer came, or it cannot be understood; the code is `client_closed` if the client was closed.
 * `outcome` says whether the transaction may have been applied.
 */
export class NoAnswerError extends UnavailableError {
  override name = "NoAnswerError";
}
/** Too much is committed but not durable; see `limit` and `exposure`. Nothing was applied. */
export class ExposureLimitError extends UnavailableError {
  override name = "ExposureLimitError";
}
/**
 * The transaction may or may not have committed. Look up `transactionId` with `Highwater.status`;
 * never run the transaction again under another id.
 */
export class UnknownOutcomeError extends HighwaterError {
  override name = "UnknownOutcomeError";
}
/** This id has not committed and never will. Run the whole body again with a new id. */
export class TransactionAbortedError extends HighwaterError {
  override name = "TransactionAbortedError";
}
/**
 * The transaction was committed, and a failure discarded it. `verdict` has the evidence; it is
 * absent if the service refused an id that was lost earlier. If `outcome` is `applied`, another
 * attempt under the same id has committed: do not run it again.
 */
export class TransactionLostError extends HighwaterError {
  override name = "TransactionLostError";
}
/** A failure discarded the transaction although it was durable at the level; see `verdict`. */
export class PromiseBrokenError extends HighwaterError {
  override name = "PromiseBrokenError";
}
/**
 * The transaction was still pending when the wait ended. It has committed and is not lost: wait
 * again, with `hw.promise(token).durable()`.
 */
export class DurabilityTimeoutError extends HighwaterError {
  override name = "DurabilityTimeoutError";
  /** Token of the transaction; after a wait for several, of one that is still pending. */
  declare readonly token: string;
}
/**
 * A signal ended the call. `cause` is the signal's reason, and `outcome` the state of the
 * transaction. If that is `unknown`, look it up with `Highwater.status`.
 */
export class AbortError extends HighwaterError {
  override name = "AbortError";
}

type ErrorClass = new (message: string, details: ErrorDetails) => HighwaterError;

/** What a code means. Default: `not_applied` and `never`. */
type Kind = readonly [Class: ErrorClass, outcome?: Outcome, retry?: Retry];

const ABORTED: Kind = [TransactionAbortedError, "not_applied", "transaction"];
const UNKNOWN: Kind = [UnknownOutcomeError, "unknown", "resolve_outcome"];
const NO_ANSWER: Kind = [NoAnswerError, "unknown", "wait"];

/** A table of names that come from a service: it has none but its own. */
const tableOf = <T>(rows: Readonly<Record<string, T>>): ReadonlyMap<string, T> =>
  new Map(Object.entries(rows));

/** All other codes of this package are `InvalidRequestError`s. */
const KINDS = tableOf<Kind>({
  constraint_violation: [ConstraintError],
  serialization_failure: [SerializationError],
  refusal_unconfirmed: [SerializationError],
  statement_failed: [StatementError],
  statement_timeout: [StatementError],
  transaction_aborted: ABORTED,
  transaction_expired: ABORTED,
  cancelled: ABORTED,
  gateway_lost: ABORTED,
  transaction_lost: [TransactionLostError, "not_applied", "transaction"],
  promise_broken: [PromiseBrokenError, "unknown"],
  id_expired: [UnknownOutcomeError, "unknown"],
  outcome_unknown: UNKNOWN,
  transaction_unknown: UNKNOWN,
  exposure_limit: [ExposureLimitError],
  overloaded: [UnavailableError, "not_applied", "wait"],
  durability_timeout: [DurabilityTimeoutError, "applied", "wait"],
  connection_failed: NO_ANSWER,
  request_timeout: NO_ANSWER,
  bad_answer: NO_ANSWER,
  client_closed: [NoAnswerError],
  call_aborted: [AbortError],
  results_not_kept: [HighwaterError, "applied"],
});

/** Classes of the codes that this version does not know, by retry rule. */
const BY_RETRY: Readonly<Record<Retry, ErrorClass>> = {
  wait: UnavailableError,
  resolve_outcome: UnknownOutcomeError,
  never: InvalidRequestError,
  transaction: InvalidRequestError,
};

/**
 * Creates an error of this package. `message` says what happened and what to do; the id is
 * appended.
 */
export function failure(code: string, message: string, details: Partial<ErrorDetails> = {}): HighwaterError {
  const [Class = InvalidRequestError, outcome = "not_applied", retry = "never"] = KINDS.get(code) ?? [];
  const { transactionId } = details;
  const about = transactionId === undefined ? "" : ` (transaction ${transactionId})`;
  return new Class(message + about, { code, outcome, retry, ...details });
}

/** Creates the error of a response outside 2xx: a problem of the service, or a proxy's answer. */
export function answerError(status: number, body: unknown, retryAfterMs: number | undefined): HighwaterError {
  if (isProblem(body)) {
    const { type: _type, title, detail, ...problem } = body;
    const [Class = BY_RETRY[problem.retry]] = KINDS.get(problem.code) ?? [];
    return new Class(detail ?? title, { retryAfterMs, ...problem, status });
  }
  // A proxy that lost patience (408) may have passed the request on.
  const isUncertain = status === 408 || status >= 500;
  const code = status === 429 ? "overloaded" : isUncertain ? "bad_answer" : "unexpected_status";
  const message = `no answer of the service: ${status}`;
  return failure(code, message, { status, retryAfterMs });
}

export function closedError(details?: Partial<ErrorDetails>): HighwaterError {
  return failure("client_closed", "the client is closed", details);
}

export function refusedError({ token, error: { code, detail } }: RefusedToken): TokenRefusedError {
  return new TokenRefusedError(detail, { code, outcome: "not_applied", retry: "never", token });
}

/** Creates the error of a wait that time or a signal ended while the work continues. */
export function endError(
  isAborted: boolean,
  signal: AbortSignal | undefined,
  outcome: Outcome,
  transactionId?: string,
): HighwaterError {
  return isAborted
    ? abortError(signal?.reason, outcome, transactionId)
    : failure("request_timeout", "it timed out", { outcome, transactionId });
}

/** Creates the error of a call that a signal ended. The signal's reason may be any value. */
export function abortError(cause: unknown, outcome: Outcome, transactionId?: string): HighwaterError {
  const retry = outcome === "unknown" ? "resolve_outcome" : "never";
  const message = "a signal ended it";
  return failure("call_aborted", message, { outcome, retry, transactionId, cause });
}

export function unknownOutcome(transactionId: string | undefined, cause: unknown): HighwaterError {
  const message = "it may have committed: look it up";
  return failure("outcome_unknown", message, { transactionId, cause });
}

/** Code and message of each state in which nothing more can be learned, other than committed. */
const SETTLED = tableOf<readonly [code: string, message: string]>({
  lost: ["transaction_lost", "a failover discarded it: run it again with a new id"],
  aborted: ["transaction_aborted", "it never commits: run it again with a new id"],
  broken: ["promise_broken", "a failover discarded it"],
  expired: ["id_expired", "its receipt is gone"],
  unknown: ["transaction_unknown", "no tracker knows it"],
});

/** Returns the error of one of these states, or undefined for any other state. */
export function stateError(
  transactionId: string,
  state: string,
  details: Partial<ErrorDetails> = {},
): HighwaterError | undefined {
  const settled = SETTLED.get(state);
  if (!settled) return undefined;
  const [code, message] = settled;
  const { verdict, redo = verdict?.redo } = details;
  // A late copy of the request has run in the new history. Running the body again under a new id
  // would do it twice.
  const retriedIn = verdict?.retriedIn;
  const instead = retriedIn
    ? "a failover discarded it: a retry committed"
    : redo && "a failover discarded it: the service redoes it";
  return failure(code, instead ?? message, {
    ...details,
    transactionId,
    ...(retriedIn ? { outcome: "applied", retry: "resolve_outcome" } : redo && { redo, retry: "never" }),
  });
}
