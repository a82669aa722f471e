// The run's one clock, and waiting. Monotonic and the same for every process of the machine, as the history asks for.

export function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Rejects when the work takes longer; the work itself goes on, so its owner has to end it. */
export async function within<T>(what: string, limitMs: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new Error(`not within ${String(limitMs)} ms: ${what}`));
    }, limitMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Polls until the condition gives a value; its last error is the cause of the failure. */
export async function eventually<T>(
  what: string,
  limitMs: number,
  condition: () => Promise<T | undefined | false>,
): Promise<T> {
  const deadlineMs = nowMs() + limitMs;
  let cause: unknown;
  for (;;) {
    try {
      const value = await condition();
      if (value !== undefined && value !== false) return value;
    } catch (error) {
      cause = error;
    }
    if (nowMs() > deadlineMs) throw new Error(`not within ${String(limitMs)} ms: ${what}`, { cause });
    await pause(50);
  }
}

export function reasonOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
