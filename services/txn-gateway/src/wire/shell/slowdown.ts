// The wait of a session's transaction that begins to write while exposure is near its limit.
import { type Report } from "../frames/build.ts";
import { type Admission } from "../model/state.ts";

export interface SlowdownOptions {
  /** Returns how long the transaction has to wait, or why it may not begin. */
  readonly ask: () => number | Report;
  readonly wait: (ms: number, callback: () => void) => () => void;
  /** Called when the wait is over. The transaction asks again and is answered at once. */
  readonly onEnd: () => void;
}

const CANCELLED: Report = {
  severity: "ERROR",
  code: "57014",
  message: "canceling statement due to user request",
};

export class Slowdown {
  readonly #options: SlowdownOptions;
  #stop: (() => void) | null = null;
  /** The decision for the transaction that has waited. */
  #decided: "now" | Report | null = null;

  constructor(options: SlowdownOptions) {
    this.#options = options;
  }

  admission(): Admission {
    const decided = this.#decided;
    if (decided !== null) {
      this.#decided = null;
      return decided;
    }
    const asked = this.#options.ask();
    if (typeof asked !== "number") return asked;
    if (asked === 0) return "now";
    this.#stop = this.#options.wait(asked, () => {
      this.#end("now");
    });
    return "later";
  }

  #end(decided: "now" | Report): void {
    this.#stop = null;
    this.#decided = decided;
    this.#options.onEnd();
    // Dropped, because the transaction may never ask again: after an error the server skips it.
    this.#decided = null;
  }

  /** False when nothing waits. */
  cancel(): boolean {
    if (this.#stop === null) return false;
    this.#stop();
    this.#end(CANCELLED);
    return true;
  }

  /** The session has ended. */
  stop(): void {
    this.#stop?.();
    this.#stop = null;
  }
}
