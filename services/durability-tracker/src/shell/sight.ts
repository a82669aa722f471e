// Knows whether the tracker still sees the primary. Owns the time of the last report; the core owns
// the contents.
import { type Clock } from "@highwater/runtime";

/**
 * A question without an answer for this long makes the tracker blind. An idle tracker asks once a
 * second.
 */
const BLIND_AFTER_MS = 1_000;

export class Sight {
  readonly #clock: Clock;
  readonly #onChange: (isBlind: boolean) => void;
  #unansweredSinceMs: number | null = null;
  #cancel: () => void = () => undefined;
  #isBlind = false;

  constructor(clock: Clock, onChange: (isBlind: boolean) => void) {
    this.#clock = clock;
    this.#onChange = onChange;
  }

  /**
   * True if the primary's positions may have moved without the tracker's knowledge. Others may know
   * more.
   */
  get isBlind(): boolean {
    return this.#isBlind;
  }

  /** Returns how long the primary has not answered; 0 when no question is open. */
  get unansweredMs(): number {
    return this.#unansweredSinceMs === null ? 0 : this.#clock.monotonicMs() - this.#unansweredSinceMs;
  }

  /** Call this when the primary is asked, or while it is unknown which node is the primary. */
  asked(): void {
    if (this.#unansweredSinceMs !== null) return;
    this.#unansweredSinceMs = this.#clock.monotonicMs();
    this.#cancel = this.#clock.after(BLIND_AFTER_MS, () => {
      this.#change(true);
    });
  }

  /** Call this when the current primary has answered. */
  answered(): void {
    this.stop();
    this.#unansweredSinceMs = null;
    this.#change(false);
  }

  stop(): void {
    this.#cancel();
  }

  #change(isBlind: boolean): void {
    if (isBlind === this.#isBlind) return;
    this.#isBlind = isBlind;
    this.#onChange(isBlind);
  }
}
