// A transaction whose receipt is written for it.
import { type ReceiptValues } from "./own.ts";

/** Announced, and its receipt is on its way to the server or there. */
export interface OwnAttempt {
  readonly receipt: ReceiptValues;
  /** Why the server cannot write the receipt, and so undoes the transaction. Null: it can. */
  readonly fault: string | null;
  /** It has not committed, and never will. */
  withdraw(): void;
}
