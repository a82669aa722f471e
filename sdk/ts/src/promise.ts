// A promise that the user holds: the token of a committed transaction, and what can be asked of it.
import { type PendingPromise } from "./pending-set.ts";
import { type TokenVerdict, type Position } from "./wire.ts";
import { type Watcher } from "./watcher.ts";

/** Of a wait for durability. */
export interface DurableOptions {
  /** The level to wait for; the transaction's own, or else the client's. */
  readonly level?: string;
  /** Milliseconds. Default: 30 seconds. There is no wait without an end. */
  readonly timeout?: number;
  /** Ends the wait, which rejects with its reason. The transaction is what it was. */
  readonly signal?: AbortSignal;
}

/**
 * What is called when a promise turns out lost or broken. An error that it throws surfaces as an
 * uncaught error.
 */
export type LostListener = (verdict: TokenVerdict) => void;
/** What is called when a promise is kept. An error that it throws surfaces as an uncaught error. */
export type DurableListener = LostListener;

/**
 * A committed transaction on its way to durability. The token alone is enough to make one in another process, or
 * another day: `hw.promise(token)`.
 */
export class DurabilityPromise {
  /** Of the transaction, a UUIDv7. */
  readonly id: string;
  /** Opaque; can be stored, and judged by another process later: `hw.promise(token)`. */
  readonly token: string;
  /** Where the transaction committed. It never changes, also when the transaction is carried over to another epoch. */
  readonly position: Position;
  /** The default level of `durable` and `onLost`. */
  readonly level: string;
  /** @internal */
  readonly entry: PendingPromise;
  readonly #watcher: Watcher;

  /** @internal */
  constructor(watcher: Watcher, entry: PendingPromise, position: Position, level: string) {
    this.#watcher = watcher;
    this.entry = entry;
    this.id = entry.id;
    this.token = entry.token;
    this.position = position;
    this.level = level;
  }

  /**
   * Waits until the transaction is durable at the level, and resolves with that verdict. Ending a wait changes nothing: wait again.
   * Errors: `TransactionLostError`, `PromiseBrokenError`, `UnknownOutcomeError` (it cannot be
   * judged any more); `DurabilityTimeoutError`, which is not a loss; `TokenRefusedError`;
   * `unknown_level`; `client_closed`; `AbortError`.
   *
   * @example
   * ```ts
   * const tx = await hw.transaction(sql`INSERT INTO note VALUES (${"hello"})`);
   * try {
   *   await tx.durable({ level: "region", timeout: 5_000 });
   * } catch (error) {
   *   if (error instanceof TransactionLostError) console.log("it never happened:", error.transactionId);
   *   else if (error instanceof DurabilityTimeoutError) console.log("not yet, and not lost");
   *   else throw error;
   * }
   * ```
   */
  async durable(options: DurableOptions = {}): Promise<TokenVerdict> {
    const [verdict] = await this.#watcher.wait([this.entry], options, this.level);
    return verdict as TokenVerdict;
  }

  /**
   * Calls back once if the transaction is ever lost before it is durable at the level, with verdict `lost`, or
   * `broken` when it had been durable without this client knowing. Never called after it was durable.
   * Returns what takes the listener away. Until one of the three the client keeps its stream open.
   *
   * @param options `level`. Default: the transaction's own.
   */
  onLost(listener: LostListener, options: { level?: string } = {}): () => void {
    return this.#on(listener, options, /lost|broken/);
  }

  #on(listener: LostListener, { level = this.level }: { level?: string }, wanted: RegExp): () => void {
    return this.#watcher.watch(this.entry, level, (settlement) => {
      if ("verdict" in settlement && wanted.test(settlement.verdict)) listener(settlement);
    });
  }

  /**
   * Calls back once when it is durable at the level, and never otherwise. Returns what takes the listener away.
   *
   * @param options `level`. Default: the transaction's own.
   */
  onDurable(listener: DurableListener, options: { level?: string } = {}): () => void {
    return this.#on(listener, options, /durable/);
  }

  /**
   * Runs the function once the transaction is durable, and resolves with what it returns: for side effects that nothing can
   * undo. If it does not become durable, the function is never called.
   * Errors: those of `durable()` and of the function.
   *
   * @param run Gets the verdict; called once at most.
   * @example
   * ```ts
   * const tx = await hw.transaction(sql`INSERT INTO note VALUES (${"hello"})`);
   * await tx.afterDurable(() => console.log("now the e-mail can go out"), { level: "region", timeout: 60_000 });
   * ```
   */
  async afterDurable<T>(
    run: (verdict: TokenVerdict) => T | Promise<T>,
    options: DurableOptions = {},
  ): Promise<T> {
    return run(await this.durable(options));
  }

  /**
   * The verdict at the level that is known without waiting: a terminal one, or undefined while it
   * is pending, or where this client does not know it yet. Nothing is sent.
   *
   * @param options `level`. Default: the transaction's own.
   */
  verdict({ level = this.level }: { level?: string } = {}): TokenVerdict | undefined {
    return this.#watcher.pendingSet.known(this.entry, level);
  }
}
