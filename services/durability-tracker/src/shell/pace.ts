// Decides how long to pause between two polls of positions while something waits for them. Under
// load nearly every poll finds that the log has grown, and more polls only take processor time from
// the server whose commits are waited for.
import { type Offset } from "@highwater/protocol";

const LOADED_POLL_MS = 4;
/** The weight of the last poll in the share. */
const WEIGHT = 1 / 8;
/** Above this share of polls that find a change, the log is under load. */
const LOADED_SHARE = 0.5;

export class Pace {
  readonly #busyPollMs: number;
  #flushed: Offset | null = null;
  #share = 0;

  constructor(busyPollMs: number) {
    this.#busyPollMs = busyPollMs;
  }

  /** Takes the end of the log on the primary's disk, or null if it is unknown. */
  looked(flushed: Offset | null): void {
    const hasMoved = this.#flushed !== null && flushed !== this.#flushed;
    this.#flushed = flushed;
    this.#share += WEIGHT * (Number(hasMoved) - this.#share);
  }

  get pauseMs(): number {
    return this.#share > LOADED_SHARE ? Math.max(this.#busyPollMs, LOADED_POLL_MS) : this.#busyPollMs;
  }
}
