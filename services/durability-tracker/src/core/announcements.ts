// What gateways announce and what clients present: from words about an attempt to an entry of the ledger.
import { type EpochId, type Offset } from "@highwater/protocol";
import { addDeadline } from "./delays.ts";
import { countEntry, expose, ownerAccount, type Source, sourceOf } from "./exposure.ts";
import { complete, countPresented, drop, enter, entryKey, isQueued, newEntry, queue } from "./ledger.ts";
import { hasAll } from "./levels.ts";
import { placeAdrift, placeAgain } from "./placing.ts";
import { reappear, tell } from "./proof.ts";
import {
  type AnnouncedItem,
  type Effect,
  type Entry,
  type Place,
  type TrackerEvent,
  type TrackerState,
} from "./types.ts";
import { hasReappeared, isOther, reachedBits } from "./verdict.ts";
import { type Waiting } from "./waiting-table.ts";

/** Attempts of one id that are told apart. When there are more the id is settled after the last deadline, withdrawn or not. */
const MAX_ANNOUNCERS = 16;
/** No attempt has a name like that, so none is taken back. */
const MANY: readonly string[] = Object.freeze(["* many"]);

type EventOf<K extends TrackerEvent["kind"]> = Extract<TrackerEvent, { kind: K }>;

export function takeAnnouncements(state: TrackerState, event: EventOf<"announced">, effects: Effect[]): void {
  const { from, parents = {} } = event;
  const source = from === undefined ? null : sourceOf(state, from.gateway, from.region);
  for (const [epoch, parent] of Object.entries(parents))
    learnParent(state, epoch as EpochId, parent, effects);
  for (const item of event.items) takeOne(state, item, source, effects);
}

function takeOne(state: TrackerState, item: AnnouncedItem, source: Source | null, effects: Effect[]): void {
  const known = state.entries.get(entryKey(item.id, item.epoch));
  const isWaiting = item.epoch === state.backlog.epoch && state.backlog.has(item.id);
  switch (item.kind) {
    case "intent":
      if (known?.state.kind === "intent") takeRival(state, item, known, effects);
      if (known === undefined && !isWaiting) takeIntent(state, item, source, effects);
      else learnMore(state, item, known ?? state.backlog.get(item.id), effects);
      return;
    case "position":
      if (item.offset !== undefined && !isWaiting)
        takePosition(state, { ...item, offset: item.offset }, known, source, effects);
      return;
    case "withdrawn":
      if (known?.state.kind === "intent") withdraw(state, item, known, effects);
  }
}

/** The same id at another gateway, or once more at the same one: each attempt counts until it is taken back or its time is over. */
function takeRival(
  state: TrackerState,
  { by = "", endsWithinMs = 0 }: AnnouncedItem,
  known: Entry,
  effects: Effect[],
): void {
  // Sent again: it was announced before.
  if (known.announcers.includes(by)) return;
  const isFull = known.announcers.length >= MAX_ANNOUNCERS;
  known.announcers = isFull ? MANY : [...known.announcers, by];
  known.endsWithinMs = Math.max(known.endsWithinMs, Math.ceil(state.nowMs - known.atMs) + endsWithinMs);
  effects.push({ kind: "save", entry: known });
}

function withdraw(state: TrackerState, { by = "" }: AnnouncedItem, known: Entry, effects: Effect[]): void {
  const left = known.announcers.filter((announcer) => announcer !== by);
  if (left.length === known.announcers.length) return;
  known.announcers = left;
  if (left.length === 0) drop(state, known, effects);
  else effects.push({ kind: "save", entry: known });
}

function takeIntent(
  state: TrackerState,
  item: AnnouncedItem,
  source: Source | null,
  effects: Effect[],
): void {
  const entry = announcedEntry(state, item, source);
  const { by = "", endsWithinMs = 0 } = item;
  entry.announcers = [by];
  entry.endsWithinMs = endsWithinMs;
  watchDelay(state, item);
  enter(state, entry, { kind: "intent" }, effects);
}

function announcedEntry(state: TrackerState, item: AnnouncedItem, source: Source | null): Entry {
  const { id, epoch: attempt } = item;
  const owner = ownerAccount(state, item.owner ?? 0n);
  const entry = newEntry(state, { id, attempt, kind: "write", announced: true, owner, source });
  entry.metadata = item.metadata ?? null;
  state.entries.set(entry.key, entry);
  return entry;
}

/** Its position, or its client's token, was faster than the intent that says the rest. */
function learnMore(
  state: TrackerState,
  item: AnnouncedItem,
  known: Entry | Waiting | undefined,
  effects: Effect[],
): void {
  if (known === undefined) return;
  const { metadata } = item;
  if (known.metadata === null && metadata !== undefined) watchDelay(state, item);
  if ("attempt" in known) learnWhose(state, known, item, effects);
  else if (known.metadata === null && metadata !== undefined) {
    state.backlog.learn(item.id, metadata);
    effects.push({ kind: "save_waiting", item: { ...known, metadata } });
  }
}

