// Reports a level as stalled when its mark stands still while transactions wait for it, until the
// mark moves or none wait.
import { type EpochId } from "@highwater/protocol";
import { pendingAt } from "./ledger.ts";
import { levelNames } from "./levels.ts";
import { markIn } from "./marks.ts";
import { type Effect } from "./effects.ts";
import { type Own, type Topology, type TrackerState } from "./types.ts";

const own = ({ topology }: TrackerState): Pick<Own<Topology>, "stalls"> => topology as Own<Topology>;

export function noticeStalls(state: TrackerState, effects: Effect[]): void {
  const { standing } = state.topology;
  const { config, nowMs } = state;
  const { stalls } = own(state);
  if (standing.kind !== "following") return;
  for (const { name } of config.levels) {
    const mark = markIn(state, standing.epoch, name);
    const pending = pendingAt(state, name);
    let watch = stalls.get(name);
    if (watch === undefined)
      stalls.set(name, (watch = { epoch: standing.epoch, mark, sinceMs: nowMs, isReported: false }));
    const stands = watch.epoch === standing.epoch && watch.mark === mark && pending > 0;
    if (!stands) {
      // In another epoch its first mark is what moves it.
      const moved = watch.epoch === standing.epoch || mark !== null || pending === 0;
      if (watch.isReported && moved) publishStall(state, effects, { name, pending, isStalled: false });
      const isReported = watch.isReported && !moved;
      stalls.set(name, { epoch: standing.epoch, mark, sinceMs: nowMs, isReported });
    } else if (!watch.isReported && nowMs - watch.sinceMs >= config.stallAfterMs) {
      stalls.set(name, { ...watch, isReported: true });
      publishStall(state, effects, { name, pending, isStalled: true });
    }
  }
}

/** Other levels than before. */
export function forgetStalls(state: TrackerState): void {
  const { stalls } = own(state);
  for (const name of stalls.keys()) if (!levelNames(state).includes(name)) stalls.delete(name);
}

function publishStall(
  state: TrackerState,
  effects: Effect[],
  { name, pending, isStalled }: { name: string; pending: number; isStalled: boolean },
): void {
  if (state.topology.standing.kind !== "following") return;
  const { epoch } = state.topology.standing;
  effects.push({
    kind: "publish_stall",
    isStalled,
    level: name,
    epoch,
    offset: markIn(state, epoch, name) ?? startOf(state, epoch),
    pending,
  });
}

/** Nothing of the epoch has reached the level, so its mark stands where the epoch begins. */
function startOf(state: TrackerState, epoch: EpochId): bigint {
  return BigInt(state.topology.epochs.get(epoch)?.startOffset ?? "0");
}
