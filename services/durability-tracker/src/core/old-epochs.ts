// Knows how long ago each epoch ended, as far as verdicts about it can have left the ledger since.
import { type EpochId } from "@highwater/protocol";
import { type Effect } from "./effects.ts";
import { type Own, type Topology, type TrackerState } from "./types.ts";
import { hasEnded } from "./verdict.ts";

const own = ({ topology }: TrackerState): Pick<Own<Topology>, "endedAtMs"> => topology as Own<Topology>;

/** Of an epoch that this process knows from the disk. */
export function restoreEnded(state: TrackerState, epoch: EpochId, atMs: number): void {
  own(state).endedAtMs.set(epoch, atMs);
}

/**
 * Called before anything of a new epoch, or of an epoch that was just learned, is reported lost.
 */
export function noteEnded(state: TrackerState, effects: Effect[]): void {
  const { endedAtMs } = own(state);
  const { nowMs } = state;
  const { epochs } = state.topology;
  for (const epoch of [...epochs.ids(), ...epochs.unseen()]) {
    const atMs = endedAtMs.get(epoch);
    if (hasEnded(state, epoch)) endedAtMs.set(epoch, atMs ?? nowMs);
    else {
      // It is current again: its end is yet to come.
      endedAtMs.delete(epoch);
      if (atMs === -Infinity) effects.push({ kind: "save_old_epoch", epoch, isOld: false });
    }
  }
}

/** Called before verdicts leave: an epoch is old from then on, also after a restart. */
export function ageEpochs(state: TrackerState, effects: Effect[]): void {
  const { config, nowMs } = state;
  const { endedAtMs } = own(state);
  for (const [epoch, atMs] of endedAtMs) {
    if (atMs === -Infinity || nowMs - atMs < config.keepVerdictMs) continue;
    endedAtMs.set(epoch, -Infinity);
    effects.push({ kind: "save_old_epoch", epoch, isOld: true });
  }
}
