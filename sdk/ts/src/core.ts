// What the parts of one client have of it: the client itself is made of them.
import { type Shared } from "./shared.ts";
import { type Service } from "./service.ts";
import { type StatementInput } from "./sql.ts";
import { type Remember, type Transaction, type TransactionOptions } from "./transaction.ts";
import { type Watcher } from "./watcher.ts";
import { type TransactionResponse } from "./wire.ts";

/** A commit as it is reported. */
export interface Committed {
  readonly metadata?: TransactionOptions["metadata"];
  readonly remember?: Remember | undefined;
}

export interface Core extends Shared {
  readonly service: Service;
  readonly watcher: Watcher;
  readonly transaction: (
    statements: readonly StatementInput[],
    options: TransactionOptions,
  ) => Promise<Transaction>;
  readonly committed: (response: TransactionResponse, level: string, options: Committed) => Transaction;
}
