// The ledger: attempts that were announced or asked about, and their indexes. Only this file moves
// an entry from one state to another; placing.ts and proof.ts decide which state.
import { type EpochId, maxOffset, type OwnedId, type TxnId, ZERO } from "@highwater/protocol";
import { type OwnerAccount, type Source } from "./accounts.ts";
import { type Backlog } from "./backlog.ts";
import { entryKey } from "./entry-key.ts";
import { attribute, countEntry, expose, exposeFor, listed, ownerAccount } from "./exposure.ts";
import { Fates } from "./fates.ts";
import { clearHeaps, makeHeaps, popPassed, pushWaiting } from "./heaps.ts";
import { noteLate, publishLate, publishPassed } from "./lags.ts";
import { hasAll, levelBit, levelNames } from "./levels.ts";
import { markIn, reachableLevels } from "./marks.ts";
import { doubt, settle } from "./proofs.ts";
import { waitsForManager } from "./synchronous.ts";
import { currentEpoch } from "./topology.ts";
import { type BecameDurable, type Effect } from "./effects.ts";
import { type Ledger, type LedgerEntry, type LogPosition, type Own, type TrackerState } from "./types.ts";
import { type Waiting } from "./waiting-table.ts";

type Owned = Omit<Own<Ledger>, "waiting" | "deadlines" | "departed" | "late" | "retiring">;
type OwnedEntry = Omit<Own<LedgerEntry>, "owner" | "source" | "isExposed">;

const own = ({ ledger }: TrackerState): Owned => ledger as Own<Ledger>;

/** Adds an entry, in no index yet. */
export function newEntry(
  state: TrackerState,
  about: Pick<LedgerEntry, "attempt" | "kind" | "announced"> &
    OwnedId &
    Partial<Omit<LedgerEntry, "key" | "owner" | "isExposed">>,
): LedgerEntry {
  const { owner, ...rest } = about;
  const entry: LedgerEntry = {
    key: entryKey(about, about.attempt),
    source: null,
    isExposed: false,
    hasOtherTokens: false,
    origin: null,
    state: { kind: "unknown" },
    reached: 0,
    atMs: state.nowMs,
    announcers: [],
    endsWithinMs: 0,
    metadata: null,
    atRisk: null,
    ...rest,
    owner: ownerAccount(state, owner),
  };
  own(state).entries.set(entry.key, entry);
  return entry;
}

/** Restores an entry from the disk. */
export function restoreEntry(state: TrackerState, saved: LedgerEntry): void {
  const { nowMs } = state;
  const entry: OwnedEntry = saved;
  // A look-up that was open when the process died was never answered.
  if (entry.state.kind === "asked") entry.state = { kind: "unproven" };
  // The times of another process mean nothing here, so every entry is as old as this process.
  entry.atMs = nowMs;
  if (entry.state.kind === "absent") entry.state = { ...entry.state, sinceMs: nowMs };
  own(state).entries.set(saved.key, saved);
  countPresented(state, saved, 1);
  file(state, saved);
}

/** Adds facts about an attempt. */
export function amend(entry: LedgerEntry, facts: Partial<Omit<OwnedEntry, "state" | "reached">>): void {
  Object.assign(entry, facts);
}

/** Adds levels that the attempt has reached. None is ever removed. */
export function reach(entry: OwnedEntry, bits: number): void {
  entry.reached |= bits;
}

/** Replaces the state by one that belongs to the same indexes. */
export function restate(entry: OwnedEntry, next: LedgerEntry["state"]): void {
  entry.state = next;
}

/** Moves an entry to a state, updates the indexes and saves the entry. */
export function enter(
  state: TrackerState,
  entry: LedgerEntry,
  next: LedgerEntry["state"],
  effects: Effect[],
): void {
  // If a lost entry is lost again, that does not show that its id is settled in this history.
  if (next.kind !== "lost") settle(state, entry.key);
  unfile(state, entry);
  restate(entry, next);
  file(state, entry);
  // A look-up and what it found are not saved until that is published: after a restart it is made
  // again.
  const isFound = next.kind === "asked" || (next.kind === "absent" && entry.kind === "write");
  if (!isFound && state.ledger.entries.has(entry.key)) effects.push({ kind: "save", entry });
}

