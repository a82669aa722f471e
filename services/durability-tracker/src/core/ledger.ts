// The ledger: attempts that are announced or asked about, and the indexes that find them. Moving an entry from one state to
// another happens here and nowhere else; where to, is decided in placing.ts and proof.ts.
import { type EpochId, maxOffset, type OwnedId, type TxnId } from "@highwater/protocol";
import { type OwnerAccount, type Source } from "./accounts.ts";
import { entryKey } from "./entry-key.ts";
import { countEntry, expose, listed, ownerAccount } from "./exposure.ts";
import { noteLate, publishLate, publishPassed } from "./lags.ts";
import { hasAll, levelBit } from "./levels.ts";
import { markIn, reachableLevels } from "./marks.ts";
import { waitsForManager } from "./synchronous.ts";
import {
  type BecameDurable,
  type Effect,
  type LedgerEntry,
  type LogPosition,
  type TrackerState,
} from "./types.ts";
import { carry, reachedBits } from "./verdict.ts";
import { type Waiting } from "./waiting-table.ts";

export function newEntry(
  state: TrackerState,
  about: Pick<LedgerEntry, "attempt" | "kind" | "announced"> & OwnedId & Partial<Pick<LedgerEntry, "source">>,
): LedgerEntry {
  const { owner, source = null, ...rest } = about;
  return {
    ...rest,
    key: entryKey(about, about.attempt),
    owner: ownerAccount(state, owner),
    source,
    isExposed: false,
    hasOtherTokens: false,
    origin: null,
    state: { kind: "unknown" },
    reached: 0,
    atMs: state.nowMs,
    announcers: [],
    endsWithinMs: 0,
    metadata: null,
  };
}

/** Moves an entry to a state, keeps the indexes true and saves it. */
export function enter(
  state: TrackerState,
  entry: LedgerEntry,
  next: LedgerEntry["state"],
  effects: Effect[],
): void {
  // A new report of one that is lost is no answer to the question whether its id is settled in this
  // history.
  if (next.kind !== "lost") {
    state.unproven.delete(entry.key);
    state.held.delete(entry.key);
  }
  state.absent.delete(entry.key);
  state.intents.delete(entry.key);
  state.unplaced.delete(entry.key);
  state.finished.delete(entry.key);
  entry.state = next;
  file(state, entry);
  // A question is nothing worth saving: after a restart it is asked again.
  if (next.kind !== "asked" && state.entries.has(entry.key)) effects.push({ kind: "save", entry });
}

/** Puts an entry into the indexes that its state belongs to. It is in none that it does not belong to. */
export function file(state: TrackerState, entry: LedgerEntry): void {
  switch (entry.state.kind) {
    case "intent":
      state.intents.add(entry.key);
      break;
    case "unproven":
      state.unproven.add(entry.key);
      break;
    case "absent":
      state.absent.add(entry.key);
      break;
    case "lost":
    case "expired":
    case "unknown":
      state.finished.set(entry.key, state.nowMs);
      break;
    case "asked":
      break;
    case "pending":
      wait(state, entry, entry.state.position);
      break;
  }
  countEntry(state, entry);
}

function wait(state: TrackerState, entry: LedgerEntry, position: LogPosition): void {
  if (state.standing.kind !== "following" || state.standing.epoch !== position.epoch) {
    state.unplaced.add(entry.key);
    return;
  }
  if (hasAll(state, entry.reached)) state.finished.set(entry.key, state.nowMs);
  for (const { name } of state.config.levels) {
    if ((entry.reached & levelBit(state, name)) === 0) state.waiting.get(name)?.push(position.offset, entry);
  }
  state.highestPending = maxOffset(state.highestPending, position.offset);
}

/** Keeps the number of entries true that only tokens have named. */
export function countPresented(state: TrackerState, entry: LedgerEntry, by: 1 | -1): void {
  if (entry.announced) return;
  const { owner } = entry.owner;
  const count = (state.presented.get(owner) ?? 0) + by;
  if (count > 0) state.presented.set(owner, count);
  else state.presented.delete(owner);
}

export function drop(state: TrackerState, entry: LedgerEntry, effects: Effect[]): void {
  if (state.entries.delete(entry.key)) countPresented(state, entry, -1);
  state.unproven.delete(entry.key);
  state.held.delete(entry.key);
  state.absent.delete(entry.key);
  state.intents.delete(entry.key);
  state.unplaced.delete(entry.key);
  state.finished.delete(entry.key);
  countEntry(state, entry);
  effects.push({ kind: "forget", key: entry.key });
}

