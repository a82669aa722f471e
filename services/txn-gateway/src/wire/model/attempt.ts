// A transaction for which the gateway writes a receipt.
import { type KeptFacts, type ReceiptValues } from "./own.ts";

/** An announced transaction. Its receipt has been sent to the server. */
export interface OwnAttempt {
  readonly receipt: ReceiptValues;
  /** Why the server cannot write the receipt, which undoes the transaction. Null: it can. */
  readonly fault: string | null;
  /** Its contents are kept. */
  readonly isKept: boolean;
  /** The server has written its receipt. `facts`: null, if its contents are not kept. */
  written(facts: KeptFacts | null): void;
  /** Reports that the transaction has not committed and never will. */
  withdraw(): void;
}
