// The ledger: attempts that are announced or asked about, and the indexes that find them. Moving an entry from one state to
// another happens here and nowhere else; where to, is decided in placing.ts and proof.ts.
import { type EpochId, maxOffset, type TxnId } from "@highwater/protocol";
import { markIn, reachableLevels } from "./marks.ts";
import { type Effect, type Entry, type Place, type TrackerState } from "./types.ts";
import { allBits, carry, levelBit, reachedBits } from "./verdict.ts";

export function entryKey(id: TxnId, attempt: EpochId): string {
  return `${id}/${attempt}`;
}

export function newEntry(
  state: TrackerState,
  about: Pick<Entry, "id" | "attempt" | "kind" | "announced">,
): Entry {
  const key = entryKey(about.id, about.attempt);
  return {
    ...about,
    key,
    origin: null,
    state: { kind: "unknown" },
    reached: 0,
    atMs: state.nowMs,
    metadata: null,
  };
}

/** Moves an entry to a state, keeps the indexes true and saves it. */
export function enter(state: TrackerState, entry: Entry, next: Entry["state"], effects: Effect[]): void {
  // What is told anew of one that is gone is no answer to the question whether its id is settled in this history.
  if (next.kind !== "gone") state.unproven.delete(entry.key);
  state.absent.delete(entry.key);
  state.intents.delete(entry.key);
  state.adrift.delete(entry.key);
  state.finished.delete(entry.key);
  entry.state = next;
  switch (next.kind) {
    case "intent":
      state.intents.add(entry.key);
      break;
    case "unproven":
      state.unproven.add(entry.key);
      break;
    case "absent":
      state.absent.add(entry.key);
      break;
    case "gone":
    case "expired":
    case "unknown":
      state.finished.set(entry.key, state.nowMs);
      break;
    case "asked":
      return; // Nothing worth saving: after a restart it is asked again.
    case "pending":
      wait(state, entry, next.place);
      break;
  }
  if (state.entries.has(entry.key)) effects.push({ kind: "save", entry });
}

function wait(state: TrackerState, entry: Entry, place: Place): void {
  if (state.standing.kind !== "reigning" || state.standing.epoch !== place.epoch) {
    state.adrift.add(entry.key);
    return;
  }
  if (entry.reached === allBits(state)) state.finished.set(entry.key, state.nowMs);
  for (const { name } of state.config.levels) {
    if ((entry.reached & levelBit(state, name)) === 0) state.waiting.get(name)?.push(place.offset, entry);
  }
  state.highestPending = maxOffset(state.highestPending, place.offset);
}

export function drop(state: TrackerState, entry: Entry, effects: Effect[]): void {
  state.entries.delete(entry.key);
  state.unproven.delete(entry.key);
  state.absent.delete(entry.key);
  state.intents.delete(entry.key);
  state.adrift.delete(entry.key);
  state.finished.delete(entry.key);
  effects.push({ kind: "forget", key: entry.key });
}

/** The prefix property at work: pops whatever the marks have passed; what is durable everywhere leaves the ledger. */
export function settleByMarks(state: TrackerState, effects: Effect[]): void {
  const { standing } = state;
  if (standing.kind !== "reigning") return;
  for (const { name } of state.config.levels) {
    const mark = markIn(state, standing.epoch, name);
    const heap = state.waiting.get(name);
    if (mark === null || heap === undefined) continue;
    for (let entry = heap.popUpTo(mark); entry !== undefined; entry = heap.popUpTo(mark)) {
      const { state: at } = entry;
      // Met again after it moved on: its new place is in the heap as well, or it does not wait any more.
      if (state.entries.get(entry.key) !== entry || at.kind !== "pending") continue;
      if (at.place.epoch !== standing.epoch || at.place.offset > mark) continue;
      entry.reached |= levelBit(state, name);
      if (entry.reached === allBits(state)) complete(state, entry, effects);
    }
  }
}

/** Durable everywhere: whoever asks later is answered by the token and the marks, unless a look-up had its part in it. */
export function complete(state: TrackerState, entry: Entry, effects: Effect[]): void {
  if (isToldByToken(state, entry)) {
    drop(state, entry, effects);
    return;
  }
  if (!state.finished.has(entry.key)) state.finished.set(entry.key, state.nowMs);
  effects.push({ kind: "save", entry });
}

function isToldByToken(state: TrackerState, { origin, attempt }: Entry): boolean {
  if (origin?.epoch !== attempt) return false;
  if (state.ancestry.at(-1)?.id === attempt) return true;
  return carry(state, origin) !== null && reachedBits(state, origin) === allBits(state);
}

/** Drops what has moved on from the heaps, once that is most of what they hold: a level may be out of reach for long. */
export function tidyHeaps(state: TrackerState): void {
  const { standing } = state;
  if (standing.kind !== "reigning") return;
  for (const [name, heap] of state.waiting) {
    if (heap.size <= 2 * state.entries.size + MIN_TIDY) continue;
    heap.retain((offset, entry) => {
      const { state: at, reached } = entry;
      if (state.entries.get(entry.key) !== entry || at.kind !== "pending") return false;
      if ((reached & levelBit(state, name)) !== 0) return false;
      return at.place.epoch === standing.epoch && at.place.offset === offset;
    });
  }
}

const MIN_TIDY = 1_024;

export interface Exposure {
  /** Committed and not durable at the level, as far as this tracker's ledger knows. */
  readonly count: number;
  readonly oldestOffset: bigint | null;
}

export function exposure(state: TrackerState, level: string): Exposure {
  const heap = state.waiting.get(level);
  return { count: heap?.size ?? 0, oldestOffset: heap?.peek()?.offset ?? null };
}

/** True while knowing positions a little sooner would settle something: an entry waits at a level that can be reached. */
export function wantsPositions(state: TrackerState): boolean {
  if (state.absent.size > 0) return true;
  return reachableLevels(state).some((level) => (state.waiting.get(level)?.size ?? 0) > 0);
}
