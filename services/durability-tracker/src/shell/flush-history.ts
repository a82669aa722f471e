// Remembers when the primary had flushed which position. A position alone gives a replica's lag in
// bytes; this gives it in time. Bounded: while a replica is far behind, the older part becomes
// coarser.
import { type EpochId, type Offset } from "@highwater/protocol";

interface Flushed {
  readonly atMs: number;
  readonly offset: Offset;
}

const KEPT_MAX = 1_024;
const APART_MS_MIN = 5;

export class FlushHistory {
  #epoch: EpochId | null = null;
  #kept: Flushed[] = [];
  #apartMs = APART_MS_MIN;

  /**
   * Adds a position. `slowest`: every replica has everything at or below it; null while that is not
   * known.
   */
  note(epoch: EpochId, { atMs, offset }: Flushed, slowest: Offset | null): void {
    if (epoch !== this.#epoch) {
      this.#epoch = epoch;
      this.#kept = [];
      this.#apartMs = APART_MS_MIN;
    }
    const last = this.#kept.at(-1);
    if (last === undefined || (offset > last.offset && atMs - last.atMs >= this.#apartMs))
      this.#kept.push({ atMs, offset });
    if (slowest !== null && (this.#kept[0]?.offset ?? slowest) < slowest) this.#forgetUpTo(slowest);
    if (this.#kept.length <= KEPT_MAX) return;
    this.#kept = this.#kept.filter((_, at) => at % 2 === 0);
    this.#apartMs *= 2;
  }

  /**
   * Returns how long the first flush above the position has been on the primary's disk; 0 if there
   * is none.
   */
  lagMs(epoch: EpochId, position: Offset, nowMs: number): number {
    if (epoch !== this.#epoch) return 0;
    const first = this.#kept.find(({ offset }) => offset > position);
    return first === undefined ? 0 : Math.max(0, nowMs - first.atMs);
  }

  #forgetUpTo(offset: Offset): void {
    const first = this.#kept.findIndex((kept) => kept.offset > offset);
    // The newest stays, because the next lag is measured from it.
    this.#kept = this.#kept.slice(first < 0 ? -1 : first);
    if (this.#kept.length < KEPT_MAX / 4) this.#apartMs = APART_MS_MIN;
  }
}
