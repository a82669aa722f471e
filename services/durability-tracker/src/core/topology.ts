// The current epoch, and what is known about the others. Owns `standing`, the records and the
// ancestry; nodes.ts owns the reports of nodes, and marks.ts the marks.
import { type EpochId, type EpochRecord } from "@highwater/protocol";
import { type Own, type Topology, type TrackerState } from "./types.ts";

const own = ({
  topology,
}: TrackerState): Pick<Own<Topology>, "standing" | "epochSinceMs" | "seenEnd" | "epochs" | "ancestry"> =>
  topology;

/** The current epoch, or the last one while there is none. */
export function currentEpoch(state: TrackerState): EpochId | null {
  return (currentRecord(state)?.id as EpochId | undefined) ?? null;
}

export function currentRecord({ topology }: TrackerState): EpochRecord | undefined {
  return topology.ancestry.at(-1);
}

/** No node has authority, or two claim it. */
export function unsettle(state: TrackerState, reason: string, split = false): void {
  own(state).standing = { kind: "unsettled", reason, split };
}

export function follow(state: TrackerState, epoch: EpochId, node: string): void {
  own(state).standing = { kind: "following", epoch, node };
}

/** Begins another epoch. */
export function beginEpoch(state: TrackerState, epoch: EpochId): void {
  const topology = own(state);
  topology.seenEnd = currentEpoch(state);
  topology.ancestry = topology.epochs.ancestry(epoch).reverse();
  topology.epochSinceMs = state.nowMs;
}

export function addRecords(state: TrackerState, records: readonly EpochRecord[]): void {
  own(state).epochs.add(records);
}

/** Adds the parent of an epoch whose record was never seen. False: it was known. */
export function addParent(state: TrackerState, epoch: EpochId, parent: EpochId): boolean {
  return own(state).epochs.learnParent(epoch, parent);
}