/** True when attempts of the epoch wait for marks and for nothing else, as far as this tracker knows. */
export function isQueued(state: TrackerState, attempt: EpochId): boolean {
  const { standing, backlog } = state;
  return backlog.epoch === attempt && (standing.kind !== "following" || standing.epoch === attempt);
}

/** Puts an attempt into the backlog, unless every mark has passed it already. */
export function queue(state: TrackerState, item: Waiting, effects: Effect[]): void {
  const { backlog, config } = state;
  state.highestPending = maxOffset(state.highestPending, item.offset);
  let isDone = true;
  for (const { name } of config.levels)
    if (backlog.hasReached(item, name)) {
      noteLate(state, name, item.atMs);
      if (state.publishesDurable) publishDurable(state, name, [item], effects);
    } else isDone = false;
  if (isDone) return;
  // An intent's accounts may have been closed since.
  const owner = ownerAccount(state, item.owner.owner);
  const source = item.source === null ? null : listed(state, item.source);
  backlog.add({ ...item, owner, source });
  if (!backlog.hasReached(item, config.exposureLevel)) expose(state, 1, owner, source);
  effects.push({ kind: "save_waiting", item });
}

/** Empties the backlog into entries, whose places are still to be found. */
export function unqueueAll(state: TrackerState): LedgerEntry[] {
  const { backlog, config } = state;
  const { epoch } = backlog;
  const entries: LedgerEntry[] = [];
  for (const item of backlog) {
    if (!backlog.hasReached(item, config.exposureLevel)) expose(state, -1, item.owner, item.source);
    if (epoch !== null) entries.push(entryOf(state, epoch, item));
  }
  return entries;
}

function entryOf(state: TrackerState, attempt: EpochId, item: Waiting): LedgerEntry {
  const { id, offset, atMs, owner, source, metadata } = item;
  const about = { id, attempt, kind: "write", announced: true, owner: owner.owner, source } as const;
  const entry = newEntry(state, about);
  const position = { epoch: attempt, offset };
  entry.origin = position;
  entry.atMs = atMs;
  entry.metadata = metadata;
  entry.state = { kind: "pending", position };
  for (const { name } of state.config.levels)
    if (state.backlog.hasReached(item, name)) entry.reached |= levelBit(state, name);
  state.entries.set(entry.key, entry);
  return entry;
}

/** The prefix property at work: pops whatever the marks have passed; what is durable everywhere leaves the ledger. */
export function settleByMarks(state: TrackerState, effects: Effect[]): void {
  const { standing } = state;
  if (standing.kind !== "following") return;
  publishLate(state, effects);
  settleBacklog(state, standing.epoch, effects);
  for (const { name } of state.config.levels) {
    const durable: LedgerEntry[] = [];
    const lagsMs: number[] = [];
    const mark = markIn(state, standing.epoch, name);
    const heap = state.waiting.get(name);
    if (mark === null || heap === undefined) continue;
    for (let entry = heap.popUpTo(mark); entry !== undefined; entry = heap.popUpTo(mark)) {
      const { state: at } = entry;
      // Met again after it moved on: its new place is in the heap as well, or it does not wait any more.
      if (state.entries.get(entry.key) !== entry || at.kind !== "pending") continue;
      if (at.position.epoch !== standing.epoch || at.position.offset > mark) continue;
      if ((entry.reached & levelBit(state, name)) === 0 && entry.kind === "write") {
        durable.push(entry);
        if (entry.announced) lagsMs.push(Math.max(0, state.nowMs - entry.atMs));
      }
      entry.reached |= levelBit(state, name);
      countEntry(state, entry);
      if (hasAll(state, entry.reached)) complete(state, entry, effects);
    }
    if (lagsMs.length > 0) effects.push({ kind: "publish_lag", level: name, count: lagsMs.length, lagsMs });
    if (state.publishesDurable) publishDurable(state, name, durable, effects);
  }
}

