// Turns a refusal by the server into an error of the catalogue.
import { type DatabaseError } from "pg";
import { HighwaterError, type TxnId } from "@highwater/protocol";
import { type ResultLimits } from "../port.ts";
import { OutOfStep } from "./pipeline.ts";
import { codeOf } from "./sqlstate.ts";

/**
 * What the server said of a statement: of the user's own at `statement`, or of one of the
 * service's.
 */
export function failureOf(
  error: DatabaseError,
  about: { readonly id: TxnId | undefined; readonly statement: number | undefined },
): HighwaterError {
  return new HighwaterError(
    codeOf(error.code ?? ""),
    {
      detail: error.message,
      sqlstate: error.code,
      constraint: error.constraint,
      statement: about.statement,
      transactionId: about.id,
    },
    { cause: error },
  );
}

/** A read was cancelled because its results had become too large. */
export function cutShort(
  { maxBytes, meter }: ResultLimits,
  about: { readonly id: TxnId | undefined; readonly statement: number },
): HighwaterError {
  const { id: transactionId, statement } = about;
  if (meter?.refusal != null) return meter.refusal;
  return new HighwaterError("result_too_large", {
    detail: `The result of statement ${String(statement)} exceeds maxResultBytes (${String(maxBytes)}).`,
    limit: { name: "maxResultBytes", value: maxBytes },
    statement,
    transactionId,
  });
}

/** The function of the server that checks policies of row level security. */
const POLICY_CHECK = "ExecWithCheckOptions";

/** The receipt could not be written. Null: one with this key exists. */
export function receiptRefusal(refused: DatabaseError, id: TxnId): HighwaterError | null {
  const error = withoutRow(refused);
  switch (error.code) {
    case "23505":
      return null;
    case "42501":
      if (error.routine !== POLICY_CHECK) return failureOf(error, { id, statement: undefined });
      return new HighwaterError("epoch_changed", { transactionId: id }, { cause: error });
    case "23502":
    case "25006":
      return new HighwaterError("epoch_changed", { transactionId: id }, { cause: error });
    case "57014":
    case "55P03":
      // Only of a wait for another row's transaction the server says where it was: it has written
      // the same receipt and has not ended. Cancelled anywhere else, the insert has met no other.
      if (error.where === undefined) return failureOf(error, { id, statement: undefined });
      return new HighwaterError(
        "transaction_in_progress",
        { transactionId: id, retryAfterMs: 1_000 },
        { cause: error },
      );
    case "23514":
      return new HighwaterError("id_out_of_window", { transactionId: id }, { cause: error });
    default:
      return failureOf(error, { id, statement: undefined });
  }
}

/** The receipt's tag may be in the detail, which some ways in relay. */
function withoutRow(error: DatabaseError): DatabaseError {
  error.detail = undefined;
  return error;
}

/**
 * The connection died, or was ended, with the COMMIT on its way: it is unknown here how far the
 * server came.
 */
export function unconfirmed(id: TxnId, readOnly: boolean, cause: unknown): HighwaterError {
  const code = readOnly ? "primary_unavailable" : "commit_unconfirmed";
  return new HighwaterError(code, { transactionId: id }, { cause });
}

/**
 * The connection died while no COMMIT had been sent: everything in the transaction is undone.
 * Unless something other than our own statements has ended it before: then only its receipt shows
 * the outcome.
 */
export function sessionLost(id: TxnId, cause: unknown): HighwaterError {
  if (cause instanceof OutOfStep) return unconfirmed(id, false, cause);
  const detail = "The database session was lost, and with it everything that the transaction had done.";
  return new HighwaterError("transaction_aborted", { detail, transactionId: id }, { cause });
}
