// The tracker's core: a pure state machine. Events in, effects out; no clock, no I/O.
export * from "./effects.ts";
export * from "./events.ts";
export * from "./types.ts";
export {
  initialState,
  restore,
  restoreWaiting,
  type Restored,
  type SavedEntry,
  type SavedWaiting,
} from "./state.ts";
export { Tracker } from "./tracker.ts";
export { currentEpoch, currentRecord } from "./topology.ts";
export {
  type Ground,
  groundOf,
  isUnchanged,
  judge,
  type Judgement,
  knownMark,
  reachedBits,
  type Token,
} from "./verdict.ts";
export { judgeHeld } from "./held.ts";
export { markIn, marksText, reachableLevels } from "./marks.ts";
export { entryKey } from "./entry-key.ts";
export { forEachPending, heldCount, intentCount, pendingAt, wantsPositions } from "./ledger.ts";
export { unlisted } from "./departed.ts";
export { type Waiting } from "./waiting-table.ts";
export { exposure } from "./exposure.ts";
export { levelNames } from "./levels.ts";
export { inDoubt, waitingLosses } from "./proof.ts";
export { asksForCandidates, whyNotSynchronous } from "./synchronous.ts";
