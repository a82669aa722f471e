// The promise of a committed transaction as the application holds it: its token, and the calls that
// wait for its verdict.
import { type PendingPromise } from "./pending-set.ts";
import { type TokenVerdict, type Position } from "./wire.ts";
import { type Watcher } from "./watcher.ts";

/** Options of a wait for durability. */
export interface DurableOptions {
  /** Level to wait for. Default: the transaction's, else the client's. */
  readonly level?: string;
  /** Time limit of the wait, in milliseconds. Default: 30,000. There is no wait without a limit. */
  readonly timeoutMs?: number;
  /** Signal that ends the wait with an `AbortError`. The transaction is not affected. */
  readonly signal?: AbortSignal;
}

/**
 * Callback for a lost or broken promise. An error that it throws, or rejects with, is printed by
 * `console.error` and disturbs nothing.
 */
export type LostListener = (verdict: TokenVerdict) => unknown;
/** Callback for a promise that is kept. Its errors are treated as those of a `LostListener`. */
export type DurableListener = LostListener;

/**
 * Tracks a committed transaction until it is durable. The token alone is enough to create one, in
 * another process or on another day: `hw.promise(token)`.
 */
export class DurabilityPromise {
  /** Transaction id, a UUIDv7. All zeros if the token names a position alone. */
  declare readonly id: string;
  /** Opaque token. Store it for later or for another process: `hw.promise(token)`. */
  declare readonly token: string;
  /** Where the transaction committed. Stays the same if it is carried over to another epoch. */
  declare readonly position: Position;
  /** Default level of `durable` and `onLost`. */
  declare readonly level: string;
  /** @internal */
  declare readonly entry: PendingPromise;
  /** @internal */
  declare readonly watcher: Watcher;

  /** @internal */
  constructor(watcher: Watcher, entry: PendingPromise, position: Position, level: string) {
    const { id, token } = entry;
    Object.assign(this, { watcher, entry, id, token, position, level });
  }

  /**
   * Waits until the transaction is durable at the level, and resolves with that verdict. Ending a
   * wait changes nothing: you can wait again.
   * Errors: `TransactionLostError` or `PromiseBrokenError` if a failure discarded the transaction.
   * `UnknownOutcomeError` if it cannot be judged. `DurabilityTimeoutError`, which is not a loss.
   * `no_tracker` if there is none at the client's addresses, or it refuses the client's credential.
   * `TokenRefusedError`, `unknown_level`, `client_closed`, `AbortError`.
   *
   * @example
   * ```ts
   * const tx = await hw.transaction(sql`INSERT INTO note VALUES (${"hello"})`);
   * try {
   *   await tx.durable({ level: "region", timeoutMs: 5_000 });
   * } catch (error) {
   *   if (error instanceof TransactionLostError) console.log("lost:", error.transactionId);
   *   else if (error instanceof DurabilityTimeoutError) console.log("not yet, and not lost");
   *   else throw error;
   * }
   * ```
   */
  async durable(options: DurableOptions = {}): Promise<TokenVerdict> {
    const [verdict] = await this.watcher.wait([this.entry], options, this.level);
    return verdict as TokenVerdict;
  }

  /**
   * Calls the listener once if the transaction is lost before it is durable at the level. The
   * verdict is `lost`, or `broken` if the transaction had been durable without this client knowing.
   * The listener is never called after the transaction was durable. The client keeps its stream
   * open until the transaction is durable, lost or broken. Returns a function that removes the
   * listener.
   *
   * @param options `level`: level to watch. Default: the transaction's.
   */
  onLost(listener: LostListener, options: { level?: string } = {}): () => void {
    return this.#on(listener, options, /lost|broken/);
  }

  #on(listener: LostListener, { level = this.level }: { level?: string }, wanted: RegExp): () => void {
    return this.watcher.watch(this.entry, level, (settlement) => {
      if ("verdict" in settlement && wanted.test(settlement.verdict)) return listener(settlement);
      return undefined;
    });
  }

  /**
   * Calls the listener once when the transaction is durable at the level, and never if it does not
   * become durable. Returns a function that removes the listener.
   *
   * @param options `level`: level to watch. Default: the transaction's.
   */
  onDurable(listener: DurableListener, options: { level?: string } = {}): () => void {
    return this.#on(listener, options, /durable/);
  }

  /**
   * Waits until the transaction is durable, then calls the function and resolves with its result.
   * Use it for side effects that cannot be undone. If the transaction does not become durable, the
   * function is never called.
   * Errors: those of `durable()` and of the function.
   *
   * @param run Function that receives the verdict. Called at most once.
   * @example
   * ```ts
   * const tx = await hw.transaction(sql`INSERT INTO note VALUES (${"hello"})`);
   * const send = () => console.log("now the e-mail can go out");
   * await tx.afterDurable(send, { level: "region", timeoutMs: 60_000 });
   * ```
   */
  async afterDurable<T>(
    run: (verdict: TokenVerdict) => T | Promise<T>,
    options: DurableOptions = {},
  ): Promise<T> {
    return run(await this.durable(options));
  }

  /**
   * Returns the verdict at the level if the client knows a terminal one. Returns undefined while
   * the transaction is pending, or if this client does not know its verdict yet. Sends nothing.
   *
   * @param options `level`: level of the verdict. Default: the transaction's.
   */
  verdict({ level = this.level }: { level?: string } = {}): TokenVerdict | undefined {
    return this.watcher.pendingSet.known(this.entry, level);
  }
}
