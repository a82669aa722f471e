// Levels as bits. A name keeps its bit for as long as anything on disk may say it, whatever the configuration becomes.
import { type TrackerState } from "./types.ts";

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

/** Gives every configured level a bit. True when one is new. */
export function nameLevels(state: TrackerState): boolean {
  const before = state.levelBits.size;
  for (const { name } of state.config.levels) {
    if (state.levelBits.has(name)) continue;
    const taken = [...state.levelBits.values()].reduce((bits, bit) => bits | bit, 0);
    let bit = 1;
    while ((taken & bit) !== 0) bit <<= 1;
    if (state.levelBits.size >= MAX_LEVELS)
      throw new Error(`the ledger knows ${String(MAX_LEVELS)} names of levels already: ${name} has no room`);
    state.levelBits.set(name, bit);
  }
  return state.levelBits.size > before;
}
