// The outside world as this package uses it: web standards only. Everything else takes time, chance and fetch from here.

export type FetchLike = (url: string, init: RequestInit) => Promise<Response>;

/** Where diagnostics go. `console` fits. Nothing in the package depends on what is done with them. */
export interface Log {
  debug?(message: string, fields: Record<string, unknown>): void;
  info?(message: string, fields: Record<string, unknown>): void;
  warn?(message: string, fields: Record<string, unknown>): void;
  error?(message: string, fields: Record<string, unknown>): void;
}

export interface Runtime {
  readonly fetch: FetchLike;
  /** For jitter only, never for ids. */
  readonly random: () => number;
  readonly monotonicMs: () => number;
  readonly log: Log;
}

/** The largest delay that every platform's timer accepts. */
const MAX_TIMER_MS = 2_147_483_647;

/**
 * Calls back once after `ms` and returns what cancels that. A background timer lets the process exit (where the
 * platform can say so); a timer that somebody awaits does not.
 */
export function startTimer(ms: number, callback: () => void, options: { background: boolean }): () => void {
  const timer: unknown = setTimeout(callback, Math.min(Math.max(ms, 0), MAX_TIMER_MS));
  if (options.background) (timer as { unref?: () => void }).unref?.();
  return () => {
    clearTimeout(timer as Parameters<typeof clearTimeout>[0]);
  };
}

/** Resolves after `ms`; rejects with the signal's reason as soon as it is aborted. Leaves no timer and no listener. */
export function sleep(ms: number, signal?: AbortSignal, background = false): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) {
      reject(abortReason(signal));
      return;
    }
    const onAbort = (): void => {
      cancel();
      if (signal !== undefined) reject(abortReason(signal));
    };
    const cancel = startTimer(
      ms,
      () => {
        signal?.removeEventListener("abort", onAbort);
        resolve();
      },
      { background },
    );
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

/** The reason of an aborted signal, as an Error wherever the caller of abort() gave one. */
export function abortReason(signal: AbortSignal): Error {
  const reason: unknown = signal.reason;
  // A reason that is no Error is passed on as it is: fetch does the same, and callers compare by identity.
  return reason as Error;
}

/** Runs a callback of the user's. What it throws surfaces as an uncaught error, and never disturbs this package. */
export function callUser(callback: () => void): void {
  try {
    callback();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}

/** A delay drawn evenly from zero to a limit that doubles with every attempt: "full jitter". */
export function fullJitter(
  attempt: number,
  options: { baseMs: number; maxMs: number; random: number },
): number {
  const limit = Math.min(options.maxMs, options.baseMs * 2 ** Math.min(attempt, 30));
  return options.random * limit;
}
