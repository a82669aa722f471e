// Measures how long attempts take from announcement to durability. One mark can pass any number of
// attempts, and a report costs the same for a thousand as for ten: the number is exact, and a few
// attempts, evenly spread over the log, stand for the times of all.
import { type Effect } from "./effects.ts";
import { type LateArrivals, type Ledger, type Own, type TrackerState } from "./types.ts";

type Late = Own<LateArrivals>;

const own = ({ ledger }: TrackerState): Pick<Own<Ledger>, "late"> => ledger as Own<Ledger>;

/**
 * Those that one mark takes along were announced within a few milliseconds of each other, unless it
 * had stood still.
 */
const SAMPLES_MAX = 16;

/** The mark was there before the attempt's position was. */
export function noteLate(state: TrackerState, level: string, atMs: number): void {
  const { late: levels } = own(state);
  let late: Late | undefined = levels.get(level);
  if (late === undefined) levels.set(level, (late = { count: 0, sumMs: 0 }));
  late.count++;
  late.sumMs += Math.max(0, state.nowMs - atMs);
}

/** What came late since the last time that this was asked. */
export function publishLate(state: TrackerState, effects: Effect[]): void {
  for (const [level, late] of own(state).late as Map<string, Late>) {
    if (late.count === 0) continue;
    effects.push({ kind: "publish_lag", level, count: late.count, lagsMs: [late.sumMs / late.count] });
    late.count = 0;
    late.sumMs = 0;
  }
}

/** The last `count` that the level's mark has passed. */
export function publishPassed(state: TrackerState, level: string, count: number, effects: Effect[]): void {
  if (count === 0) return;
  const lagsMs = state.ledger.backlog
    .timesPassed(level, count, Math.min(count, SAMPLES_MAX))
    .map((atMs) => Math.max(0, state.nowMs - atMs));
  effects.push({ kind: "publish_lag", level, count, lagsMs });
}
