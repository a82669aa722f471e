// Changes the levels while the tracker runs. Published marks stay: a level whose rule has changed
// keeps its mark, which was true by the old rule, and rises by the new one.
import { countAnew } from "./exposure.ts";
import { relevel, settleByMarks } from "./ledger.ts";
import { setLevels } from "./levels.ts";
import { advanceMarks } from "./marks.ts";
import { forgetStalls } from "./stalls.ts";
import { type Effect } from "./effects.ts";
import { type TrackerEvent } from "./events.ts";
import { type TrackerState } from "./types.ts";

export function reconfigure(
  state: TrackerState,
  event: Extract<TrackerEvent, { kind: "configured" }>,
  effects: Effect[],
): void {
  setLevels(state, event);
  effects.push({ kind: "save_levels" });
  relevel(state, effects);
  forgetStalls(state);
  countAnew(state);
  advanceMarks(state, effects);
  settleByMarks(state, effects);
}
