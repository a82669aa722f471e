// Levels as bits. A name keeps its bit as long as anything on disk may refer to it, whatever the
// configuration says.
import { type Own, type TrackerState } from "./types.ts";

const own = (state: TrackerState): Pick<Own<TrackerState>, "config" | "levelBits"> =>
  state as Own<TrackerState>;

/** Bits of a number that shifts without a sign. */
const MAX_LEVELS = 31;

/** 0 for a name that was never configured. */
export function levelBit(state: TrackerState, level: string): number {
  return state.levelBits.get(level) ?? 0;
}

/** Weakest first. */
export function levelNames(state: TrackerState): string[] {
  return state.config.levels.map(({ name }) => name);
}

/** The levels that are configured now. */
function allBits(state: TrackerState): number {
  return state.config.levels.reduce((bits, { name }) => bits | levelBit(state, name), 0);
}

export function hasAll(state: TrackerState, reached: number): boolean {
  const all = allBits(state);
  return (reached & all) === all;
}

/** Other levels than before. */
export function setLevels(
  state: TrackerState,
  { levels, exposureLevel }: Pick<TrackerState["config"], "levels" | "exposureLevel">,
): void {
  own(state).config = { ...state.config, levels, exposureLevel };
  nameLevels(state);
}

/** What is on disk may say the names of levels that are not configured any more. */
export function restoreLevels(state: TrackerState, saved: ReadonlyMap<string, number>): void {
  const { levelBits } = own(state);
  levelBits.clear();
  for (const [name, bit] of saved) levelBits.set(name, bit);
  nameLevels(state);
}

/** Gives every configured level a bit. */
export function nameLevels(state: TrackerState): void {
  for (const { name } of state.config.levels) {
    if (state.levelBits.has(name)) continue;
    const taken = [...state.levelBits.values()].reduce((bits, bit) => bits | bit, 0);
    let bit = 1;
    while ((taken & bit) !== 0) bit <<= 1;
    if (state.levelBits.size >= MAX_LEVELS)
      throw new Error(`the ledger knows ${String(MAX_LEVELS)} names of levels already: ${name} has no room`);
    own(state).levelBits.set(name, bit);
  }
}
