// Errors about a transaction, also from the failure of a request about it.
import {
  AbortError,
  DurabilityTimeoutError,
  HighwaterError,
  type Outcome,
  TransactionAbortedError,
  UnknownOutcomeError,
} from "../../index.ts";

/** Codes of errors about the transaction. */
const OF_TRANSACTION = /^(transaction_(aborted|expired|lost|unknown)|promise_broken|id_(expired|reused))$/;

/** Whether the error is about the transaction. All others are about a request. */
export function isOfTransaction(cause: unknown): cause is HighwaterError {
  return cause instanceof HighwaterError && OF_TRANSACTION.test(cause.code);
}

/**
 * The failure of a request, as an error of its transaction, which has this outcome. The same
 * failure may be that of other transactions, too.
 */
export function withOutcome(cause: unknown, transactionId: string, outcome: Outcome): unknown {
  if (!(cause instanceof HighwaterError)) return cause;
  const Class = cause.constructor as new (message: string, details: object) => HighwaterError;
  // Another id would run the body a second time, and a look-up finds nothing of what never began.
  const isSure = cause.retry === "wait" || cause.retry === "never";
  const retry = isSure ? cause.retry : outcome === "applied" ? "wait" : "transaction";
  return new Class(cause.message, { ...cause, outcome, retry, transactionId, cause });
}

export function unknownOutcome(transactionId: string, cause: unknown): UnknownOutcomeError {
  const about = { outcome: "unknown", retry: "resolve_outcome", transactionId, cause } as const;
  const message = `COMMIT had no answer, so it may have committed: look up its status (transaction ${transactionId})`;
  return new UnknownOutcomeError(message, { code: "outcome_unknown", ...about });
}

/** The error of a wait for a committed transaction whose token has not come in time. */
export function lateToken(transactionId: string, level: string): DurabilityTimeoutError {
  const about = { outcome: "applied", retry: "wait", transactionId, token: "", state: "pending" } as const;
  const message = `no token yet, so pending at ${level}, committed and not known to be lost: wait again (transaction ${transactionId})`;
  return new DurabilityTimeoutError(message, { code: "durability_timeout", ...about, level });
}

/** The error of such a wait that its signal has ended. */
export function abortedWait(transactionId: string, cause: unknown): AbortError {
  const about = { outcome: "applied", retry: "never", transactionId, cause } as const;
  return new AbortError(`the signal ended the call (transaction ${transactionId})`, {
    code: "call_aborted",
    ...about,
  });
}

export function aborted(id: string, message: string, cause?: unknown): HighwaterError {
  const about = { outcome: "not_applied", retry: "transaction", transactionId: id, cause } as const;
  return new TransactionAbortedError(`${message}: run it again`, { code: "transaction_aborted", ...about });
}
