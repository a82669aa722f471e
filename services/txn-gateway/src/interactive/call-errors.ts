// The errors of the calls of an interactive transaction.
import { HighwaterError } from "@highwater/protocol";

/** The check of a call that has not run yet. */
export function whileOpen<T>(check: () => T): T {
  try {
    return check();
  } catch (cause) {
    throw withOpen(cause, true);
  }
}

/**
 * The error of a call that ran and so has used its number. Sent again, it would only get the same
 * error: what lacked memory then counts as refused.
 */
export function ofUsedNumber(cause: unknown): unknown {
  if (!(cause instanceof HighwaterError) || cause.code !== "overloaded") return cause;
  const details = { ...cause.details, retryAfterMs: undefined };
  const code = details.sqlstate === undefined ? "result_too_large" : "statement_failed";
  return new HighwaterError(code, details, { cause: cause.cause });
}

/** Returns the same error with `open`, which says whether the transaction is still open. */
export function withOpen(cause: unknown, open: boolean): unknown {
  if (!(cause instanceof HighwaterError)) return cause;
  return new HighwaterError(cause.code, { ...cause.details, open }, { cause: cause.cause });
}
