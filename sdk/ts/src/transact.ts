// A body of code that runs as one transaction, again and under a new id for as long as conflicts undo it. Owns when it may run
// again: only when the attempt before can never commit any more.
import { type Core } from "./core.ts";
import { abortError, HighwaterError } from "./errors.ts";
import { type BeginOptions, InteractiveTransaction } from "./interactive.ts";
import { fullJitter, sleep } from "./runtime.ts";
import { type AckOptions } from "./transaction.ts";

/** Of `Highwater.transact`: how the transaction runs, when its commit is answered, and how often it may run again. */
export interface TransactOptions extends BeginOptions, AckOptions {
  /** Runs of the body at most. Default: 10. */
  readonly maxAttempts?: number;
  /** Milliseconds for all runs together. Default: the client's total timeout. */
  readonly timeout?: number;
}

/**
 * What runs as one transaction. It may run several times: only what it does with `tx` is undone. It may commit by itself, as its last
 * deed; else that is done when it returns.
 */
export type TransactBody<T> = (tx: InteractiveTransaction) => Promise<T> | T;

/** @internal See `Highwater.transact`. */
export async function transact<T>(core: Core, body: TransactBody<T>, options: TransactOptions): Promise<T> {
  const { maxAttempts = 10, timeout = core.totalMs, signal } = options;
  const deadlineMs = core.monotonicMs() + timeout;
  const leftMs = (): number => Math.max(0, deadlineMs - core.monotonicMs());
  for (let attempt = 1; ; attempt++) {
    if (signal?.aborted) throw abortError(signal.reason, "not_applied");
    core.service.checkOpen();
    const tx = new InteractiveTransaction(core, { ...options, leftMs });
    let isReturned = false;
    try {
      const value = await body(tx);
      isReturned = true;
      if (tx.isOpen) await tx.commit({ ...options, timeout: leftMs() });
      // Whatever the body made of the error that ended it: nothing of it has happened.
      else if (tx.failure) throw tx.failure;
      // The answer may have come at the end of the service's patience.
      if (options.ack === "durable")
        await tx.committed?.durable({ timeout: leftMs(), ...(signal && { signal }) });
      return value;
    } catch (error) {
      await tx[Symbol.asyncDispose]();
      const conflict = isReturned ? error : tx.failure;
      const delayMs = fullJitter(attempt, core.conflictBaseMs, core.backoffMaxMs, core.random());
      // Errors of the body's own pass through. So does an unknown outcome: what may have committed is not run again.
      const isUndone = conflict instanceof HighwaterError && conflict.retry === "transaction";
      if (!isUndone || attempt >= maxAttempts || delayMs + core.attemptMinMs > leftMs()) throw error;
      core.observe({ type: "retry", id: tx.id, attempt, error: conflict });
      await sleep(delayMs, signal).catch((cause: unknown) => {
        throw abortError(cause, "not_applied");
      });
    }
  }
}
