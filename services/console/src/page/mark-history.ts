// When each mark had which offset, as far as the page has seen it. With it the console says when a
// transaction became durable at a level.
import type { Marks } from "@highwater/protocol";

const MAX_SAMPLES = 6_000;

interface MarkSample {
  readonly atMs: number;
  readonly epoch: string;
  readonly levels: Readonly<Record<string, string>>;
}

export class MarkHistory {
  readonly #samples: MarkSample[] = [];
  readonly #everyMs: number;

  /** `everyMs`: marks that come closer together than this count as one. */
  constructor(everyMs = 50) {
    this.#everyMs = everyMs;
  }

  note(atMs: number, { epoch, levels }: Marks): void {
    const before = this.#samples.at(-2);
    // The newest replaces the last: a mark may count as reached a little late, never early.
    if (before?.epoch === epoch && atMs - before.atMs < this.#everyMs) this.#samples.pop();
    this.#samples.push({ atMs, epoch, levels });
    if (this.#samples.length > MAX_SAMPLES) this.#samples.splice(0, MAX_SAMPLES / 10);
  }

  /**
   * When the level's mark was first seen at or above the offset. `isBefore`: it was already there
   * when the page first saw this epoch. Null: it was never seen there.
   */
  reached(
    epoch: string,
    level: string,
    offset: string,
  ): { readonly atMs: number; readonly isBefore: boolean } | null {
    let isFirst = true;
    for (const sample of this.#samples) {
      if (sample.epoch !== epoch) continue;
      const mark = sample.levels[level];
      if (mark !== undefined && BigInt(mark) >= BigInt(offset))
        return { atMs: sample.atMs, isBefore: isFirst };
      isFirst = false;
    }
    return null;
  }
}
