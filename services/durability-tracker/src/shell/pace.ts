// How long to pause between two looks at the positions while somebody waits for them. Under load
// nearly every look finds that the log has gone on, and a closer look only takes processor time
// from the server whose commits are waited for.
import { type Offset } from "@highwater/protocol";

const LOADED_POLL_MS = 4;
/** The last looks count for so much of the share. */
const WEIGHT = 1 / 8;
/** Above this share of looks that find something the log is under load. */
const LOADED_SHARE = 0.5;

export class Pace {
  readonly #busyPollMs: number;
  #flushed: Offset | null = null;
  #share = 0;

  constructor(busyPollMs: number) {
    this.#busyPollMs = busyPollMs;
  }

  /** The primary's disk had the log up to here; null: it did not say. */
  looked(flushed: Offset | null): void {
    const hasMoved = this.#flushed !== null && flushed !== this.#flushed;
    this.#flushed = flushed;
    this.#share += WEIGHT * (Number(hasMoved) - this.#share);
  }

  get pauseMs(): number {
    return this.#share > LOADED_SHARE ? Math.max(this.#busyPollMs, LOADED_POLL_MS) : this.#busyPollMs;
  }
}
