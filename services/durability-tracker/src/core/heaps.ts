// Entries that wait for marks, by level and offset. An entry that has changed state stays in the
// heaps and is skipped there.
import { type Offset } from "@highwater/protocol";
import { levelBit } from "./levels.ts";
import { OffsetHeap } from "./offset-heap.ts";
import { type Ledger, type LedgerEntry, type Own, type TrackerState } from "./types.ts";

const MIN_TIDY = 1_024;

const own = ({ ledger }: TrackerState): Pick<Own<Ledger>, "waiting"> => ledger as Own<Ledger>;

/** Waits at every level that has not had it. */
export function pushWaiting(state: TrackerState, entry: LedgerEntry, offset: Offset): void {
  const { waiting } = own(state);
  for (const { name } of state.config.levels)
    if ((entry.reached & levelBit(state, name)) === 0) waiting.get(name)?.push(offset, entry);
}

/** The lowest that the mark has passed, which does not wait any more. */
export function popPassed(state: TrackerState, level: string, mark: Offset): LedgerEntry | undefined {
  return own(state).waiting.get(level)?.popUpTo(mark);
}

/** Other levels than before. */
export function makeHeaps(state: TrackerState): void {
  const { waiting } = own(state);
  waiting.clear();
  for (const { name } of state.config.levels) waiting.set(name, new OffsetHeap<LedgerEntry>());
}

export function clearHeaps(state: TrackerState): void {
  for (const heap of own(state).waiting.values()) heap.clear();
}

/** Drops entries that have moved on, once they are most: a level may be out of reach for long. */
export function tidyHeaps(state: TrackerState): void {
  const { standing } = state.topology;
  const { entries } = state.ledger;
  if (standing.kind !== "following") return;
  for (const [name, heap] of own(state).waiting) {
    if (heap.size <= 2 * entries.size + MIN_TIDY) continue;
    heap.retain((offset, entry) => {
      const { state: at, reached } = entry;
      if (entries.get(entry.key) !== entry || at.kind !== "pending") return false;
      if ((reached & levelBit(state, name)) !== 0) return false;
      return at.position.epoch === standing.epoch && at.position.offset === offset;
    });
  }
}
