// An open loop: work begins when it is due, whether or not what began before has ended.

/** Waits for the event loop's timer, which is as fine as a millisecond. */
const STEP_MS = 1;

/** Begins the work so many times a second. Resolves when the last has begun. */
export async function pace(
  { rate, durationMs }: { readonly rate: number; readonly durationMs: number },
  begin: (dueMs: number) => void,
): Promise<void> {
  const startedMs = performance.now();
  const total = Math.floor((rate * durationMs) / 1_000);
  for (let begun = 0; begun < total;) {
    const dueNow = Math.min(total, Math.floor(((performance.now() - startedMs) * rate) / 1_000) + 1);
    for (; begun < dueNow; begun++) begin(startedMs + (1_000 * begun) / rate);
    await new Promise((resolve) => setTimeout(resolve, STEP_MS));
  }
}

/**
 * Lends each of a few things to one piece of work at a time; work that finds none waits its turn.
 */
export class Lender<T> {
  readonly #free: T[];
  readonly #queue: ((thing: T) => void)[] = [];

  constructor(things: readonly T[]) {
    this.#free = [...things];
  }

  async use<R>(work: (thing: T) => Promise<R>): Promise<R> {
    const thing = this.#free.pop() ?? (await new Promise<T>((resolve) => this.#queue.push(resolve)));
    try {
      return await work(thing);
    } finally {
      const next = this.#queue.shift();
      if (next === undefined) this.#free.push(thing);
      else next(thing);
    }
  }
}
