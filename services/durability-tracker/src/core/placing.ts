// Places an entry by its evidence: it waits for marks, it is in doubt until its receipt is looked
// up, or it cannot be judged yet.
import { type EpochId } from "@highwater/protocol";
import { Fates } from "./fates.ts";
import { beginWaiting, enter, goOnAt, reach, reportReached } from "./ledger.ts";
import { noteEnded } from "./old-epochs.ts";
import { reappear } from "./proof.ts";
import { doubt, forgetLookUps } from "./proofs.ts";
import { currentEpoch, currentRecord } from "./topology.ts";
import { type Effect } from "./effects.ts";
import { type LedgerEntry, type LogPosition, type TrackerState } from "./types.ts";
import { hasReappeared, keptPlace } from "./verdict.ts";

/** Moves an entry to the state that its evidence demands: waiting for marks, or to be looked up. */
export function reposition(
  state: TrackerState,
  entry: LedgerEntry,
  position: LogPosition,
  effects: Effect[],
  fates = new Fates(state),
): void {
  const before = entry.reached;
  if (currentEpoch(state) !== position.epoch) reach(entry, fates.reachedBits(position));
  if (state.topology.standing.kind !== "following") {
    enter(state, entry, { kind: "pending", position }, effects);
    return;
  }
  // The history to which it had been carried over may have been given up, while its original one
  // was kept.
  const carried = fates.carry(position) ?? (entry.origin === null ? null : fates.carry(entry.origin));
  if (carried !== null) {
    // No mark of this epoch passes it at the levels that have it already: what follows from such a
    // mark follows here.
    reportReached(state, entry, before, effects);
    goOnAt(state, entry, carried, effects, fates);
  } else if (!fates.hasEnded(position.epoch)) {
    // An epoch that is unknown here, or not outranked, may be newer than the one that this tracker
    // follows, so there is no verdict yet.
    enter(state, entry, { kind: "pending", position }, effects);
  } else if (entry.kind === "read") proveRead(state, entry, position, effects);
  else enter(state, entry, { kind: "unproven" }, effects);
}

/**
 * Judges a read-only transaction, which left no receipt: rows that it read beyond the fork may be
 * lost.
 */
function proveRead(state: TrackerState, entry: LedgerEntry, position: LogPosition, effects: Effect[]): void {
  const current = currentRecord(state);
  if (current === undefined) return;
  const start: LogPosition = {
    epoch: current.id as EpochId,
    offset: BigInt(current.startOffset) as LogPosition["offset"],
  };
  const kept = keptPlace(state, position) ?? keptPlace(state, entry.origin ?? position);
  if (kept !== null) goOnAt(state, entry, kept, effects);
  else enter(state, entry, { kind: "absent", asOf: start, sinceMs: state.nowMs, retriedIn: null }, effects);
}

/**
 * Places entries that could not be placed before: their epoch was unknown, or no epoch was current.
 */
export function repositionUnplaced(state: TrackerState, effects: Effect[]): void {
  if (state.topology.standing.kind !== "following") return;
  noteEnded(state, effects);
  const fates = new Fates(state);
  for (const key of [...state.ledger.unplaced]) {
    const entry = state.ledger.entries.get(key);
    if (entry?.state.kind === "pending") reposition(state, entry, entry.state.position, effects, fates);
  }
}

/**
 * Places all entries in a new epoch: judges again what is not final, and looks once more for what
 * was lost.
 */
export function repositionAll(state: TrackerState, effects: Effect[]): void {
  noteEnded(state, effects);
  forgetLookUps(state);
  beginWaiting(state, effects);
  const fates = new Fates(state);
  for (const entry of [...state.ledger.entries.values()]) {
    const { state: at, origin } = entry;
    switch (at.kind) {
      case "pending":
        if (origin === null) enter(state, entry, { kind: "unproven" }, effects);
        else reposition(state, entry, at.position, effects, fates);
        break;
      case "intent":
        // Its gateway may still withdraw it, or announce its position; see age().
        break;
      case "asked":
      case "absent":
        if (entry.kind === "read" && origin !== null) reposition(state, entry, origin, effects, fates);
        else enter(state, entry, { kind: "unproven" }, effects);
        break;
      case "lost":
        if (origin !== null && hasReappeared(state, entry, origin)) reappear(state, entry, effects);
        // It may have come back with an old primary, and its id must never commit in this history
        // either.
        if (entry.kind === "write") doubt(state, entry.key);
        break;
      case "unproven":
      case "expired":
      case "unknown":
        break;
    }
  }
}
