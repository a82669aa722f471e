// The tracker's core: a pure state machine. Events in, effects out; no clock, no I/O.
export * from "./types.ts";
export { initialState, restore, type Restored } from "./state.ts";
export { step } from "./step.ts";
export { judge, judgeEntry, type Judgement } from "./verdict.ts";
export { markIn, reachableLevels } from "./marks.ts";
export { entryKey, exposure, wantsPositions, type Exposure } from "./ledger.ts";
