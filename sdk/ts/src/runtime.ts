// The platform as this package uses it: web standards only.
import { type Observer } from "./observer.ts";
import { type Tuning } from "./tuning.ts";

/** Function that sends a request: the part of the platform's `fetch` that the client uses. */
export type FetchLike = (url: string, init: RequestInit) => Promise<Response>;

export interface Runtime {
  readonly fetch: FetchLike;
  readonly observe: Observer;
}

/** Milliseconds, for durations. */
export const monotonicMs = (): number => performance.now();

/** Default time limit of a wait. There is no wait without a limit. */
export const DURABLE_TIMEOUT_MS = 30_000;

/** The largest delay that every platform's timer accepts. */
const MAX_TIMER_MS = 2_147_483_647;

/**
 * Calls back once, after `ms` or as soon as the signal is aborted, and returns a function that
 * cancels the timer. A background timer does not keep the process alive, if the platform supports
 * that; a timer that a caller awaits does.
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

/**
 * Resolves after `ms`, or rejects with the signal's reason as soon as it is aborted. Leaves no
 * timer and no listener behind.
 */
export function sleep(ms: number, signal?: AbortSignal, isBackground = false): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    // A reason that is not an Error is passed on unchanged: `fetch` does the same, and callers
    // compare it by identity.
    const end = (isAborted: boolean): void => {
      if (isAborted) reject(signal?.reason as Error);
      else resolve();
    };
    startTimer(ms, end, signal, isBackground);
  });
}

/**
 * Settles like the work, or rejects with the error from `onEnd` when time runs out or the signal is
 * aborted. The work continues.
 */
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
 * Runs a callback of the application. An error that it throws, or rejects with, is printed: it
 * would end the process as an uncaught error, and must not disturb this package.
 */
export function callUser<T>(callback: () => T): T | undefined {
  const report = (error: unknown): void => {
    console.error("Highwater callback:", error);
  };
  try {
    const result = callback();
    (result as Partial<Promise<T>> | undefined)?.catch?.(report);
    return result;
  } catch (error) {
    report(error);
    return undefined;
  }
}

/** Doubles the base with every step, up to a limit. */
export function doubled(base: number, steps: number, max: number): number {
  return Math.min(max, base * 2 ** steps);
}

/**
 * Draws a delay evenly between zero and a limit that doubles with every attempt ("full jitter").
 */
export function fullJitter(
  attempt: number,
  { backoffBaseMs, backoffMaxMs }: Pick<Tuning, "backoffBaseMs" | "backoffMaxMs">,
  random = Math.random(),
  baseMs = backoffBaseMs,
): number {
  return random * doubled(baseMs, attempt, backoffMaxMs);
}
