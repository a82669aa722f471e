// A body of code that runs as one transaction, again and under a new id for as long as conflicts undo it. Owns when it may run
// again: only when the attempt before can never commit any more.
import { HighwaterError } from "./errors.ts";
import type { InteractiveTransaction, BeginOptions } from "./interactive.ts";
import { fullJitter, type Runtime, sleep } from "./runtime.ts";
import { type AckOptions } from "./transaction.ts";
import { type Tuning } from "./tuning.ts";

/** Of `Highwater.transact`: how the transaction runs, when its commit is answered, and how often it may run again. */
export interface TransactOptions extends BeginOptions, AckOptions {
  /** Runs of the body at most; 10 unless given. */
  readonly maxAttempts?: number;
  /** Milliseconds for all runs together; the client's total timeout unless given. */
  readonly timeout?: number;
}

/**
 * What runs as one transaction. It may run several times: only what it does with `tx` is undone. It may commit by itself, as its last
 * deed; else that is done when it returns.
 */
export type TransactBody<T> = (tx: InteractiveTransaction) => Promise<T> | T;

/** @internal */
export interface TransactDeps {
  readonly runtime: Runtime;
  readonly tuning: Tuning;
  readonly totalMs: number;
  readonly begin: (options: BeginOptions, leftMs: () => number) => Promise<InteractiveTransaction>;
}

/** @internal See `Highwater.transact`. */
export async function transact<T>(
  deps: TransactDeps,
  body: TransactBody<T>,
  options: TransactOptions,
): Promise<T> {
  const { runtime, tuning } = deps;
  const { maxAttempts = 10, signal } = options;
  const deadlineMs = runtime.monotonicMs() + (options.timeout ?? deps.totalMs);
  const leftMs = (): number => Math.max(0, deadlineMs - runtime.monotonicMs());
  for (let attempt = 1; ; attempt++) {
    signal?.throwIfAborted();
    const tx = await deps.begin(options, leftMs);
    let conflict: unknown;
    try {
      const value = await body(tx);
      try {
        if (tx.isOpen) await tx.commit({ ...options, timeout: leftMs() });
        // Whatever the body made of the error that ended it: nothing of it has happened.
        else if (tx.failure !== undefined) throw tx.failure;
        // The answer may have come at the end of the service's patience.
        if (options.ack === "durable")
          await tx.committed?.durable({ timeout: leftMs(), ...(signal && { signal }) });
        return value;
      } catch (error) {
        conflict = error;
        throw error;
      }
    } catch (error) {
      await tx[Symbol.asyncDispose]();
      conflict ??= tx.failure;
      const delayMs = fullJitter(attempt, tuning.conflictBaseMs, tuning.backoffMaxMs, runtime.random());
      // Errors of the body's own pass through. So does an unknown outcome: what may have committed is not run again.
      const isUndone = conflict instanceof HighwaterError && conflict.retry === "transaction";
      if (!isUndone || attempt >= maxAttempts || delayMs + tuning.attemptMinMs > leftMs()) throw error;
      runtime.observe({ type: "retry", id: tx.id, attempt, error: conflict });
      await sleep(delayMs, signal);
    }
  }
}
