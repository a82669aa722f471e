// An interactive transaction of the memory store: its statements are kept and run again with each
// call; nothing is written before its commit.
import { HighwaterError, type Statement, type StatementResult, type TxnId } from "@highwater/protocol";
import { type Execution, type OpenCommitOptions, type OpenTransaction } from "../port.ts";
import { refuseUnknown } from "./statements.ts";

export interface MemoryTransactionContext {
  readonly id: TxnId;
  readonly holder: string;
  /**
   * What the statements answer, all of them from the first on. Throws as a database would refuse
   * them.
   */
  readonly evaluate: (statements: readonly Statement[]) => readonly StatementResult[];
  readonly commit: (statements: readonly Statement[], options: OpenCommitOptions) => Promise<Execution>;
  /** The session that it had is gone. */
  readonly isLost: () => boolean;
}

export class MemoryTransaction implements OpenTransaction {
  readonly #parts: MemoryTransactionContext;
  #statements: readonly Statement[] = [];
  #hasFailed = false;
  #hasEnded = false;

  constructor(parts: MemoryTransactionContext) {
    this.#parts = parts;
  }

  get holder(): string {
    return this.#parts.holder;
  }

  get isOver(): boolean {
    return this.#hasEnded || this.#parts.isLost();
  }

  async run(statements: readonly Statement[]): Promise<readonly StatementResult[]> {
    const before = this.#before();
    const results = await this.#relative(before, async () => {
      if (this.#hasFailed && statements.length > 0) throw this.#failedBefore();
      return Promise.resolve(this.#parts.evaluate([...before, ...statements]));
    });
    this.#statements = [...before, ...statements];
    return results.slice(before.length);
  }

  async commit(statements: readonly Statement[], options: OpenCommitOptions = {}): Promise<Execution> {
    const before = this.#before();
    refuseUnknown(statements, this.#parts.id);
    this.#hasEnded = true;
    if (this.#hasFailed) throw this.#failedBefore();
    const execution = await this.#relative(before, () =>
      this.#parts.commit([...before, ...statements], options),
    );
    return execution.kind === "committed"
      ? { ...execution, results: execution.results.slice(before.length) }
      : execution;
  }

  async rollback(): Promise<void> {
    this.#hasEnded = true;
    return Promise.resolve();
  }

  #before(): readonly Statement[] {
    if (this.isOver) throw new HighwaterError("transaction_aborted", { transactionId: this.#parts.id });
    return this.#statements;
  }

  /** Of a refusal the caller learns which of the call's own statements is at fault. */
  async #relative<T>(before: readonly Statement[], work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (cause) {
      this.#hasFailed = true;
      if (!(cause instanceof HighwaterError) || cause.details.statement === undefined) throw cause;
      const statement = cause.details.statement - before.length;
      throw new HighwaterError(cause.code, { ...cause.details, statement }, { cause });
    }
  }

  /** This store has no savepoints, so nothing mends it. */
  #failedBefore(): HighwaterError {
    const detail = "A statement has failed before; the transaction can only be rolled back.";
    return new HighwaterError("statement_failed", {
      detail,
      sqlstate: "25P02",
      transactionId: this.#parts.id,
    });
  }
}
