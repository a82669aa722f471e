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
  type Problem,
  type ReachedLimit,
  type RefusedToken,
  type Retry,
  type TokenVerdict,
  type TransactionState,
  type Verdict,
} from "./wire.ts";

export interface ErrorDetails {
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
  readonly verdict?: TokenVerdict | undefined;
  readonly cause?: unknown;
}

export class HighwaterError extends Error {
  override name = "HighwaterError";
  /** Stable identifier: a code of the service's catalogue, or one of this package's own (README). */
  declare readonly code: string;
  declare readonly outcome: Outcome;
  declare readonly retry: Retry;
  declare readonly status: ErrorDetails["status"];
  declare readonly sqlstate: ErrorDetails["sqlstate"];
  declare readonly constraint: ErrorDetails["constraint"];
  declare readonly statement: ErrorDetails["statement"];
  declare readonly fields: ErrorDetails["fields"];
  declare readonly limit: ErrorDetails["limit"];
  declare readonly exposure: ErrorDetails["exposure"];
  declare readonly transactionId: ErrorDetails["transactionId"];
  declare readonly open: ErrorDetails["open"];
  declare readonly retryAfterMs: ErrorDetails["retryAfterMs"];

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
export class TransactionLostError extends HighwaterError {
  override name = "TransactionLostError";
  /** Absent when the service refused an id that was lost earlier. */
  declare readonly verdict: TokenVerdict | undefined;
}
export class PromiseBrokenError extends HighwaterError {
  override name = "PromiseBrokenError";
  declare readonly verdict: TokenVerdict | undefined;
}
export class DurabilityTimeoutError extends HighwaterError {
  override name = "DurabilityTimeoutError";
}

type ErrorClass = new (message: string, details: ErrorDetails) => HighwaterError;

const BY_CODE: Readonly<Record<string, ErrorClass>> = {
  constraint_violation: ConstraintError,
  serialization_failure: SerializationError,
  statement_failed: StatementError,
  statement_timeout: StatementError,
  transaction_aborted: TransactionAbortedError,
  transaction_lost: TransactionLostError,
  id_expired: UnknownOutcomeError,
  promise_broken: PromiseBrokenError,
  transaction_expired: TransactionAbortedError,
  exposure_limit: ExposureLimitError,
};
const BY_RETRY: Readonly<Record<Retry, ErrorClass>> = {
  wait: UnavailableError,
  resolve_outcome: UnknownOutcomeError,
  never: InvalidRequestError,
  transaction: InvalidRequestError,
};

/** The typed error of a problem answer. A code that this version does not know is typed by its retry rule. */
export function problemError(
  { type: _type, title, detail, ...problem }: Problem,
  options: { status: number; retryAfterMs?: number | undefined },
): HighwaterError {
  const known = Object.hasOwn(BY_CODE, problem.code) ? BY_CODE[problem.code] : undefined;
  return new (known ?? BY_RETRY[problem.retry])(detail ?? title ?? problem.code, {
    ...problem,
    status: options.status,
    retryAfterMs: problem.retryAfterMs ?? options.retryAfterMs,
  });
}

/** The typed error of any answer outside 2xx: a problem of the service, or something a proxy on the way made up. */
export function answerError(status: number, body: unknown, retryAfterMs: number | undefined): HighwaterError {
  if (isProblem(body)) return problemError(body, { status, retryAfterMs });
  const message = `the answer has status ${String(status)} and is not one of the service`;
  const kind: readonly [ErrorClass, string, Outcome, Retry] =
    status === 429
      ? [UnavailableError, "overloaded", "not_applied", "wait"]
      : status >= 500
        ? [ConnectionError, "bad_answer", "unknown", "wait"]
        : [InvalidRequestError, "unexpected_status", "not_applied", "never"];
  const [Kind, code, outcome, retry] = kind;
  return new Kind(message, { code, outcome, retry, status, retryAfterMs });
}

/** No answer, or none that can be understood. `sent: false` is proof that nothing of it can have been applied. */
export function connectionError(
  code: string,
  message: string,
  options: { sent: boolean; cause?: unknown },
): ConnectionError {
  const outcome = options.sent ? "unknown" : "not_applied";
  return new ConnectionError(message, { code, outcome, retry: "wait", cause: options.cause });
}

export function closedError(): ConnectionError {
  const details = { code: "client_closed", outcome: "not_applied", retry: "never" } as const;
  return new ConnectionError("the client is closed", details);
}

export function usageError(code: string, message: string, cause?: unknown): InvalidRequestError {
  return new InvalidRequestError(message, { code, outcome: "not_applied", retry: "never", cause });
}

export function refusedError({ token, error: { code, detail } }: RefusedToken): TokenRefusedError {
  return new TokenRefusedError(detail, { code, outcome: "not_applied", retry: "never", token });
}

export function unknownOutcome(transactionId: string, cause: unknown): UnknownOutcomeError {
  return new UnknownOutcomeError(`transaction ${transactionId} may or may not have committed`, {
    ...{ code: "outcome_unknown", outcome: "unknown", retry: "resolve_outcome", transactionId, cause },
  });
}

/** The gateway that had the open transaction does not answer any more. Its COMMIT was never sent, so it never commits. */
export function gatewayLost(transactionId: string, cause: unknown): TransactionAbortedError {
  return new TransactionAbortedError(`the gateway of transaction ${transactionId} is gone; use a new id`, {
    ...{ code: "gateway_lost", outcome: "not_applied", retry: "transaction", transactionId, cause },
    open: false,
  });
}

const SETTLED: Readonly<Record<string, readonly [ErrorClass, string, Outcome, Retry, string] | undefined>> = {
  lost: [
    ...([TransactionLostError, "transaction_lost", "not_applied", "transaction"] as const),
    "was committed and is lost; use a new id",
  ],
  aborted: [
    ...([TransactionAbortedError, "transaction_aborted", "not_applied", "transaction"] as const),
    "is settled as aborted; use a new id",
  ],
  broken: [
    ...([PromiseBrokenError, "promise_broken", "unknown", "never"] as const),
    "was durable, and that promise is broken",
  ],
  expired: [
    ...([UnknownOutcomeError, "id_expired", "unknown", "never"] as const),
    "is older than the receipts that are kept",
  ],
};

/** The error that stands for a settled state other than committed, or undefined where the state settles nothing. */
export function stateError(
  transactionId: string,
  state: TransactionState | Verdict,
  verdict?: TokenVerdict,
): HighwaterError | undefined {
  const kind = SETTLED[state];
  if (kind === undefined) return undefined;
  const [Kind, code, outcome, retry, what] = kind;
  const where = verdict === undefined ? "" : ` (level ${verdict.level})`;
  const message = `transaction ${transactionId} ${what}${where}`;
  if (verdict?.retriedIn !== undefined)
    // A copy of the request that was on its way for long has run in the new history: whoever ran the body again under a
    // new id would do it twice.
    return new Kind(`${message}; another attempt under the same id committed`, {
      ...{ code, outcome: "applied", retry: "resolve_outcome", transactionId, verdict },
    });
  return new Kind(message, { code, outcome, retry, transactionId, verdict });
}

/** The error that stands for a terminal verdict other than `durable`. */
export function verdictError(verdict: TokenVerdict): HighwaterError {
  const { id } = verdict;
  return (
    stateError(id, verdict.verdict, verdict) ??
    new UnknownOutcomeError(`nobody has heard of transaction ${id}`, {
      ...{ code: "transaction_unknown", outcome: "unknown", retry: "resolve_outcome", transactionId: id },
    })
  );
}

export function durabilityTimeout(
  level: string,
  options: { timeoutMs: number; pending: number; transactionId?: string },
): DurabilityTimeoutError {
  const { timeoutMs, pending, transactionId } = options;
  return new DurabilityTimeoutError(
    `${transactionId ?? `${String(pending)} transactions`} still pending at ${level} after ${String(timeoutMs)} ms: no loss`,
    { code: "durability_timeout", outcome: "applied", retry: "wait", transactionId },
  );
}