function settleBacklog(state: TrackerState, epoch: EpochId, effects: Effect[]): void {
  const { backlog, config } = state;
  if (backlog.epoch !== epoch) return;
  for (const { name } of config.levels) {
    const mark = markIn(state, epoch, name);
    if (mark === null) continue;
    if (state.publishesDurable) publishDurable(state, name, backlog.upTo(name, mark), effects);
    const isCounted = name === config.exposureLevel;
    const leave = (owner: OwnerAccount, source: Source | null): void => {
      expose(state, -1, owner, source);
    };
    const passed = backlog.advance(name, mark, isCounted ? leave : undefined);
    publishPassed(state, name, passed, effects);
  }
  const through = backlog.settle();
  if (through !== null) effects.push({ kind: "forget_waiting", through });
}

function publishDurable(
  state: TrackerState,
  level: string,
  passed: readonly (Waiting | LedgerEntry)[],
  effects: Effect[],
): void {
  if (passed.length === 0) return;
  const currentEpoch = state.backlog.epoch ?? ("" as EpochId);
  const items = passed.map((each): BecameDurable => {
    const { id, metadata } = each;
    const owner = each.owner.owner;
    return "attempt" in each
      ? { id, attempt: each.attempt, origin: each.origin, owner, metadata }
      : { id, attempt: currentEpoch, origin: { epoch: currentEpoch, offset: each.offset }, owner, metadata };
  });
  effects.push({ kind: "publish_durable", level, items });
}

/**
 * Durable everywhere: a later question is answered by the token and the marks, unless a look-up had
 * its part in it, or another token was answered by what is known of this one.
 */
export function complete(state: TrackerState, entry: LedgerEntry, effects: Effect[]): void {
  if (isKnownByToken(state, entry)) {
    drop(state, entry, effects);
    return;
  }
  if (!state.finished.has(entry.key)) state.finished.set(entry.key, state.nowMs);
  effects.push({ kind: "save", entry });
}

function isKnownByToken(state: TrackerState, { origin, attempt, hasOtherTokens }: LedgerEntry): boolean {
  if (origin?.epoch !== attempt || hasOtherTokens) return false;
  if (state.ancestry.at(-1)?.id === attempt) return true;
  return carry(state, origin) !== null && hasAll(state, reachedBits(state, origin));
}

/** Drops what has moved on from the heaps, once that is most of what they hold: a level may be out of reach for long. */
export function tidyHeaps(state: TrackerState): void {
  const { standing } = state;
  if (standing.kind !== "following") return;
  for (const [name, heap] of state.waiting) {
    if (heap.size <= 2 * state.entries.size + MIN_TIDY) continue;
    heap.retain((offset, entry) => {
      const { state: at, reached } = entry;
      if (state.entries.get(entry.key) !== entry || at.kind !== "pending") return false;
      if ((reached & levelBit(state, name)) !== 0) return false;
      return at.position.epoch === standing.epoch && at.position.offset === offset;
    });
  }
}

const MIN_TIDY = 1_024;

/** How many attempts wait at the level, as far as this tracker's ledger knows. */
export function pendingAt(state: TrackerState, level: string): number {
  return (state.waiting.get(level)?.size ?? 0) + state.backlog.pendingAt(level);
}

/** Attempts in the ledger. */
export function heldCount(state: TrackerState): number {
  return state.entries.size + state.backlog.size;
}

export function hasEntryReached(state: TrackerState, entry: LedgerEntry, level: string): boolean {
  return (entry.reached & levelBit(state, level)) !== 0;
}

export interface Pending {
  readonly id: TxnId;
  readonly attempt: EpochId;
  readonly owner: bigint;
  readonly offset: bigint;
  readonly metadata: Readonly<Record<string, string>> | null;
}

/** Every write that waits in the current epoch, or the last one. */
export function forEachPending(state: TrackerState, visit: (pending: Pending) => void): void {
  const epoch = state.backlog.epoch;
  if (epoch === null) return;
  for (const { id, offset, owner, metadata } of state.backlog)
    visit({ id, attempt: epoch, owner: owner.owner, offset, metadata });
  for (const { id, attempt, kind, owner, metadata, state: at } of state.entries.values())
    if (at.kind === "pending" && at.position.epoch === epoch && kind === "write")
      visit({ id, attempt, owner: owner.owner, offset: at.position.offset, metadata });
}

/** True while knowing positions a little sooner would settle something: an entry waits at a level that can be reached. */
export function wantsPositions(state: TrackerState): boolean {
  if (state.absent.size > 0) return true;
  // What the HA manager has to do first takes it seconds.
  return reachableLevels(state).some(
    (level) => pendingAt(state, level) > 0 && !waitsForManager(state, level),
  );
}
