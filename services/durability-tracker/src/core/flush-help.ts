// Asks for flush help: no level can have a commit before the primary has flushed it.
import { type EpochId } from "@highwater/protocol";
import { currentEpoch } from "./topology.ts";
import { type Effect } from "./effects.ts";
import { type Own, type Topology, type TrackerState } from "./types.ts";

/** The gateway that committed has its own flush on the way; the tracker helps after this time. */
const HELP_AFTER_MS = 20;

const own = ({ topology }: TrackerState): Pick<Own<Topology>, "unflushedSinceMs" | "helping"> => topology;

/**
 * Keeps exactly one flush in flight, and only while something that is pending is not on the
 * primary's disk.
 */
export function helpFlush(state: TrackerState, effects: Effect[]): void {
  const { standing, primaryFlushed } = state.topology;
  const { highestPending } = state.ledger;
  const help = own(state);
  if (standing.kind !== "following") return;
  if (primaryFlushed !== null && highestPending <= primaryFlushed) {
    help.unflushedSinceMs = null;
    return;
  }
  if (highestPending === 0n) return;
  help.unflushedSinceMs ??= state.nowMs;
  if (help.helping || state.nowMs - help.unflushedSinceMs < HELP_AFTER_MS) return;
  help.helping = true;
  effects.push({ kind: "help_flush", node: standing.node, epoch: standing.epoch });
}

/**
 * The help of an earlier epoch may be hanging on a dead node; its end says nothing of the one in
 * flight now.
 */
export function endHelp(state: TrackerState, epoch: EpochId | undefined): void {
  if (epoch === undefined || epoch === currentEpoch(state)) own(state).helping = false;
}

/** A new epoch. */
export function forgetHelp(state: TrackerState): void {
  const help = own(state);
  help.unflushedSinceMs = null;
  help.helping = false;
}
