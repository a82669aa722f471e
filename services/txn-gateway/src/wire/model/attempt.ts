// A transaction whose receipt is written for it.
import { type ReceiptValues } from "./own.ts";

/** Announced, and its receipt is on its way to the server or there. */
export interface OwnAttempt {
  readonly receipt: ReceiptValues;
  /** It has not committed, and never will. */
  withdraw(): void;
}
