// The parts of a client that its other parts use.
import { type Shared } from "./shared.ts";
import { type answerError } from "./errors.ts";
import { type Service } from "./service.ts";
import { type StatementInput } from "./sql.ts";
import { type Remember, type Transaction, type TransactionOptions } from "./transaction.ts";
import { type Watcher } from "./watcher.ts";
import { type TransactionResponse } from "./wire.ts";

/** The options of a commit that matter once it has an answer. */
export interface Committed {
  readonly metadata?: TransactionOptions["metadata"];
  readonly readOnly?: boolean | undefined;
  readonly remember?: Remember | undefined;
}

export interface Core extends Shared {
  readonly service: Service;
  readonly watcher: Watcher;
  /** Runs a transaction, and does not wait for its durability. */
  readonly transaction: (
    statements: readonly StatementInput[],
    options: TransactionOptions,
  ) => Promise<Transaction>;
  /** The error of one answer among several that share a response. */
  readonly answerError: typeof answerError;
  readonly committed: (response: TransactionResponse, level: string, options: Committed) => Transaction;
}
