// The one clock of the run: monotonic, and the same for every process of the machine, as the
// history requires.

export function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
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

export function reasonOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
