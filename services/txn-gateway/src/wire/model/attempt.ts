// A transaction for which the gateway writes a receipt.
import { type ReceiptValues } from "./own.ts";

/** An announced transaction. Its receipt has been sent to the server. */
export interface OwnAttempt {
  readonly receipt: ReceiptValues;
  /** Why the server cannot write the receipt, which undoes the transaction. Null: it can. */
  readonly fault: string | null;
  /** Reports that the transaction has not committed and never will. */
  withdraw(): void;
}
