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

/** Returns the same error with `open`, which says whether the transaction is still open. */
export function withOpen(cause: unknown, open: boolean): unknown {
  if (!(cause instanceof HighwaterError)) return cause;
  return new HighwaterError(cause.code, { ...cause.details, open }, { cause: cause.cause });
}
