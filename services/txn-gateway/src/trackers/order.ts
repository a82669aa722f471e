// The order in which trackers are asked: nearest first, and those that do not see the primary last.
// The stream and the questions share what they learn about a tracker. No I/O here.
import { type Clock } from "@highwater/runtime";

/**
 * A tracker that said it was blind, or was out of reach while others were blind, is tried again
 * after so long.
 */
const BLIND_FOR_MS = 5_000;

export class TrackerOrder {
  /** Nearest first. */
  readonly all: readonly string[];
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #blindUntilMs = new Map<string, number>();

  constructor(clock: Pick<Clock, "monotonicMs">, trackers: readonly string[]) {
    this.#clock = clock;
    this.all = trackers;
  }

  note(tracker: string, isBlind: boolean): void {
    if (isBlind) this.#blindUntilMs.set(tracker, this.#clock.monotonicMs() + BLIND_FOR_MS);
    else this.#blindUntilMs.delete(tracker);
  }

  isBlind(tracker: string): boolean {
    return (this.#blindUntilMs.get(tracker) ?? 0) > this.#clock.monotonicMs();
  }

  /** Some tracker may see the primary. */
  get hasSeeing(): boolean {
    return this.all.some((tracker) => !this.isBlind(tracker));
  }

  inOrder(): string[] {
    return [
      ...this.all.filter((tracker) => !this.isBlind(tracker)),
      ...this.all.filter((tracker) => this.isBlind(tracker)),
    ];
  }
}
