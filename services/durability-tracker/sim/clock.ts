// The clock of one simulated process: the time of the run, and how far the process is ahead of it. Timers fire when the run rests.
import { txnTimestampMs } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { txnId } from "../test/support/core.ts";

/** The ids of a run were made in this millisecond. */
export const IDS_MS = txnTimestampMs(txnId(1));

interface Timer {
  readonly atMs: number;
  readonly callback: () => void;
}

export class SimClock implements Clock {
  readonly #runMs: () => number;
  readonly #timers = new Set<Timer>();
  #aheadMs = 0;

  constructor(runMs: () => number) {
    this.#runMs = runMs;
  }

  monotonicMs(): number {
    return this.#runMs() + this.#aheadMs;
  }

  wallMs(): number {
    return IDS_MS + this.monotonicMs();
  }

  after(delayMs: number, callback: () => void): () => void {
    const timer = { atMs: this.monotonicMs() + delayMs, callback };
    this.#timers.add(timer);
    return () => {
      this.#timers.delete(timer);
    };
  }

  skip(byMs: number): void {
    this.#aheadMs += byMs;
  }

  /** Calls what is due, earliest first; false if nothing is. */
  fire(): boolean {
    const nowMs = this.monotonicMs();
    const due: Timer[] = [];
    for (const timer of this.#timers) if (timer.atMs <= nowMs) due.push(timer);
    due.sort((a, b) => a.atMs - b.atMs);
    // An earlier one may have called off a later one.
    for (const timer of due) if (this.#timers.delete(timer)) timer.callback();
    return due.length > 0;
  }
}
