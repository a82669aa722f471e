// The errors of this package. Check `code` (it is API) rather than `instanceof` where two copies of the package may
// meet. `outcome` answers the question that an error of a database client must answer: was it applied?
//
// HighwaterError
// ├── InvalidRequestError         the request itself is wrong: fix the caller
// ├── StatementError              the database refused a statement
// │   ├── ConstraintError         a constraint is violated; `constraint` names it
// │   └── SerializationError      conflicted with another transaction: run the whole body again, with a new id
// ├── UnavailableError            the service cannot do it now: wait
// │   └── ConnectionError         no answer, or none that can be understood
// ├── UnknownOutcomeError         it may or may not have committed; `transactionId` is the id to ask about
// ├── TransactionAbortedError     this id never committed and never will
// ├── TransactionLostError        was committed, and is gone after a failure; `verdict` says how that is known
// ├── PromiseBrokenError          was durable at the level, and a failure that the level covers took it all the same
// └── DurabilityTimeoutError      still pending when the wait ended; nothing is lost
import {
  isProblem,
  type Outcome,
  type Problem,
  type Retry,
  type TokenVerdict,
  type TransactionState,
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
  readonly transactionId?: string | undefined;
  readonly retryAfterMs?: number | undefined;
  readonly cause?: unknown;
}

export class HighwaterError extends Error {
  /** Stable identifier: a code of the service's catalogue, or one of this package's own (README). */
  readonly code: string;
  readonly outcome: Outcome;
  readonly retry: Retry;
  readonly status: number | undefined;
  readonly sqlstate: string | undefined;
  readonly constraint: string | undefined;
  readonly statement: number | undefined;
  readonly fields: readonly string[] | undefined;
  readonly transactionId: string | undefined;
  /** How long the service asked to wait before the next attempt. */
  readonly retryAfterMs: number | undefined;

  constructor(message: string, details: ErrorDetails) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = "HighwaterError";
    this.code = details.code;
    this.outcome = details.outcome;
    this.retry = details.retry;
    this.status = details.status;
    this.sqlstate = details.sqlstate;
    this.constraint = details.constraint;
    this.statement = details.statement;
    this.fields = details.fields;
    this.transactionId = details.transactionId;
    this.retryAfterMs = details.retryAfterMs;
  }
}

export class InvalidRequestError extends HighwaterError {
  override name = "InvalidRequestError";
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
export class UnknownOutcomeError extends HighwaterError {
  override name = "UnknownOutcomeError";
}
export class TransactionAbortedError extends HighwaterError {
  override name = "TransactionAbortedError";
}
export class TransactionLostError extends HighwaterError {
  override name = "TransactionLostError";
  /** Absent when the service refused an id that was lost earlier. */
  readonly verdict: TokenVerdict | undefined;

  constructor(message: string, details: ErrorDetails & { verdict?: TokenVerdict | undefined }) {
    super(message, details);
    this.verdict = details.verdict;
  }
}
export class PromiseBrokenError extends HighwaterError {
  override name = "PromiseBrokenError";
  readonly verdict: TokenVerdict | undefined;

