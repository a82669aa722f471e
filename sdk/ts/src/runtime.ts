// The outside world as this package uses it: web standards only. Everything else takes time, chance and fetch from here.
import { type Observer } from "./observer.ts";

/** What sends a request: the part of the platform's `fetch` that is used. */
export type FetchLike = (url: string, init: RequestInit) => Promise<Response>;

export interface Runtime {
  readonly fetch: FetchLike;
  /** For jitter only, never for ids. */
  readonly random: () => number;
  readonly monotonicMs: () => number;
  readonly observe: Observer;
}

/** The largest delay that every platform's timer accepts. */
const MAX_TIMER_MS = 2_147_483_647;

/**
 * Calls back once after `ms` and returns what cancels that. A background timer lets the process exit (where the
 * platform can say so); a timer that somebody awaits does not.
 */
export function startTimer(ms: number, callback: () => void, isBackground?: boolean): () => void {
  const timer: unknown = setTimeout(callback, Math.min(Math.max(ms, 0), MAX_TIMER_MS));
  if (isBackground) (timer as { unref?: () => void }).unref?.();
  return () => {
    clearTimeout(timer as Parameters<typeof clearTimeout>[0]);
  };
}

/** Calls back when the signal is aborted, and returns what takes that back. */
export function whenAborted(signal: AbortSignal | undefined, callback: () => void): () => void {
  signal?.addEventListener("abort", callback, { once: true });
  return () => {
    signal?.removeEventListener("abort", callback);
  };
}

/** Resolves after `ms`; rejects with the signal's reason as soon as it is aborted. Leaves no timer and no listener. */
export function sleep(ms: number, signal?: AbortSignal, isBackground?: boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const cancel = startTimer(
      ms,
      () => {
        forget();
        resolve();
      },
      isBackground,
    );
    const forget = whenAborted(signal, () => {
      cancel();
      // A reason that is no Error is passed on as it is: fetch does the same, and callers compare by identity.
      reject(signal?.reason as Error);
    });
  });
}

/** Runs a callback of the user's. What it throws surfaces as an uncaught error, and never disturbs this package. */
export function callUser<T>(callback: () => T): T | undefined {
  try {
    return callback();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
    return undefined;
  }
}

/** A delay drawn evenly from zero to a limit that doubles with every attempt: "full jitter". */
export function fullJitter(attempt: number, baseMs: number, maxMs: number, random: number): number {
  return random * Math.min(maxMs, baseMs * 2 ** Math.min(attempt, 30));
}
