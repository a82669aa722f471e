// Decides how long to pause between two polls of positions while something waits for them. Under
// load nearly every poll finds that the log has grown, and more polls only take processor time from
// the server whose commits are waited for. With few commits, polls follow each other without a
// pause around the time when a replica's acknowledgement can arrive.
import { type Offset } from "@highwater/protocol";
import { type PositionsReport } from "@highwater/store";

const LOADED_POLL_MS = 4;
/** The weight of the last poll in the share. */
const WEIGHT = 1 / 8;
/** Above this share of polls that find a change, the log is under load. */
const LOADED_SHARE = 0.5;
/** Polls without a pause begin so long before an acknowledgement can arrive. */
const EARLY_MS = 0.5;
/** They end so long after it: the acknowledgement is late, for instance because a disk is slow. */
const LATE_MS = 3;

export class Pace {
  readonly #busyPollMs: number;
  readonly #links = new Map<string, Link>();
  #flushed: Offset | null = null;
  #share = 0;

  constructor(busyPollMs: number) {
    this.#busyPollMs = busyPollMs;
  }

  looked({ flushed, replicas }: Pick<PositionsReport, "flushed" | "replicas">, nowMs: number): void {
    const hasMoved = this.#flushed !== null && flushed !== this.#flushed;
    this.#flushed = flushed;
    this.#share += WEIGHT * (Number(hasMoved) - this.#share);
    for (const node of this.#links.keys())
      if (!replicas.some((replica) => replica.node === node)) this.#links.delete(node);
    for (const { node, flushed: reached } of replicas) {
      let link = this.#links.get(node);
      if (link === undefined) this.#links.set(node, (link = new Link()));
      if (hasMoved && flushed !== null) link.sent(flushed, nowMs);
      link.acknowledged(reached, nowMs);
    }
  }

  /** `nowMs`: on the clock of `looked`. */
  pauseMs(nowMs: number): number {
    if (this.#share > LOADED_SHARE) return Math.max(this.#busyPollMs, LOADED_POLL_MS);
    // A pace that was set longer stays as it is.
    if (this.#busyPollMs >= LOADED_POLL_MS) return this.#busyPollMs;
    let pauseMs = this.#busyPollMs;
    for (const { dueMs } of this.#links.values())
      if (dueMs !== null && nowMs <= dueMs + LATE_MS)
        // A timer takes no fractions.
        pauseMs = Math.min(pauseMs, Math.max(0, Math.floor(dueMs - EARLY_MS - nowMs)));
    return pauseMs;
  }
}

/** The weight of a time that is longer than the shortest: the route may have changed. */
const LONGER_WEIGHT = 1 / 16;

/** How long a replica takes to acknowledge, and what it has not acknowledged. */
class Link {
  /** About the shortest time. */
  #takesMs: number | null = null;
  /** What is under way. Later parts of the log do not count until it has arrived. */
  #sent: { readonly offset: Offset; readonly atMs: number } | null = null;

  sent(offset: Offset, atMs: number): void {
    this.#sent ??= { offset, atMs };
  }

  acknowledged(offset: Offset, nowMs: number): void {
    if (this.#sent === null || offset < this.#sent.offset) return;
    const tookMs = nowMs - this.#sent.atMs;
    const knownMs = this.#takesMs;
    this.#takesMs =
      knownMs === null || tookMs < knownMs ? tookMs : knownMs + LONGER_WEIGHT * (tookMs - knownMs);
    this.#sent = null;
  }

  /** When the next acknowledgement can arrive; null: nothing is under way, or it is not known. */
  get dueMs(): number | null {
    return this.#sent === null || this.#takesMs === null ? null : this.#sent.atMs + this.#takesMs;
  }
}
