// What gateways announce and what clients present: from words about an attempt to an entry of the ledger.
import { type TrackerEvent } from "./types.ts";
import { complete, drop, enter, entryKey, newEntry } from "./ledger.ts";
import { placeAgain } from "./placing.ts";
import { reappear, tell } from "./proof.ts";
import { type AnnouncedItem, type Effect, type Entry, type Place, type TrackerState } from "./types.ts";
import { allBits, hasReappeared, reachedBits } from "./verdict.ts";

type EventOf<K extends TrackerEvent["kind"]> = Extract<TrackerEvent, { kind: K }>;

export function takeAnnouncements(state: TrackerState, event: EventOf<"announced">, effects: Effect[]): void {
  for (const item of event.items) takeOne(state, item, effects);
}

function takeOne(state: TrackerState, item: AnnouncedItem, effects: Effect[]): void {
  const known = state.entries.get(entryKey(item.id, item.epoch));
  switch (item.kind) {
    case "intent":
      if (known === undefined) takeIntent(state, item, effects);
      else if (known.metadata === null && item.metadata !== undefined) {
        // Its position was faster.
        known.metadata = item.metadata;
        effects.push({ kind: "save", entry: known });
      }
      return;
    case "position": {
      if (item.offset === undefined) return;
      const place = { epoch: item.epoch, offset: item.offset };
      if (known === undefined) {
        const entry = newEntry(state, { id: item.id, attempt: item.epoch, kind: "write", announced: true });
        entry.metadata = item.metadata ?? null;
        entry.origin = place;
        state.entries.set(entry.key, entry);
        placeAgain(state, entry, place, effects);
        return;
      }
      known.announced = true;
      learnPlace(state, known, place, effects);
      return;
    }
    case "withdrawn":
      if (known?.state.kind === "intent") drop(state, known, effects);
  }
}

function takeIntent(state: TrackerState, item: AnnouncedItem, effects: Effect[]): void {
  const entry = newEntry(state, { id: item.id, attempt: item.epoch, kind: "write", announced: true });
  entry.metadata = item.metadata ?? null;
  state.entries.set(entry.key, entry);
  enter(state, entry, { kind: "intent" }, effects);
}

/** Somebody holds a token that only a look-up can judge: from now on the ledger holds it too. */
export function takeToken(state: TrackerState, event: EventOf<"token_presented">, effects: Effect[]): void {
  const known = state.entries.get(entryKey(event.id, event.attempt));
  if (known !== undefined) {
    learnPlace(state, known, event.place, effects);
    return;
  }
  const entry = newEntry(state, {
    id: event.id,
    attempt: event.attempt,
    kind: event.tokenKind,
    announced: false,
  });
  entry.origin = event.place;
  state.entries.set(entry.key, entry);
  placeAgain(state, entry, event.place, effects);
}

/**
 * Where an attempt committed also tells at which levels it was durable there, and what was promised then binds. Only an
 * intent is moved by it; an attempt that is being looked up, or has its verdict, is past it.
 */
function learnPlace(state: TrackerState, entry: Entry, place: Place, effects: Effect[]): void {
  // A look-up alone has found it somewhere in a later epoch; its own token says where it committed.
  if (entry.origin === null || (entry.origin.epoch !== entry.attempt && place.epoch === entry.attempt))
    entry.origin = place;
  const reached = reachedBits(state, place);
  const learned = reached & ~entry.reached;
  entry.reached |= reached;
  if (entry.state.kind === "intent") {
    placeAgain(state, entry, place, effects);
    return;
  }
  effects.push({ kind: "save", entry });
  if (entry.state.kind === "pending" && entry.reached === allBits(state)) complete(state, entry, effects);
  // Told as lost, and its place shows that it is here again: broken at every level.
  if (hasReappeared(state, entry, place)) reappear(state, entry, effects);
  if (entry.state.kind !== "gone" || entry.state.reappeared || learned === 0) return;
  // Told as lost, and now it shows that it had been durable: one of the two words is broken.
  enter(state, entry, { ...entry.state, broken: entry.state.broken | learned }, effects);
  tell(state, entry, effects);
}
