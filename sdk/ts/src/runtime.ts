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
 * Calls back once after `ms`, or as soon as the signal is aborted, and returns what cancels that. A background timer lets the
 * process exit (where the platform can say so); a timer that somebody awaits does not.
 */
export function startTimer(
  ms: number,
  callback: (isAborted: boolean) => void,
  signal?: AbortSignal,
  isBackground = false,
): () => void {
  const end = (isAborted: boolean): void => {
    cancel();
    callback(isAborted);
  };
  const timer: unknown = setTimeout(
    () => {
      end(false);
    },
    Math.min(ms, MAX_TIMER_MS),
  );
  const onAbort = (): void => {
    end(true);
  };
  const cancel = (): void => {
    clearTimeout(timer as Parameters<typeof clearTimeout>[0]);
    signal?.removeEventListener("abort", onAbort);
  };
  if (isBackground) (timer as { unref?: () => void }).unref?.();
  signal?.addEventListener("abort", onAbort);
  return cancel;
}

/** Resolves after `ms`; rejects with the signal's reason as soon as it is aborted. Leaves no timer and no listener. */
export function sleep(ms: number, signal?: AbortSignal, isBackground = false): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    // A reason that is no Error is passed on as it is: fetch does the same, and callers compare by identity.
    const end = (isAborted: boolean): void => {
      if (isAborted) reject(signal?.reason as Error);
      else resolve();
    };
    startTimer(ms, end, signal, isBackground);
  });
}

/** What the work resolves with; or rejects with what `onEnd` makes of the end of the time or the signal, while the work goes on. */
export function within<T>(
  work: Promise<T>,
  ms: number,
  signal: AbortSignal | undefined,
  onEnd: (isAborted: boolean) => Error,
): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) throw onEnd(true);
    const end = (isAborted: boolean): void => {
      reject(onEnd(isAborted));
    };
    work.then(resolve, reject).finally(startTimer(ms, end, signal));
  });
}

/**
 * Runs a callback of the user's. An error that it throws surfaces as an uncaught error, and never
 * disturbs this package.
 */
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

/** What doubles with every step up to a limit. */
export function doubled(base: number, steps: number, max: number): number {
  return Math.min(max, base * 2 ** steps);
}

/** A delay drawn evenly from zero to a limit that doubles with every attempt: "full jitter". */
export function fullJitter(attempt: number, baseMs: number, maxMs: number, random: number): number {
  return random * doubled(baseMs, attempt, maxMs);
}
