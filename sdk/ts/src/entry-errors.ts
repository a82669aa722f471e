// About errors, for the entries beside the main one. The main entry carries no code for them.
import { InvalidRequestError, PromiseBrokenError, TransactionLostError } from "./index.ts";

/** Whether the error says that a transaction is lost, or its promise broken. */
export function isLoss(error: unknown): boolean {
  return error instanceof TransactionLostError || error instanceof PromiseBrokenError;
}

/** The error of a call that cannot be right, before anything is sent. */
export function refusedUse(code: string, message: string): InvalidRequestError {
  return new InvalidRequestError(message, { code, outcome: "not_applied", retry: "never" });
}
