// Turns gateways' announcements and clients' tokens into entries of the ledger.
import { type EpochId, type Offset, type OwnedId } from "@highwater/protocol";
import { addDeadline } from "./delays.ts";
import { type Source } from "./accounts.ts";
import { entryKey } from "./entry-key.ts";
import { countEntry, expose, ownerAccount, sourceOf } from "./exposure.ts";
import {
  amend,
  becomeAnnounced,
  complete,
  drop,
  enter,
  isQueued,
  learnWaiting,
  newEntry,
  presentEntry,
  queue,
  reach,
  reportReached,
} from "./ledger.ts";
import { hasAll } from "./levels.ts";
import { raiseByCommit } from "./marks.ts";
import { repositionUnplaced, reposition } from "./placing.ts";
import { reappear, publishLoss } from "./proof.ts";
import { addParent } from "./topology.ts";
import { type Effect } from "./effects.ts";
import { type AnnouncedItem, type TrackerEvent } from "./events.ts";
import { type LedgerEntry, type LogPosition, type TrackerState } from "./types.ts";
import { hasReappeared, isOther, reachedBits } from "./verdict.ts";
import { type Waiting } from "./waiting-table.ts";

/**
 * Attempts of one id that are told apart. When there are more the id is settled after the last
 * deadline, withdrawn or not.
 */
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
  const of = ownedOf(item);
  const known = state.ledger.entries.get(entryKey(of, item.epoch));
  const isWaiting = item.epoch === state.ledger.backlog.epoch && state.ledger.backlog.has(of);
  switch (item.kind) {
    case "intent":
      if (known?.state.kind === "intent") takeRival(state, item, known, effects);
      if (known === undefined && !isWaiting) takeIntent(state, item, source, effects);
      else learnMore(state, item, known ?? state.ledger.backlog.get(of), effects);
      return;
    case "position":
      if (item.offset !== undefined && !isWaiting)
        takePosition(state, { ...item, offset: item.offset }, known, source, effects);
      return;
    case "withdrawn":
      if (known?.state.kind === "intent") withdraw(state, item, known, effects);
  }
}

/**
 * The same id at another gateway, or once more at the same one: each attempt counts until it is
 * taken back or its time is over.
 */
function takeRival(
  state: TrackerState,
  { by = "", endsWithinMs = 0 }: AnnouncedItem,
  known: LedgerEntry,
  effects: Effect[],
): void {
  // Sent again: it was announced before.
  if (known.announcers.includes(by)) return;
  const isFull = known.announcers.length >= MAX_ANNOUNCERS;
  amend(known, {
    announcers: isFull ? MANY : [...known.announcers, by],
    endsWithinMs: Math.max(known.endsWithinMs, Math.ceil(state.nowMs - known.atMs) + endsWithinMs),
  });
  effects.push({ kind: "save", entry: known });
}

function withdraw(
  state: TrackerState,
  { by = "" }: AnnouncedItem,
  known: LedgerEntry,
  effects: Effect[],
): void {
  const left = known.announcers.filter((announcer) => announcer !== by);
  if (left.length === known.announcers.length) return;
  amend(known, { announcers: left });
  if (left.length === 0) drop(state, known, effects);
  else effects.push({ kind: "save", entry: known });
}

function ownedOf({ id, owner = 0n }: Pick<AnnouncedItem, "id" | "owner">): OwnedId {
  return { id, owner };
}

function takeIntent(
  state: TrackerState,
  item: AnnouncedItem,
  source: Source | null,
  effects: Effect[],
): void {
  const { by = "", endsWithinMs = 0 } = item;
  const entry = announcedEntry(state, item, { source, announcers: [by], endsWithinMs });
  watchDelay(state, item);
  enter(state, entry, { kind: "intent" }, effects);
}

function announcedEntry(
  state: TrackerState,
  item: AnnouncedItem,
  about: Partial<Pick<LedgerEntry, "source" | "announcers" | "endsWithinMs" | "origin">>,
): LedgerEntry {
  const { epoch: attempt, metadata = null, atRisk = null } = item;
  return newEntry(state, {
    ...ownedOf(item),
    attempt,
    kind: "write",
    announced: true,
    metadata,
    atRisk,
    ...about,
  });
}

/** Its position, or its client's token, was faster than the intent that says the rest. */
function learnMore(
  state: TrackerState,
  item: AnnouncedItem,
  known: LedgerEntry | Waiting | undefined,
  effects: Effect[],
): void {
  if (known === undefined) return;
  const { metadata } = item;
  if (known.metadata === null && metadata !== undefined) watchDelay(state, item);
  const atRisk = known.atRisk ?? item.atRisk ?? null;
  if ("attempt" in known) {
    if (atRisk !== known.atRisk) learnValue(state, known, atRisk, effects);
    learnMetadata(state, known, metadata, effects);
    return;
  }
  const learned = { ...known, metadata: known.metadata ?? metadata ?? null, atRisk };
  if (learned.metadata !== known.metadata || atRisk !== known.atRisk)
    learnWaiting(state, ownedOf(item), learned, effects);
}

