// "It never commits" is worth what the tombstone is that says so. One that only the primary has goes with the primary, and then a
// copy of the request that was under way for long may commit after all. So it is told when the tombstone has reached the level
// at which nothing is at risk any more.
import { type FlushHelp } from "./flush.ts";
import { type MarkBoard, type WaitEnd } from "./marks.ts";
import { type Primary } from "./primary.ts";
import { type Settled } from "./txn/settled.ts";

export interface FinalityParts {
  readonly marks: MarkBoard;
  readonly primary: Primary;
  readonly flush: FlushHelp;
  /** Below it a transaction counts as exposed. Null: no tracker is configured, and nobody tells of marks. */
  readonly level: string | null;
}

export class Finality {
  readonly #parts: FinalityParts;

  constructor(parts: FinalityParts) {
    this.#parts = parts;
  }

  /** `reached`: it may be told, also of whatever is no tombstone. `ended`: the next epoch may lack it; settle it there. */
  await(settled: Settled, limitMs: number, signal?: AbortSignal): Promise<WaitEnd> {
    const { marks, primary, flush, level } = this.#parts;
    if ((settled.kind !== "aborted" && settled.kind !== "lost") || level === null)
      return Promise.resolve("reached");
    const { epoch, offset } = settled;
    const { reign } = primary;
    // The position was read after the tombstone; nothing need be there yet that would bring it to disk.
    if (reign?.epoch === epoch) flush.committed(reign);
    return marks.wait({ epoch, level, offset }, limitMs, signal);
  }
}
