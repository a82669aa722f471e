// Delays the answer "it never commits" until no failover can undo it. A tombstone that only the
// primary has disappears with the primary; then a late copy of the request may still commit, or the
// attempt may be in the current history after all. So the gateway waits until the tombstone has
// reached the exposure level. Trackers report losses by the same rule (publishProven() in their
// core). When an operator has chosen a history, the transactions that it lacks are lost at once.
import { type FlushHelp } from "../primary/flush.ts";
import { type Primary } from "../primary/primary.ts";
import { type MarkBoard, type WaitEnd } from "./marks.ts";
import { type Settled } from "./settled.ts";

export interface FinalityContext {
  readonly marks: MarkBoard;
  readonly primary: Primary;
  readonly flush: FlushHelp;
  /**
   * The level below which a transaction counts as exposed. Null: there are no trackers and no
   * marks.
   */
  readonly level: string | null;
  /** The level at which a loss to an operator's chosen history is final: the primary's own disk. */
  readonly chosenLevel: string;
}

export class Finality {
  readonly #parts: FinalityContext;

  constructor(parts: FinalityContext) {
    this.#parts = parts;
  }

  /**
   * `reached`: the outcome is final. `ended`: the next epoch may lack the tombstone; settle it
   * there.
   */
  await(settled: Settled, limitMs: number, signal?: AbortSignal): Promise<WaitEnd> {
    const { marks, primary, flush, level, chosenLevel } = this.#parts;
    if ((settled.kind !== "aborted" && settled.kind !== "lost") || level === null)
      return Promise.resolve("reached");
    const { kind, epoch, offset } = settled;
    const { current: primaryEpoch } = primary;
    // The position was read after the tombstone, and no flush may be due that brings it to disk.
    if (primaryEpoch?.epoch === epoch) flush.committed(primaryEpoch, offset);
    // `aborted` counts in the epoch of the tombstone, which a failover can still undo, even if an
    // operator chose that epoch.
    const isChosen = kind === "lost" && primary.recordOf(epoch)?.commanded === true;
    return marks.wait({ epoch, level: isChosen ? chosenLevel : level, offset }, limitMs, signal);
  }
}