function takePosition(
  state: TrackerState,
  item: AnnouncedItem & { readonly offset: Offset },
  known: LedgerEntry | undefined,
  source: Source | null,
  effects: Effect[],
): void {
  const { id, epoch, offset } = item;
  const position = { epoch, offset };
  raiseByCommit(state, position, effects);
  const isNew = known === undefined || known.state.kind === "intent";
  if (isNew && isQueued(state, epoch)) {
    const { owner, metadata, atRisk } = known ?? {
      owner: ownerAccount(state, item.owner ?? 0n),
      metadata: null,
      atRisk: null,
    };
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
        atRisk: atRisk ?? item.atRisk ?? null,
      },
      effects,
    );
    return;
  }
  if (known === undefined) {
    const entry = announcedEntry(state, item, { source, origin: position });
    reposition(state, entry, position, effects);
    return;
  }
  if (!known.announced) {
    becomeAnnounced(state, known, source);
    learnMetadata(state, known, item.metadata, effects);
  }
  learnPosition(state, known, position, effects);
}

function watchDelay(state: TrackerState, item: AnnouncedItem): void {
  const { epoch, maxDelayMs, level = "" } = item;
  if (maxDelayMs === undefined) return;
  const atMs = Math.floor(state.nowMs) + maxDelayMs;
  const of = ownedOf(item);
  addDeadline(state, { ...of, key: entryKey(of, epoch), attempt: epoch, level, atMs });
}

/**
 * The epoch's own record may be on no node that survives. Its previous epoch shows which history
 * has left it behind.
 */
function learnParent(state: TrackerState, epoch: EpochId, parent: EpochId, effects: Effect[]): void {
  if (!addParent(state, epoch, parent)) return;
  effects.push({ kind: "save_parent", epoch, parent });
  repositionUnplaced(state, effects);
}

/**
 * Somebody holds a token that only a look-up can judge: from now on the ledger holds it too, as far
 * as its owner has room left. Only tokens that this deployment has signed come here.
 */
export function takeToken(state: TrackerState, event: EventOf<"token_presented">, effects: Effect[]): void {
  const { parent = null, owner, mayEnter = true } = event;
  if (parent !== null) learnParent(state, event.position.epoch, parent, effects);
  if (event.tokenKind === "position") return;
  raiseByCommit(state, event.position, effects);
  // In the backlog only its position matters, and the gateway has announced it.
  if (event.attempt === state.ledger.backlog.epoch && state.ledger.backlog.has(event)) return;
  const known = state.ledger.entries.get(entryKey(event, event.attempt));
  if (known !== undefined) {
    if (isOther(known, event.position)) amend(known, { hasOtherTokens: true });
    learnPosition(state, known, event.position, effects);
    return;
  }
  if (!mayEnter || (state.ledger.presented.get(owner) ?? 0) >= state.config.tokensPerOwner) return;
  const entry = presentEntry(state, {
    id: event.id,
    owner: event.owner,
    attempt: event.attempt,
    kind: event.tokenKind,
    announced: false,
    origin: event.position,
  });
  reposition(state, entry, event.position, effects);
}

/** The value that the entry lacked. */
function learnValue(state: TrackerState, entry: LedgerEntry, atRisk: string | null, effects: Effect[]): void {
  if (entry.isExposed) expose(state, -1, entry);
  amend(entry, { atRisk });
  if (entry.isExposed) expose(state, 1, entry);
  effects.push({ kind: "save", entry });
}

/**
 * The metadata that the entry lacked. If its loss was published without them, it is published
 * again.
 */
function learnMetadata(
  state: TrackerState,
  entry: LedgerEntry,
  metadata: LedgerEntry["metadata"] | undefined,
  effects: Effect[],
): void {
  if (metadata == null || entry.metadata !== null) return;
  amend(entry, { metadata });
  effects.push({ kind: "save", entry });
  if (entry.state.kind === "lost") publishLoss(state, entry, effects);
}

/** Without a current epoch nothing is published, nor of an epoch that may be newer. */
function isCurrentPlace({ topology: { standing } }: TrackerState, { epoch }: LogPosition): boolean {
  return standing.kind === "following" && standing.epoch === epoch;
}

/**
 * The position of a commit also shows at which levels it was durable there, and what was promised
 * then binds. Only an intent is moved by it; an attempt that is being looked up, or has its
 * verdict, is past it.
 */
function learnPosition(
  state: TrackerState,
  entry: LedgerEntry,
  position: LogPosition,
  effects: Effect[],
): void {
  // A look-up alone has found it somewhere in a later epoch; its own token says where it committed.
  if (entry.origin === null || (entry.origin.epoch !== entry.attempt && position.epoch === entry.attempt))
    amend(entry, { origin: position });
  if (entry.state.kind === "intent") {
    reposition(state, entry, position, effects);
    return;
  }
  const before = entry.reached;
  reach(entry, reachedBits(state, position));
  const learned = entry.reached & ~before;
  if (entry.state.kind === "pending" && isCurrentPlace(state, entry.state.position))
    reportReached(state, entry, before, effects);
  countEntry(state, entry);
  effects.push({ kind: "save", entry });
  if (entry.state.kind === "pending" && hasAll(state, entry.reached)) complete(state, entry, effects);
  // Reported lost, and its position shows that it is here again: broken at every level.
  if (hasReappeared(state, entry, position)) reappear(state, entry, effects);
  if (entry.state.kind !== "lost" || entry.state.reappeared || learned === 0) return;
  // Reported lost, and now it shows that it had been durable: one of the two verdicts is broken.
  enter(state, entry, { ...entry.state, broken: entry.state.broken | learned }, effects);
  publishLoss(state, entry, effects);
}
