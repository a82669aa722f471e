// The meaning of each PostgreSQL error for the transaction, by SQLSTATE (PostgreSQL manual,
// appendix A).
import { type ErrorCode } from "@highwater/protocol";

/** The statement was cancelled: by request, or by a time limit. */
export const CANCELLED = "57014";

const BY_STATE: Readonly<Record<string, ErrorCode>> = {
  "40001": "serialization_failure",
  "40P01": "serialization_failure",
  "40003": "serialization_failure",
  [CANCELLED]: "statement_timeout",
  "55P03": "statement_timeout",
  "25P03": "statement_timeout",
  "53300": "overloaded",
  "53200": "overloaded",
};

/** Constraint violations: a retry of the same body cannot help. */
const INTEGRITY_CLASS = "23";

export function codeOf(sqlstate: string): ErrorCode {
  return (
    BY_STATE[sqlstate] ?? (sqlstate.startsWith(INTEGRITY_CLASS) ? "constraint_violation" : "statement_failed")
  );
}

/** No savepoint can mend it: the transaction is to be run again from its beginning. */
export function isTransactionOver(sqlstate: string | undefined): boolean {
  return sqlstate !== undefined && codeOf(sqlstate) === "serialization_failure";
}

/** The server ended the session: whatever was on its way is of unknown outcome. */
export function endsSession(severity: string | undefined): boolean {
  return severity === "FATAL" || severity === "PANIC";
}

/** A cached prepared statement no longer fits or is gone; the same work succeeds on a fresh one. */
export function isStalePlan(sqlstate: string, routine: string | undefined): boolean {
  return sqlstate === "26000" || (sqlstate === "0A000" && routine === "RevalidateCachedQuery");
}
