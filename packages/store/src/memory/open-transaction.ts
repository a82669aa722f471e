// An interactive transaction of the memory store: its statements are kept and run again with each call; nothing is written
// before its commit.
import { HighwaterError, type Statement, type StatementResult, type TxnId } from "@highwater/protocol";
import { type Execution, type OpenTransaction } from "../port.ts";

export interface MemoryTransactionParts {
  readonly id: TxnId;
  /** What the statements answer, all of them from the first on. Throws as a database would refuse them. */
  readonly evaluate: (statements: readonly Statement[]) => readonly StatementResult[];
  readonly commit: (statements: readonly Statement[]) => Promise<Execution>;
}

export class MemoryTransaction implements OpenTransaction {
  readonly #parts: MemoryTransactionParts;
  #statements: readonly Statement[] = [];
  #isOver = false;

  constructor(parts: MemoryTransactionParts) {
    this.#parts = parts;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  async run(statements: readonly Statement[]): Promise<readonly StatementResult[]> {
    const before = this.#before();
    const results = this.#parts.evaluate([...before, ...statements]);
    this.#statements = [...before, ...statements];
    return Promise.resolve(results.slice(before.length));
  }

  async commit(statements: readonly Statement[]): Promise<Execution> {
    const before = this.#before();
    this.#isOver = true;
    const execution = await this.#parts.commit([...before, ...statements]);
    return execution.kind === "committed"
      ? { ...execution, results: execution.results.slice(before.length) }
      : execution;
  }

  async rollback(): Promise<void> {
    this.#isOver = true;
    return Promise.resolve();
  }

  #before(): readonly Statement[] {
    if (this.#isOver) throw new HighwaterError("transaction_aborted", { transactionId: this.#parts.id });
    return this.#statements;
  }
}
