// Sends ids again at about the time when they expire. Before that, the answer must be the first
// one; after it, the id is refused and never runs again.
import { setTimeout as pause } from "node:timers/promises";
import { type Random } from "./random.ts";
import { type Reruns } from "./reruns.ts";

/** Fractions of the retention, counted from the answer. */
const [EARLIEST, LATEST] = [0.6, 1.4];
const WAITING_MAX = 200;
const LOOK_MS = 250;

export interface LateOptions {
  readonly retentionMs: number;
  readonly random: Random;
  readonly reruns: Reruns;
  readonly signal: AbortSignal;
}

interface Waiting {
  readonly dueMs: number;
  readonly send: () => Promise<void>;
}

export class Late {
  readonly #options: LateOptions;
  #waiting: Waiting[] = [];

  constructor(options: LateOptions) {
    this.#options = options;
  }

  add(send: () => Promise<void>): void {
    const { retentionMs, random } = this.#options;
    if (this.#waiting.length >= WAITING_MAX) return;
    const afterMs = retentionMs * (EARLIEST + random.next() * (LATEST - EARLIEST));
    this.#waiting.push({ dueMs: performance.now() + afterMs, send });
  }

  /** Runs until the signal aborts. */
  async run(): Promise<void> {
    const { reruns, signal } = this.#options;
    while (!signal.aborted) {
      await pause(LOOK_MS, undefined, { signal }).catch(() => undefined);
      const nowMs = performance.now();
      const due = this.#waiting.filter(({ dueMs }) => dueMs <= nowMs);
      this.#waiting = this.#waiting.filter(({ dueMs }) => dueMs > nowMs);
      for (const { send } of due) reruns.add(send);
    }
  }
}