function takePosition(
  state: TrackerState,
  item: AnnouncedItem & { readonly offset: Offset },
  known: Entry | undefined,
  source: Source | null,
  effects: Effect[],
): void {
  const { id, epoch, offset } = item;
  const place = { epoch, offset };
  const isNew = known === undefined || known.state.kind === "intent";
  if (isNew && isQueued(state, epoch)) {
    const { owner, metadata } = known ?? { owner: ownerAccount(state, item.owner ?? 0n), metadata: null };
    if (known !== undefined) drop(state, known, effects);
    const atMs = Math.floor(known?.atMs ?? state.nowMs);
    queue(
      state,
      {
        id,
        offset,
        atMs,
        owner,
        source: known?.source ?? source,
        metadata: metadata ?? item.metadata ?? null,
      },
      effects,
    );
    return;
  }
  if (known === undefined) {
    const entry = announcedEntry(state, item, source);
    entry.origin = place;
    placeAgain(state, entry, place, effects);
    return;
  }
  if (!known.announced) {
    // Until now only its client's token told of it.
    countPresented(state, known, -1);
    known.announced = true;
    known.source = source;
    learnWhose(state, known, item, effects);
  }
  learnPlace(state, known, place, effects);
}

function watchDelay(state: TrackerState, { id, epoch, maxDelayMs, level = "" }: AnnouncedItem): void {
  if (maxDelayMs === undefined) return;
  const atMs = Math.floor(state.nowMs) + maxDelayMs;
  addDeadline(state, { key: entryKey(id, epoch), id, attempt: epoch, level, atMs });
}

/** The epoch's own record may be on no node that survives. What it followed says which history has left it behind. */
function learnParent(state: TrackerState, epoch: EpochId, parent: EpochId, effects: Effect[]): void {
  if (!state.epochs.learnParent(epoch, parent)) return;
  effects.push({ kind: "save_parent", epoch, parent });
  placeAdrift(state, effects);
}

/**
 * Somebody holds a token that only a look-up can judge: from now on the ledger holds it too, as far as its owner has room left.
 * Only tokens that this deployment has signed come here.
 */
export function takeToken(state: TrackerState, event: EventOf<"token_presented">, effects: Effect[]): void {
  const { parent = null, owner = 0n, mayEnter = true } = event;
  if (parent !== null) learnParent(state, event.place.epoch, parent, effects);
  // In the backlog only its place matters, and the gateway has told it.
  if (event.attempt === state.backlog.epoch && state.backlog.has(event.id)) return;
  const known = state.entries.get(entryKey(event.id, event.attempt));
  if (known !== undefined) {
    learnWhose(state, known, { owner }, effects);
    if (isOther(known, event.place)) known.hasOtherTokens = true;
    learnPlace(state, known, event.place, effects);
    return;
  }
  if (!mayEnter || (state.presented.get(owner) ?? 0) >= state.config.tokensPerOwner) return;
  const entry = newEntry(state, {
    id: event.id,
    attempt: event.attempt,
    kind: event.tokenKind,
    announced: false,
    owner: ownerAccount(state, owner),
  });
  entry.origin = event.place;
  state.entries.set(entry.key, entry);
  countPresented(state, entry, 1);
  placeAgain(state, entry, event.place, effects);
}

/** The owner, or the metadata, that the entry lacked. If its loss was published without them, it is published again. */
function learnWhose(
  state: TrackerState,
  entry: Entry,
  { owner = 0n, metadata = null }: Pick<AnnouncedItem, "owner"> & { readonly metadata?: Entry["metadata"] },
  effects: Effect[],
): void {
  const isOwned = owner !== 0n && entry.owner.owner === 0n;
  const isDescribed = metadata !== null && entry.metadata === null;
  if (!isOwned && !isDescribed) return;
  if (isOwned) {
    if (entry.isExposed) expose(state, -1, entry.owner, entry.source);
    countPresented(state, entry, -1);
    entry.owner = ownerAccount(state, owner);
    countPresented(state, entry, 1);
    if (entry.isExposed) expose(state, 1, entry.owner, entry.source);
  }
  if (isDescribed) entry.metadata = metadata;
  effects.push({ kind: "save", entry });
  if (entry.state.kind === "gone") tell(state, entry, effects);
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
  countEntry(state, entry);
  effects.push({ kind: "save", entry });
  if (entry.state.kind === "pending" && hasAll(state, entry.reached)) complete(state, entry, effects);
  // Told as lost, and its place shows that it is here again: broken at every level.
  if (hasReappeared(state, entry, place)) reappear(state, entry, effects);
  if (entry.state.kind !== "gone" || entry.state.reappeared || learned === 0) return;
  // Told as lost, and now it shows that it had been durable: one of the two words is broken.
  enter(state, entry, { ...entry.state, broken: entry.state.broken | learned }, effects);
  tell(state, entry, effects);
}
