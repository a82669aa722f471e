// Time as the project's code sees it. The real one is made in a process's runtime.ts; tests and the
// simulation bring their own.
export interface Clock {
  /** Milliseconds that never go back; for durations. */
  monotonicMs(): number;
  /** Milliseconds since 1970; for display and for ids. */
  wallMs(): number;
  /** Calls back once after the delay; the returned function cancels. */
  after(delayMs: number, callback: () => void): () => void;
}

/** Resolves after the delay, or at once when the signal aborts. */
export function sleep(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) {
      resolve();
      return;
    }
    const onAbort = (): void => {
      cancel();
      resolve();
    };
    const cancel = clock.after(delayMs, () => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    });
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}
