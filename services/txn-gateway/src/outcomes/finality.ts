// Delays "it never commits" until no failover can undo it. A tombstone that only the primary has
// disappears with the primary. Then a late copy of the request may commit after all, or the attempt
// is back in the current history. So the gateway reports it when the tombstone has reached the
// exposure level. Trackers report losses by the same rule (publishProven() of the tracker's core).
// After an operator has chosen a history, the transactions that it lacks are lost at once.
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
