// Time that only the test moves.
import { type Clock } from "../src/clock.ts";

export class FakeClock implements Clock {
  nowMs = 0;
  readonly #timers = new Set<{ readonly atMs: number; readonly callback: () => void }>();

  monotonicMs(): number {
    return this.nowMs;
  }

  wallMs(): number {
    return this.nowMs;
  }

  after(delayMs: number, callback: () => void): () => void {
    const timer = { atMs: this.nowMs + delayMs, callback };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  get pending(): number {
    return this.#timers.size;
  }

  async advance(ms: number): Promise<void> {
    this.nowMs += ms;
    for (const timer of [...this.#timers]) {
      if (timer.atMs > this.nowMs || !this.#timers.delete(timer)) continue;
      timer.callback();
    }
    await settled();
  }
}

/** Lets every promise that can go on go on. */
export async function settled(): Promise<void> {
  for (let i = 0; i < 60; i++) await Promise.resolve();
}
