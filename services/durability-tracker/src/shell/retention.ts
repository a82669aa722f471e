// Creates partitions for the receipts of the next ids, and removes receipts that are not needed any
// more.
import { type EpochId } from "@highwater/protocol";
import { type Clock, sleep } from "@highwater/runtime";
import { type Log } from "@highwater/service";
import { type RetentionReport, type Store } from "@highwater/store";
import { markIn, type TrackerState } from "../core/index.ts";
import { type ReadExpiryTime } from "./expiry-clock.ts";

export interface RetentionOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly retentionMs: number;
  readonly everyMs: number;
  readonly state: () => TrackerState;
  readonly readTime: ReadExpiryTime;
  readonly signal: AbortSignal;
}

/** Between two looks at the current epoch, and before a round that has failed is tried again. */
const LOOK_MS = 1_000;

interface Noted extends RetentionReport {
  /** By the expiry's clock. */
  readonly timeMs: number;
}

interface Round {
  readonly epoch: EpochId;
  readonly startedMs: number;
  state: "running" | "done" | "failed";
}

/**
 * Drops receipts only once they are durable at every level. A round notes where the log ended. A
 * later round may drop what is a whole retention older than that round, if by then every mark has
 * passed the noted position and the clocks agreed both times.
 */
export async function runRetention(options: RetentionOptions): Promise<void> {
  const { store, clock, log, retentionMs, everyMs, signal } = options;
  let noted: Noted | null = null;
  let latest = null as Round | null;

  const run = async (round: Round, node: string, isFirst: boolean): Promise<void> => {
    try {
      // The first in an epoch only makes room, and waits for no other node's clock.
      const timeMs = isFirst ? null : await options.readTime();
      const before: Noted | null =
        timeMs !== null && noted !== null && isDurableEverywhere(options.state(), noted) ? noted : null;
      const expireBeforeMs = before === null ? null : before.timeMs - retentionMs;
      const report = await store.maintain(node, { expireBeforeMs });
      if (latest !== round) return;
      if (timeMs === null) noted = null;
      else if (before !== null || noted === null || noted.position.epoch !== report.position.epoch)
        noted = { ...report, timeMs };
      round.state = "done";
    } catch (cause) {
      round.state = "failed";
      if (!signal.aborted) log.warn("receipts_not_maintained", { cause: String(cause) });
    }
  };

  while (!signal.aborted) {
    const { standing } = options.state().topology;
    const startedMs = clock.monotonicMs();
    if (standing.kind === "following") {
      const { node, epoch } = standing;
      // A new primary may be far behind, or an old backup: its room for receipts may end before
      // now. A round that hangs at the old one must not hold this one up.
      const isFirst = latest?.epoch !== epoch;
      if (isFirst || isDue(latest, startedMs - everyMs)) {
        latest = { epoch, startedMs, state: "running" };
        void run(latest, node, isFirst);
      }
    }
    await sleep(clock, Math.min(everyMs, LOOK_MS), signal);
  }
}

function isDue(round: Round | null, sinceMs: number): boolean {
  return round?.state === "failed" || (round?.state === "done" && round.startedMs <= sinceMs);
}

function isDurableEverywhere(state: TrackerState, noted: RetentionReport): boolean {
  const { epoch, offset } = noted.position;
  if (state.topology.standing.kind !== "following" || state.topology.standing.epoch !== epoch) return false;
  return state.config.levels.every(({ name }) => {
    const mark = markIn(state, epoch, name);
    return mark !== null && mark >= offset;
  });
}
