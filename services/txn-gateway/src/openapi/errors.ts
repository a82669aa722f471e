// What calls that run transactions can be answered with.
import { type ErrorCode } from "@highwater/protocol";

/** Of what the database says to statements. */
export const STATEMENT_ERRORS: readonly ErrorCode[] = [
  ...([
    "transaction_control",
    "statement_failed",
    "constraint_violation",
    "serialization_failure",
    "refusal_unconfirmed",
  ] as const),
  ...(["statement_timeout", "result_too_large", "cancelled", "transaction_aborted"] as const),
];

/** Of the search for the primary. */
export const PRIMARY_ERRORS: readonly ErrorCode[] = ["primary_unavailable", "split_brain", "epoch_changed"];