function unfile(state: TrackerState, { key }: LedgerEntry): void {
  const { absent, intents, unplaced, finished } = own(state);
  // Most are in none of them.
  for (const index of [absent, intents, unplaced, finished]) if (index.size > 0) index.delete(key);
}

/** Puts an entry into the indexes of its state, and into no other. */
function file(state: TrackerState, entry: LedgerEntry): void {
  switch (entry.state.kind) {
    case "intent":
      own(state).intents.add(entry.key);
      break;
    case "unproven":
      doubt(state, entry.key);
      break;
    case "absent":
      own(state).absent.add(entry.key);
      break;
    case "lost":
    case "expired":
    case "unknown":
      own(state).finished.set(entry.key, state.nowMs);
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
  const { standing } = state.topology;
  const ledger = own(state);
  if (standing.kind !== "following" || standing.epoch !== position.epoch) {
    ledger.unplaced.add(entry.key);
    return;
  }
  if (hasAll(state, entry.reached)) ledger.finished.set(entry.key, state.nowMs);
  pushWaiting(state, entry, position.offset);
  ledger.highestPending = maxOffset(ledger.highestPending, position.offset);
}

/** Counts the entries that only tokens have named. */
function countPresented(state: TrackerState, entry: LedgerEntry, by: 1 | -1): void {
  if (entry.announced) return;
  const { presented } = own(state);
  const { owner } = entry.owner;
  const count = (presented.get(owner) ?? 0) + by;
  if (count > 0) presented.set(owner, count);
  else presented.delete(owner);
}

/** Adds an entry for a client that presents its token, on the owner's account. */
export function presentEntry(state: TrackerState, about: Parameters<typeof newEntry>[1]): LedgerEntry {
  const entry = newEntry(state, about);
  countPresented(state, entry, 1);
  return entry;
}

/** Marks an entry as announced that only its client's token had named. */
export function becomeAnnounced(state: TrackerState, entry: LedgerEntry, source: Source | null): void {
  countPresented(state, entry, -1);
  amend(entry, { announced: true });
  attribute(entry, source);
}

export function drop(state: TrackerState, entry: LedgerEntry, effects: Effect[]): void {
  if (own(state).entries.delete(entry.key)) countPresented(state, entry, -1);
  settle(state, entry.key);
  unfile(state, entry);
  countEntry(state, entry);
  effects.push({ kind: "forget", key: entry.key });
}

/** Drops final verdicts that have been remembered for long enough. */
export function dropFinished(state: TrackerState, effects: Effect[]): void {
  const { entries, finished } = own(state);
  for (const [key, sinceMs] of finished) {
    if (state.nowMs - sinceMs < state.config.keepVerdictMs) break;
    const entry = entries.get(key);
    if (entry !== undefined) drop(state, entry, effects);
    else finished.delete(key);
  }
}

/** True when attempts of the epoch wait for nothing but marks, as far as this tracker knows. */
export function isQueued(state: TrackerState, attempt: EpochId): boolean {
  const { standing } = state.topology;
  const { backlog } = state.ledger;
  return backlog.epoch === attempt && (standing.kind !== "following" || standing.epoch === attempt);
}

/** Puts an attempt into the backlog, unless every mark has passed it already. */
export function queue(state: TrackerState, item: Waiting, effects: Effect[]): void {
  const ledger = own(state);
  const { backlog } = ledger;
  const { config } = state;
  ledger.highestPending = maxOffset(ledger.highestPending, item.offset);
  let isDone = true;
  for (const { name } of config.levels)
    if (backlog.hasReached(item, name)) {
      noteLate(state, name, item.atMs);
      if (ledger.publishesDurable) publishDurable(state, name, [item], effects);
    } else isDone = false;
  if (isDone) return;
  // An intent's accounts may have been closed since.
  const owner = ownerAccount(state, item.owner.owner);
  const source = item.source === null ? null : listed(state, item.source);
  backlog.add({ ...item, owner, source });
  if (!backlog.hasReached(item, config.exposureLevel)) expose(state, 1, { ...item, owner, source });
  effects.push({ kind: "save_waiting", item });
}

/** Restores an attempt of the backlog from the disk, at its old position. */
export function requeue(state: TrackerState, item: Waiting): void {
  const ledger = own(state);
  ledger.backlog.add(item);
  ledger.highestPending = maxOffset(ledger.highestPending, item.offset);
  if (!ledger.backlog.hasReached(item, state.config.exposureLevel)) expose(state, 1, item);
}

/** Restores the epoch in which the backlog waits. Its marks have been restored before. */
export function restoreBacklog(state: TrackerState, epoch: EpochId | null): void {
  const { backlog } = own(state);
  backlog.begin(epoch, levelNames(state));
  if (epoch === null) return;
  for (const [level, mark] of state.topology.marks.get(epoch) ?? []) backlog.advance(level, mark);
}

/**
 * Begins to wait in a new epoch. Attempts that waited in the ended one become entries, which are
 * judged one by one. Those that already wait in the new one stay.
 */
export function beginWaiting(state: TrackerState, effects: Effect[]): void {
  const ledger = own(state);
  const { backlog } = ledger;
  clearHeaps(state);
  ledger.highestPending = ZERO;
  const current = currentEpoch(state);
  if (current !== null && backlog.epoch !== current) {
    unqueueAll(state);
    backlog.begin(current, levelNames(state));
    effects.push({ kind: "begin_waiting", epoch: current });
  }
  if (backlog.highest !== null) ledger.highestPending = backlog.highest;
}

/** Turns the backlog into entries that must still be placed. */
function unqueueAll(state: TrackerState): void {
  const { backlog } = state.ledger;
  const { epoch } = backlog;
  for (const item of backlog) {
    if (!backlog.hasReached(item, state.config.exposureLevel)) expose(state, -1, item);
    if (epoch !== null) makeEntry(state, epoch, item);
  }
}

function makeEntry(state: TrackerState, attempt: EpochId, item: Waiting): void {
  const { id, offset, atMs, owner, source, metadata, atRisk } = item;
  const position = { epoch: attempt, offset };
  let reached = 0;
  for (const { name } of state.config.levels)
    if (state.ledger.backlog.hasReached(item, name)) reached |= levelBit(state, name);
  newEntry(state, {
    id,
    attempt,
    kind: "write",
    announced: true,
    owner: owner.owner,
    source,
    origin: position,
    state: { kind: "pending", position },
    reached,
    atMs,
    metadata,
    atRisk,
  });
}

/** Adds missing metadata, or a missing value, to an attempt of the backlog. */
export function learnWaiting(state: TrackerState, of: OwnedId, item: Waiting, effects: Effect[]): void {
  const { backlog } = own(state);
  const before = backlog.get(of);
  const isCounted = before !== undefined && !backlog.hasReached(item, state.config.exposureLevel);
  if (isCounted) expose(state, -1, before);
  backlog.learn(of, item);
  if (isCounted) expose(state, 1, item);
  effects.push({ kind: "save_waiting", item });
}

/**
 * Takes the oldest attempts that `passes` accepts, and that one of the levels has, out of the
 * backlog.
 */
export function retireWaiting(
  state: TrackerState,
  ...[levels, passes]: Parameters<Backlog["retire"]>
): readonly Waiting[] {
  return own(state).backlog.retire(levels, passes);
}

/**
 * Rebuilds the heaps after a change of the levels. Each level's heap holds what waits for it in the
 * current epoch.
 */
export function relevel(state: TrackerState, effects: Effect[]): void {
  const { standing } = state.topology;
  const { backlog, entries } = own(state);
  backlog.relevel(levelNames(state));
  makeHeaps(state);
  if (standing.kind !== "following") return;
  for (const entry of [...entries.values()]) {
    const { state: at, reached } = entry;
    if (at.kind !== "pending" || at.position.epoch !== standing.epoch) continue;
    pushWaiting(state, entry, at.position.offset);
    if (hasAll(state, reached)) complete(state, entry, effects);
  }
}

/** Sets whether a client or an endpoint subscribes to single durable transactions. */
export function wantDurable(state: TrackerState, wanted: boolean): void {
  own(state).publishesDurable = wanted;
}

/**
 * Settles the attempts that the marks have passed, by the prefix property. Those that are durable
 * at every level leave the ledger.
 */
export function settleByMarks(state: TrackerState, effects: Effect[]): void {
  const { standing } = state.topology;
  if (standing.kind !== "following") return;
  publishLate(state, effects);
  settleBacklog(state, standing.epoch, effects);
  const fates = new Fates(state);
  for (const { name } of state.config.levels) {
    const durable: LedgerEntry[] = [];
    const lagsMs: number[] = [];
    const mark = markIn(state, standing.epoch, name);
    if (mark === null) continue;
    for (;;) {
      const entry = popPassed(state, name, mark);
      if (entry === undefined) break;
      const { state: at } = entry;
      // The entry has moved since it was put here: its new position is in the heap as well, or it
      // no longer waits.
      if (state.ledger.entries.get(entry.key) !== entry || at.kind !== "pending") continue;
      if (at.position.epoch !== standing.epoch || at.position.offset > mark) continue;
      if ((entry.reached & levelBit(state, name)) === 0 && entry.kind === "write") {
        durable.push(entry);
        if (entry.announced) lagsMs.push(Math.max(0, state.nowMs - entry.atMs));
      }
      reach(entry, levelBit(state, name));
      countEntry(state, entry);
      if (hasAll(state, entry.reached)) complete(state, entry, effects, fates);
    }
    if (lagsMs.length > 0) effects.push({ kind: "publish_lag", level: name, count: lagsMs.length, lagsMs });
    if (state.ledger.publishesDurable) publishDurable(state, name, durable, effects);
  }
}

function settleBacklog(state: TrackerState, epoch: EpochId, effects: Effect[]): void {
  const { backlog } = own(state);
  const { config } = state;
  if (backlog.epoch !== epoch) return;
  for (const { name } of config.levels) {
    const mark = markIn(state, epoch, name);
    if (mark === null) continue;
    if (state.ledger.publishesDurable) publishDurable(state, name, backlog.upTo(name, mark), effects);
    const isCounted = name === config.exposureLevel;
    const leave = (owner: OwnerAccount, source: Source | null, atRisk: string | null): void => {
      exposeFor(state, -1, owner, source, atRisk);
    };
    const passed = backlog.advance(name, mark, isCounted ? leave : undefined);
    publishPassed(state, name, passed, effects);
  }
  const through = backlog.settle();
  if (through !== null) effects.push({ kind: "forget_waiting", through });
}

/**
 * Reports the levels that a write has reached since `before` although no mark of the current epoch
 * has passed it here: they had it before this tracker knew its position.
 */
export function reportReached(
  state: TrackerState,
  entry: LedgerEntry,
  before: number,
  effects: Effect[],
): void {
  const learned = entry.reached & ~before;
  if (entry.kind !== "write" || learned === 0) return;
  for (const { name } of state.config.levels) {
    if ((learned & levelBit(state, name)) === 0) continue;
    if (entry.announced) noteLate(state, name, entry.atMs);
    if (state.ledger.publishesDurable) publishDurable(state, name, [entry], effects);
  }
}

function publishDurable(
  state: TrackerState,
  level: string,
  passed: readonly (Waiting | LedgerEntry)[],
  effects: Effect[],
): void {
  if (passed.length === 0) return;
  const epoch = state.ledger.backlog.epoch ?? ("" as EpochId);
  const items = passed.map((each): BecameDurable => {
    const { id, metadata } = each;
    const owner = each.owner.owner;
    return "attempt" in each
      ? { id, attempt: each.attempt, origin: each.origin, owner, metadata }
      : { id, attempt: epoch, origin: { epoch, offset: each.offset }, owner, metadata };
  });
  effects.push({ kind: "publish_durable", level, items });
}

/**
 * Takes an entry that is durable at every level out of the ledger. From then on the token and the
 * marks answer for it, unless a look-up contributed to its verdict, or another token was answered
 * from this entry.
 */
export function complete(
  state: TrackerState,
  entry: LedgerEntry,
  effects: Effect[],
  fates = new Fates(state),
): void {
  if (isKnownByToken(state, entry, fates)) {
    drop(state, entry, effects);
    return;
  }
  const { finished } = own(state);
  if (!finished.has(entry.key)) finished.set(entry.key, state.nowMs);
  effects.push({ kind: "save", entry });
}

/**
 * Has a placed entry wait for the current epoch's marks. If every level has it already, no mark is
 * left that would take it out of the ledger, so it completes at once.
 */
export function goOnAt(
  state: TrackerState,
  entry: LedgerEntry,
  position: LogPosition,
  effects: Effect[],
  fates?: Fates,
): void {
  enter(state, entry, { kind: "pending", position }, effects);
  if (hasAll(state, entry.reached)) complete(state, entry, effects, fates);
}

function isKnownByToken(
  state: TrackerState,
  { origin, attempt, hasOtherTokens }: LedgerEntry,
  fates: Fates,
): boolean {
  if (origin?.epoch !== attempt || hasOtherTokens) return false;
  if (currentEpoch(state) === attempt) return true;
  return fates.carry(origin) !== null && hasAll(state, fates.reachedBits(origin));
}

/** Returns how many attempts wait at the level, as far as this tracker's ledger knows. */
export function pendingAt(state: TrackerState, level: string): number {
  return (state.ledger.waiting.get(level)?.size ?? 0) + state.ledger.backlog.pendingAt(level);
}

/** Returns how many announced attempts of the epoch have no position yet. */
export function intentCount({ ledger }: TrackerState, epoch: EpochId): number {
  let count = 0;
  for (const key of ledger.intents) if (ledger.entries.get(key)?.attempt === epoch) count++;
  return count;
}

/** Returns the number of attempts in the ledger. */
export function heldCount(state: TrackerState): number {
  return state.ledger.entries.size + state.ledger.backlog.size;
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

/** Visits every write that waits in the current epoch, or in the last one. */
export function forEachPending(state: TrackerState, visit: (pending: Pending) => void): void {
  const epoch = state.ledger.backlog.epoch;
  if (epoch === null) return;
  for (const { id, offset, owner, metadata } of state.ledger.backlog)
    visit({ id, attempt: epoch, owner: owner.owner, offset, metadata });
  for (const { id, attempt, kind, owner, metadata, state: at } of state.ledger.entries.values())
    if (at.kind === "pending" && at.position.epoch === epoch && kind === "write")
      visit({ id, attempt, owner: owner.owner, offset: at.position.offset, metadata });
}

/**
 * True while earlier positions would settle something: an entry waits at a level that can be
 * reached.
 */
export function wantsPositions(state: TrackerState): boolean {
  if (state.ledger.absent.size > 0) return true;
  // The HA manager must act first, and takes seconds to do so.
  return reachableLevels(state).some(
    (level) => pendingAt(state, level) > 0 && !waitsForManager(state, level),
  );
}
