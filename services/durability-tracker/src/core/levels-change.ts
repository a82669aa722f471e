// Other levels than before, while everything goes on. Published marks stay: a level whose rule has
// changed keeps its mark, which was true of the rule that it was made by, and rises by the new one.
import { countAnew } from "./exposure.ts";
import { complete, settleByMarks } from "./ledger.ts";
import { hasAll, levelBit, levelNames, nameLevels } from "./levels.ts";
import { advanceMarks } from "./nodes.ts";
import { OffsetHeap } from "./offset-heap.ts";
import { type Effect, type LedgerEntry, type TrackerEvent, type TrackerState } from "./types.ts";

export function reconfigure(
  state: TrackerState,
  event: Extract<TrackerEvent, { kind: "configured" }>,
  effects: Effect[],
): void {
  const { levels, exposureLevel } = event;
  state.config = { ...state.config, levels, exposureLevel };
  nameLevels(state);
  effects.push({ kind: "save_levels" });
  state.backlog.relevel(levelNames(state));
  rebuildHeaps(state, effects);
  for (const name of state.stalls.keys()) if (!levelNames(state).includes(name)) state.stalls.delete(name);
  countAnew(state);
  advanceMarks(state, effects);
  settleByMarks(state, effects);
}

/** Each level's heap holds what waits for it in the current epoch. */
function rebuildHeaps(state: TrackerState, effects: Effect[]): void {
  const { standing, config, waiting } = state;
  waiting.clear();
  for (const { name } of config.levels) waiting.set(name, new OffsetHeap<LedgerEntry>());
  if (standing.kind !== "following") return;
  for (const entry of [...state.entries.values()]) {
    const { state: at, reached } = entry;
    if (at.kind !== "pending" || at.position.epoch !== standing.epoch) continue;
    for (const { name } of config.levels)
      if ((reached & levelBit(state, name)) === 0) waiting.get(name)?.push(at.position.offset, entry);
    if (hasAll(state, reached)) complete(state, entry, effects);
  }
}
