// Runs a body of code as one transaction, and again under a new id while conflicts undo it. Owns
// when it may run again: only if the previous attempt can never commit.
import { type Core } from "./core.ts";
import { abortError, HighwaterError, TransactionLostError } from "./errors.ts";
import { type BeginOptions, InteractiveTransaction } from "./interactive.ts";
import { fullJitter, monotonicMs, sleep } from "./runtime.ts";
import { type AckOptions } from "./transaction.ts";

/** Options of `Highwater.transact`. */
export interface TransactOptions extends BeginOptions, AckOptions {
  /** Maximum number of runs of the body. Default: 10. */
  readonly maxAttempts?: number;
  /** Time limit of all runs together, in milliseconds. Default: the client's `totalTimeoutMs`. */
  readonly timeoutMs?: number;
}

/**
 * Body of a transaction. It may run several times, and only its work through `tx` is undone. It may
 * commit as its last step; otherwise `transact` commits when it returns.
 */
export type TransactBody<T> = (tx: InteractiveTransaction) => Promise<T> | T;

/** @internal See `Highwater.transact`. */
export async function transact<T>(core: Core, body: TransactBody<T>, options: TransactOptions): Promise<T> {
  const { maxAttempts = 10, timeoutMs = core.totalMs, signal } = options;
  const deadlineMs = monotonicMs() + timeoutMs;
  const leftMs = (): number => Math.max(0, deadlineMs - monotonicMs());
  for (let attempt = 1; ; attempt++) {
    if (signal?.aborted) throw abortError(signal.reason, "not_applied");
    core.service.checkOpen();
    const tx = new InteractiveTransaction(core, { ...options, leftMs });
    // Whether the commit waits for durability, once the body has returned.
    let isSafe: boolean | undefined;
    try {
      const value = await body(tx);
      isSafe = tx.isOpen && options.ack === "durable";
      // Even if the body caught the error that ended the transaction: nothing of it was applied.
      if (tx.failure) throw tx.failure;
      if (tx.isOpen || tx.committed) await tx.commit({ ...options, timeoutMs: leftMs() });
      return value;
    } catch (cause) {
      await tx[Symbol.asyncDispose]();
      // A commit that the body has not awaited may have ended the transaction.
      const conflict = tx.failure ?? (isSafe === undefined ? undefined : cause);
      const error = isSafe === undefined ? cause : conflict;
      const delayMs = fullJitter(attempt, core, undefined, core.conflictBaseMs);
      // The body's own errors pass through. So does an unknown outcome: a transaction that may have
      // committed is not run again. Nor is a lost one that the service may bring back: it leaves
      // alone only those whose commit waits for durability.
      const isUndone =
        conflict instanceof HighwaterError &&
        conflict.retry === "transaction" &&
        (isSafe || !(conflict instanceof TransactionLostError));
      if (!isUndone || attempt >= maxAttempts || delayMs + core.attemptMinMs > leftMs()) throw error;
      core.observe({ type: "retry", id: tx.id, attempt, error: conflict });
      await sleep(delayMs, signal).catch((cause: unknown) => {
        throw abortError(cause, "not_applied");
      });
    }
  }
}