  constructor(message: string, details: ErrorDetails & { verdict?: TokenVerdict | undefined }) {
    super(message, details);
    this.verdict = details.verdict;
  }
}
export class DurabilityTimeoutError extends HighwaterError {
  override name = "DurabilityTimeoutError";
}

const BY_CODE: Readonly<Record<string, new (message: string, details: ErrorDetails) => HighwaterError>> = {
  constraint_violation: ConstraintError,
  serialization_failure: SerializationError,
  statement_failed: StatementError,
  statement_timeout: StatementError,
  transaction_aborted: TransactionAbortedError,
  transaction_lost: TransactionLostError,
  id_expired: UnknownOutcomeError,
  promise_broken: PromiseBrokenError,
  transaction_expired: TransactionAbortedError,
};

/** The typed error of a problem answer. A code that this version does not know is typed by its retry rule. */
export function problemError(
  problem: Problem,
  options: { status: number; retryAfterMs?: number | undefined },
): HighwaterError {
  const details: ErrorDetails = {
    code: problem.code,
    outcome: problem.outcome,
    retry: problem.retry,
    status: options.status,
    sqlstate: problem.sqlstate,
    constraint: problem.constraint,
    statement: problem.statement,
    fields: problem.fields,
    transactionId: problem.transactionId,
    retryAfterMs: problem.retryAfterMs ?? options.retryAfterMs,
  };
  const message = problem.detail ?? problem.title ?? problem.code;
  const known = Object.hasOwn(BY_CODE, problem.code) ? BY_CODE[problem.code] : undefined;
  if (known !== undefined) return new known(message, details);
  switch (problem.retry) {
    case "wait":
      return new UnavailableError(message, details);
    case "resolve_outcome":
      return new UnknownOutcomeError(message, details);
    case "never":
    case "transaction":
      return new InvalidRequestError(message, details);
  }
}

/** The typed error of any answer outside 2xx: a problem of the service, or something a proxy on the way made up. */
export function answerError(status: number, body: unknown, retryAfterMs: number | undefined): HighwaterError {
  if (isProblem(body)) return problemError(body, { status, retryAfterMs });
  const message = `the answer has status ${String(status)} and is not one of the service`;
  if (status === 429) {
    const details = {
      code: "overloaded",
      outcome: "not_applied",
      retry: "wait",
      status,
      retryAfterMs,
    } as const;
    return new UnavailableError(message, details);
  }
  if (status >= 500) {
    const details = { code: "bad_answer", outcome: "unknown", retry: "wait", status, retryAfterMs } as const;
    return new ConnectionError(message, details);
  }
  return new InvalidRequestError(message, {
    code: "unexpected_status",
    outcome: "not_applied",
    retry: "never",
    status,
  });
}

/** No answer, or none that can be understood. `sent: false` is proof that the request never left. */
export function connectionError(
  code: "connection_failed" | "request_timeout" | "bad_answer",
  message: string,
  options: { sent: boolean; cause?: unknown },
): ConnectionError {
  const outcome = options.sent ? "unknown" : "not_applied";
  return new ConnectionError(message, { code, outcome, retry: "wait", cause: options.cause });
}

export function closedError(): ConnectionError {
  return new ConnectionError("the client is closed", {
    code: "client_closed",
    outcome: "not_applied",
    retry: "never",
  });
}

export function usageError(code: string, message: string): InvalidRequestError {
  return new InvalidRequestError(message, { code, outcome: "not_applied", retry: "never" });
}

export function unknownOutcome(transactionId: string, cause: unknown): UnknownOutcomeError {
  return new UnknownOutcomeError(
    `transaction ${transactionId} may or may not have committed; ask for its status, or send the same id again`,
    { code: "outcome_unknown", outcome: "unknown", retry: "resolve_outcome", transactionId, cause },
  );
}

/** The error that stands for a terminal verdict other than `durable`. */
export function verdictError(verdict: TokenVerdict): HighwaterError {
  const transactionId = verdict.id;
  switch (verdict.verdict) {
    case "lost": {
      const isRetried = verdict.retriedIn !== undefined;
      const retried = isRetried ? " (another attempt under the same id committed)" : "";
      // A copy of the request that was on its way for long has run in the new history: whoever ran the body again under a
      // new id would do it twice.
      const what = isRetried
        ? ({ outcome: "applied", retry: "resolve_outcome" } as const)
        : ({ outcome: "not_applied", retry: "transaction" } as const);
      const details = { code: "transaction_lost", ...what };
      return new TransactionLostError(
        `transaction ${transactionId} was committed and is lost at level ${verdict.level}${retried}`,
        { ...details, transactionId, verdict },
      );
    }
    case "broken":
      return new PromiseBrokenError(
        `transaction ${transactionId} was durable at level ${verdict.level} and that promise is broken`,
        { code: "promise_broken", outcome: "unknown", retry: "never", transactionId, verdict },
      );
    case "expired":
      return new UnknownOutcomeError(
        `transaction ${transactionId} is older than the receipts that are kept`,
        {
          ...{ code: "id_expired", outcome: "unknown", retry: "never", transactionId },
        },
      );
    case "pending":
    case "durable":
    case "unknown":
      return new UnknownOutcomeError(`nobody has heard of transaction ${transactionId}`, {
        ...{ code: "transaction_unknown", outcome: "unknown", retry: "resolve_outcome", transactionId },
      });
  }
}

/** The error that stands for a settled state other than committed, or undefined where the state settles nothing. */
export function stateError(transactionId: string, state: TransactionState): HighwaterError | undefined {
  switch (state) {
    case "aborted":
      return new TransactionAbortedError(`transaction ${transactionId} is settled as aborted; use a new id`, {
        ...{ code: "transaction_aborted", outcome: "not_applied", retry: "transaction", transactionId },
      });
    case "lost":
      return new TransactionLostError(
        `transaction ${transactionId} was committed and then lost; use a new id`,
        {
          ...{ code: "transaction_lost", outcome: "not_applied", retry: "transaction", transactionId },
        },
      );
    case "broken":
      return new PromiseBrokenError(`transaction ${transactionId} was durable and that promise is broken`, {
        ...{ code: "promise_broken", outcome: "unknown", retry: "never", transactionId },
      });
    case "expired":
      return new UnknownOutcomeError(
        `transaction ${transactionId} is older than the receipts that are kept`,
        {
          ...{ code: "id_expired", outcome: "unknown", retry: "never", transactionId },
        },
      );
    case "active":
    case "committed":
    case "pending":
    case "durable":
    case "unknown":
      return undefined;
  }
}

export function durabilityTimeout(
  level: string,
  options: { timeoutMs: number; pending: number; transactionId?: string },
): DurabilityTimeoutError {
  const what = options.transactionId ?? `${String(options.pending)} transactions`;
  return new DurabilityTimeoutError(
    `${what} still pending at level ${level} after ${String(options.timeoutMs)} ms; that is not a loss`,
    {
      code: "durability_timeout",
      outcome: "applied",
      retry: "wait",
      transactionId: options.transactionId,
    },
  );
}
