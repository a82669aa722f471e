// For tests: a clock that only the test moves.
import { type Clock } from "./clock.ts";

interface Timer {
  readonly atMs: number;
  readonly callback: () => void;
}

/** Lets everything run that waits for no timer. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 4; turn++) await new Promise((resolve) => setImmediate(resolve));
}

export class FakeClock implements Clock {
  /** A test that sets it shows a process that was held up: no timer fires. */
  nowMs = 1_000;
  readonly #timers = new Set<Timer>();

  monotonicMs(): number {
    return this.nowMs;
  }

  wallMs(): number {
    return 1_700_000_000_000 + this.nowMs;
  }

  after(delayMs: number, callback: () => void): () => void {
    const timer = { atMs: this.nowMs + Math.max(0, delayMs), callback };
    this.#timers.add(timer);
    return () => {
      this.#timers.delete(timer);
    };
  }

  get pendingTimers(): number {
    return this.#timers.size;
  }

  /** Moves the time on, timer by timer, and lets what follows from each happen before the next. */
  async advance(byMs: number): Promise<void> {
    const untilMs = this.nowMs + byMs;
    await settle();
    for (;;) {
      const [next] = [...this.#timers].filter(({ atMs }) => atMs <= untilMs).sort((a, b) => a.atMs - b.atMs);
      if (next === undefined) break;
      this.#timers.delete(next);
      this.nowMs = Math.max(this.nowMs, next.atMs);
      next.callback();
      await settle();
    }
    this.nowMs = untilMs;
  }
}
