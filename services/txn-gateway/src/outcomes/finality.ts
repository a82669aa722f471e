// "It never commits" is worth what the tombstone is that says so. One that only the primary has
// goes with the primary, and then a copy of the request that was under way for long may commit
// after all, or the attempt that the tombstone denies is in the current history again. So it is
// reported when the tombstone has reached the level at which nothing is at risk any more. By the
// same rule trackers report losses (publishProven() of the tracker's core), also in this: once an
// operator has chosen a history, what it has lost is lost.
import { type FlushHelp } from "../primary/flush.ts";
import { type Primary } from "../primary/primary.ts";
import { type MarkBoard, type WaitEnd } from "./marks.ts";
import { type Settled } from "./settled.ts";

export interface FinalityContext {
  readonly marks: MarkBoard;
  readonly primary: Primary;
  readonly flush: FlushHelp;
  /**
   * Below it a transaction counts as exposed. Null: no tracker is configured, and there are no
   * marks.
   */
  readonly level: string | null;
  /**
   * What is lost to a history that an operator has chosen is final from here on: the primary's own
   * disk.
   */
  readonly chosenLevel: string;
}

export class Finality {
  readonly #parts: FinalityContext;

  constructor(parts: FinalityContext) {
    this.#parts = parts;
  }

  /**
   * `reached`: it may be reported, also if it is no tombstone. `ended`: the next epoch may lack it;
   * settle it there.
   */
  await(settled: Settled, limitMs: number, signal?: AbortSignal): Promise<WaitEnd> {
    const { marks, primary, flush, level, chosenLevel } = this.#parts;
    if ((settled.kind !== "aborted" && settled.kind !== "lost") || level === null)
      return Promise.resolve("reached");
    const { kind, epoch, offset } = settled;
    const { current: primaryEpoch } = primary;
    // The position was read after the tombstone; nothing need be there yet that would bring it to
    // disk.
    if (primaryEpoch?.epoch === epoch) flush.committed(primaryEpoch);
    // `aborted` is about the epoch that the tombstone is in: that this one was chosen does not keep
    // a failover from undoing it.
    const isChosen = kind === "lost" && primary.recordOf(epoch)?.commanded === true;
    return marks.wait({ epoch, level: isChosen ? chosenLevel : level, offset }, limitMs, signal);
  }
}
