// A session: what one line of work has committed or read, so that all of it can be waited for at once.
import { type Entry } from "./book.ts";
import { PromiseBrokenError, TransactionLostError } from "./errors.ts";
import { type DurableOptions, DURABLE_TIMEOUT_MS } from "./promise.ts";
import { type StatementInput } from "./sql.ts";
import { type Transaction, type TransactionOptions } from "./transaction.ts";
import { type Watcher } from "./watcher.ts";

export interface SessionDeps {
  readonly watcher: Watcher;
  readonly level: string;
  readonly transaction: (
    statements: StatementInput | readonly StatementInput[],
    options: TransactionOptions,
  ) => Promise<Transaction>;
}

/**
 * Promises that a session remembers one by one. Beyond, it keeps of those that are durable at the client's level only
 * the furthest of each epoch, which stands for the others at stronger levels.
 */
const REMEMBERED_MAX = 10_000;

export class Session {
  readonly #deps: SessionDeps;
  readonly #entries = new Set<Entry>();

  /** @internal */
  constructor(deps: SessionDeps) {
    this.#deps = deps;
  }

  /** Like `hw.transaction`, and remembered by this session. */
  async transaction(
    statements: StatementInput | readonly StatementInput[],
    options: TransactionOptions = {},
  ): Promise<Transaction> {
    const transaction = await this.#deps.transaction(statements, options);
    this.#entries.add(transaction.entry);
    if (this.#entries.size > REMEMBERED_MAX) this.#compact();
    return transaction;
  }

  /**
   * Waits until everything this session has committed or read so far is durable at the level. With nothing to wait
   * for it resolves at once.
   * Errors: as `durable()` of a transaction. A transaction that is reported lost or broken is then forgotten: the
   * next call is about the others.
   */
  async durable(options: DurableOptions = {}): Promise<void> {
    const level = options.level ?? this.#deps.level;
    const timeoutMs = options.timeout ?? DURABLE_TIMEOUT_MS;
    const entries = [...this.#entries];
    try {
      await this.#deps.watcher.wait(entries, { level, timeoutMs, signal: options.signal });
    } catch (error) {
      const gone = error instanceof TransactionLostError || error instanceof PromiseBrokenError;
      const token = gone ? error.verdict?.token : undefined;
      for (const entry of entries) if (entry.token === token) this.#entries.delete(entry);
      throw error;
    }
  }

  #compact(): void {
    const furthest = new Map<string, Entry>();
    for (const entry of this.#entries) {
      if (this.#deps.watcher.known(entry, this.#deps.level)?.verdict !== "durable") continue;
      const { epoch, offset } = entry.place;
      const other = furthest.get(epoch);
      if (other !== undefined && other.place.offset >= offset) this.#entries.delete(entry);
      else {
        if (other !== undefined) this.#entries.delete(other);
        furthest.set(epoch, entry);
      }
    }
  }
}
