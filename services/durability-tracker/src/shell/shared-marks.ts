// What this tracker had heard of an ended epoch, and may have told, binds all trackers: it is written behind the record of the
// next epoch, where the others read it. Owns when; what follows from it is the core's.
import { type EpochId, type EpochRecord } from "@highwater/protocol";
import { type Log } from "@highwater/service";
import { type Clock, type NodeReport, type Store } from "@highwater/store";
import { type TrackerState } from "../core/index.ts";

export interface SharedMarksDeps {
  readonly store: Pick<Store, "raiseFinalMarks">;
  readonly clock: Clock;
  readonly log: Log;
  /** The record has changed. */
  readonly onShared: () => void;
}

/** What is lost of older epochs has been told long ago. */
const EPOCHS = 8;
const AGAIN_MS = 1_000;

export class SharedMarks {
  readonly #deps: SharedMarksDeps;
  /** By record, when its final marks were last raised. */
  readonly #sharedAtMs = new Map<string, number>();

  constructor(deps: SharedMarksDeps) {
    this.#deps = deps;
  }

  /** With a report of the node that reigns. */
  share({ node, epochs }: NodeReport, state: TrackerState): void {
    const { store, clock, log, onShared } = this.#deps;
    for (const record of epochs.slice(-EPOCHS)) {
      const marks = higherMarks(record, state);
      const sharedAtMs = this.#sharedAtMs.get(record.id) ?? Number.NEGATIVE_INFINITY;
      if (Object.keys(marks).length === 0 || clock.monotonicMs() - sharedAtMs < AGAIN_MS) continue;
      this.#sharedAtMs.set(record.id, clock.monotonicMs());
      store.raiseFinalMarks(node, record.id as EpochId, marks).then(onShared, (cause: unknown) => {
        log.warn("marks_not_shared", { node, epoch: record.id, cause: String(cause) });
      });
    }
  }
}

/**
 * The marks of the epoch before that are above those in the record. Also those of the primary's own disk, which promise nothing
 * about another node's history: what was on a disk proves that a read below the fork's limit was kept.
 */
function higherMarks(record: EpochRecord, state: TrackerState): Record<string, string> {
  const own = state.marks.get((record.previous ?? "") as EpochId);
  const higher: Record<string, string> = {};
  for (const { name } of state.config.levels) {
    const mark = own?.get(name);
    if (mark !== undefined && mark > BigInt(record.finalMarks[name] ?? -1)) higher[name] = mark.toString();
  }
  return higher;
}
