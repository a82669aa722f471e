// Shares this tracker's marks of an ended epoch. It may have published them, so they bind all
// trackers: it writes them after the record of the next epoch, where the others read them. Owns
// when; the core owns the consequences.
import { type NodeReport } from "@highwater/authority";
import { type EpochId, type EpochRecord, parseOffset } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { type Log } from "@highwater/service";
import { type Store } from "@highwater/store";
import { knownMark, type TrackerState } from "../core/index.ts";

export interface SharedMarksDeps {
  readonly store: Pick<Store, "raiseFinalMarks">;
  readonly clock: Clock;
  readonly log: Log;
  /** The record has changed. */
  readonly onShared: () => void;
}

/** Losses of older epochs have been reported long ago. */
const EPOCHS = 8;
const AGAIN_MS = 1_000;

export class SharedMarks {
  readonly #deps: SharedMarksDeps;
  /** By record, when its final marks were last raised. */
  readonly #sharedAtMs = new Map<string, number>();

  constructor(deps: SharedMarksDeps) {
    this.#deps = deps;
  }

  /** With a report of the current primary. */
  share({ node, epochs }: NodeReport, state: TrackerState): void {
    const { store, clock, log, onShared } = this.#deps;
    for (const [epoch, marks] of marksToShare(epochs, state)) {
      const sharedAtMs = this.#sharedAtMs.get(epoch) ?? Number.NEGATIVE_INFINITY;
      if (clock.monotonicMs() - sharedAtMs < AGAIN_MS) continue;
      this.#sharedAtMs.set(epoch, clock.monotonicMs());
      store.raiseFinalMarks(node, epoch, marks).then(onShared, (cause: unknown) => {
        log.warn("marks_not_shared", { node, epoch, cause: String(cause) });
      });
    }
  }
}

/** By the epoch in whose record they belong. */
export function marksToShare(
  records: readonly EpochRecord[],
  state: TrackerState,
): Map<EpochId, Record<string, string>> {
  const shared = new Map<EpochId, Record<string, string>>();
  for (const record of records.slice(-EPOCHS)) {
    const marks = higherMarks(record, state);
    if (Object.keys(marks).length > 0) shared.set(record.id as EpochId, marks);
  }
  return shared;
}

/**
 * The marks of the epoch before that are above those in the record. Also those of the primary's own
 * disk, which promise nothing about another node's history: what was on a disk proves that a read
 * below the fork's limit was kept.
 */
function higherMarks(record: EpochRecord, state: TrackerState): Record<string, string> {
  const higher: Record<string, string> = {};
  if (record.previous === null) return higher;
  const { config } = state;
  const { epochs } = state.topology;
  // What somebody had written may be gone with the end of the log.
  const before = epochs.get(record.id as EpochId)?.finalMarks ?? {};
  for (const { name } of config.levels) {
    // Also what is known from its other successors, whose histories were given up: a tracker that
    // comes later learns none of them.
    const known = knownMark(state, record.previous as EpochId, name, new Set([record.id as EpochId]));
    const recorded = parseOffset(record.finalMarks[name] ?? "") ?? -1n;
    for (const mark of [known, parseOffset(before[name] ?? "")])
      if (mark != null && mark > recorded && mark > BigInt(higher[name] ?? -1))
        higher[name] = mark.toString();
  }
  return higher;
}
