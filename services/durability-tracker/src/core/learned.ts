// Marks of an ended epoch that this tracker learns from others: from another tracker, with the
// record of the next epoch, or from the log of a survivor. They bind this tracker as well.
import { type EpochId } from "@highwater/protocol";
import { countEntry } from "./exposure.ts";
import { enter, reach } from "./ledger.ts";
import { reposition } from "./placing.ts";
import { reappear, publishLoss } from "./proof.ts";
import { type Effect } from "./effects.ts";
import { type LedgerEntry, type LogPosition, type TrackerState } from "./types.ts";
import { brokenBits, hasReappeared, reachedBits } from "./verdict.ts";

/** Marks of the epochs have been raised: of everything in them, what they promise is learned. */
export function learnPromises(state: TrackerState, epochs: ReadonlySet<EpochId>, effects: Effect[]): void {
  for (const entry of epochs.size === 0 ? [] : [...state.ledger.entries.values()])
    if (entry.origin !== null && epochs.has(entry.origin.epoch)) learn(state, entry, entry.origin, effects);
}

function learn(state: TrackerState, entry: LedgerEntry, origin: LogPosition, effects: Effect[]): void {
  const learned = reachedBits(state, origin) & ~entry.reached;
  // Not reported yet: what was on any disk shows where it belongs.
  if (learned !== 0 && entry.state.kind === "absent" && entry.kind === "read")
    reposition(state, entry, origin, effects);
  // Reported lost, and kept: it was on a disk, and the current history has followed the log beyond
  // it.
  if (hasReappeared(state, entry, origin)) reappear(state, entry, effects);
  // Reported lost: where the level promises nothing about what happened, there is no word that it
  // could break. Not reported yet: it was durable there, as it is for a tracker that knew it in
  // time.
  const { state: at } = entry;
  const bits = at.kind === "lost" ? brokenBits(state, { ...entry, reached: learned }) : learned;
  if (bits === 0) return;
  reach(entry, bits);
  if (at.kind === "lost" && !at.reappeared) {
    // Reported lost, and another tracker had reported it durable: one of the two verdicts is
    // broken.
    enter(state, entry, { ...at, broken: at.broken | bits }, effects);
    publishLoss(state, entry, effects);
  } else {
    countEntry(state, entry);
    effects.push({ kind: "save", entry });
  }
}
