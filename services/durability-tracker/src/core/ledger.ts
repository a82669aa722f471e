// The ledger: attempts that are announced or asked about, from their intent to their verdict.
import { type EpochId, maxOffset, type TxnId, type Verdict } from "@highwater/protocol";
import { markIn, reachableLevels } from "./marks.ts";
import {
  type AnnouncedItem,
  type Effect,
  type Entry,
  type Place,
  type ReceiptFact,
  type TrackerEvent,
  type TrackerState,
} from "./types.ts";
import { carry, hasEnded, judgeEntry, levelBit, reachedBits } from "./verdict.ts";

export function entryKey(id: TxnId, attempt: EpochId): string {
  return `${id}/${attempt}`;
}

type EventOf<K extends TrackerEvent["kind"]> = Extract<TrackerEvent, { kind: K }>;

export function takeAnnouncements(state: TrackerState, event: EventOf<"announced">, effects: Effect[]): void {
  for (const item of event.items) takeOne(state, item, effects);
}

function takeOne(state: TrackerState, item: AnnouncedItem, effects: Effect[]): void {
  const key = entryKey(item.id, item.epoch);
  const known = state.entries.get(key);
  switch (item.kind) {
    case "intent": {
      if (known !== undefined) return;
      const entry = newEntry(state, { id: item.id, attempt: item.epoch, kind: "write", announced: true });
      entry.metadata = item.metadata ?? null;
      state.entries.set(key, entry);
      enter(state, entry, { kind: "intent" }, effects);
      // The announcement of an epoch that has already ended: it will get no position from its gateway any more.
      if (state.standing.kind === "reigning" && state.standing.epoch !== item.epoch)
        settleIntent(state, entry, effects);
      return;
    }
    case "position": {
      if (item.offset === undefined) return;
      const entry =
        known ?? newEntry(state, { id: item.id, attempt: item.epoch, kind: "write", announced: true });
      state.entries.set(key, entry);
      entry.announced = true;
      entry.origin ??= { epoch: item.epoch, offset: item.offset };
      // Only an intent learns anything from it; an attempt that is being looked up, or has its verdict, is past it.
      if (known === undefined || known.state.kind === "intent")
        placeAgain(state, entry, entry.origin, effects);
      return;
    }
    case "withdrawn":
      if (known?.state.kind === "intent") drop(state, known, effects);
  }
}

function newEntry(state: TrackerState, about: Pick<Entry, "id" | "attempt" | "kind" | "announced">): Entry {
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

/** Somebody holds a token that only a look-up can judge: from now on the ledger holds it too. */
export function takeToken(state: TrackerState, event: EventOf<"token_presented">, effects: Effect[]): void {
  const key = entryKey(event.id, event.attempt);
  const known = state.entries.get(key);
  if (known !== undefined) {
    if (known.origin === null) {
      known.origin = event.place;
      // An intent in the current epoch learns its place from its client.
      if (known.state.kind === "intent") placeAgain(state, known, event.place, effects);
    }
    return;
  }
  const entry = newEntry(state, {
    id: event.id,
    attempt: event.attempt,
    kind: event.tokenKind,
    announced: false,
  });
  entry.origin = event.place;
  state.entries.set(key, entry);
  placeAgain(state, entry, event.place, effects);
}

/** Puts an entry where its evidence leads: waiting for marks, or to be looked up. */
export function placeAgain(state: TrackerState, entry: Entry, place: Place, effects: Effect[]): void {
  const { standing } = state;
  if (standing.kind !== "reigning") {
    enter(state, entry, { kind: "pending", place }, effects);
    return;
  }
  if (place.epoch !== standing.epoch) entry.reached |= reachedBits(state, place);
  const carried = carry(state, place);
  if (carried !== null) enter(state, entry, { kind: "pending", place: carried }, effects);
  else if (!hasEnded(state, place.epoch)) {
    // An epoch that is unknown here, or not outranked, may be newer than the one that this tracker follows: no verdict.
    enter(state, entry, { kind: "pending", place }, effects);
  } else if (entry.kind === "read") proveRead(state, entry, place, effects);
  else enter(state, entry, { kind: "unproven" }, effects);
}

/** A read-only transaction left no receipt: beyond the fork, what it read may be gone. */
function proveRead(state: TrackerState, entry: Entry, place: Place, effects: Effect[]): void {
  const current = state.ancestry.at(-1);
  const successor = state.ancestry.find((record) => record.previous === place.epoch);
  if (current === undefined) return;
  const limit = successor?.forkLimit ?? null;
  if (successor !== undefined && entry.reached !== 0 && (limit === null || place.offset <= BigInt(limit))) {
    // It was durable, and nothing says that the history ended below it.
    enter(
      state,
      entry,
      { kind: "pending", place: startOf(current.id as EpochId, current.startOffset) },
      effects,
    );
    return;
  }
  const asOf = startOf(current.id as EpochId, current.startOffset);
  enter(state, entry, { kind: "absent", asOf, sinceMs: state.nowMs, retriedIn: null }, effects);
}

function startOf(epoch: EpochId, offset: string): Place {
  return { epoch, offset: BigInt(offset) as Place["offset"] };
}

/** Moves an entry to a state, keeps the indexes true and saves it. */
function enter(state: TrackerState, entry: Entry, next: Entry["state"], effects: Effect[]): void {
  state.unproven.delete(entry.key);
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
  for (const { name } of state.config.levels) {
    if ((entry.reached & levelBit(state, name)) === 0) state.waiting.get(name)?.push(place.offset, entry);
  }
  state.highestPending = maxOffset(state.highestPending, place.offset);
}

function drop(state: TrackerState, entry: Entry, effects: Effect[]): void {
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
  const all = (1 << state.config.levels.length) - 1;
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
      if (entry.reached === all) drop(state, entry, effects);
    }
  }
}

/** Entries that could not be placed before: their epoch was unknown, or nobody reigned. */
export function placeAdrift(state: TrackerState, effects: Effect[]): void {
  if (state.standing.kind !== "reigning") return;
  for (const key of [...state.adrift]) {
    const entry = state.entries.get(key);
    if (entry?.state.kind === "pending") placeAgain(state, entry, entry.state.place, effects);
  }
}

/** A new epoch: everything that is not final is judged again, and what was lost is looked for once more. */
export function repositionAll(state: TrackerState, effects: Effect[]): void {
  for (const heap of state.waiting.values()) heap.clear();
  state.highestPending = 0n as Place["offset"];
  state.asked.clear();
  for (const entry of [...state.entries.values()]) {
    const { state: at, origin } = entry;
    switch (at.kind) {
      case "pending":
        if (origin === null) enter(state, entry, { kind: "unproven" }, effects);
        else placeAgain(state, entry, at.place, effects);
        break;
      case "intent":
        if (state.standing.kind === "reigning" && state.standing.epoch !== entry.attempt)
          settleIntent(state, entry, effects);
        break;
      case "asked":
      case "absent":
        if (entry.kind === "read" && origin !== null) placeAgain(state, entry, origin, effects);
        else enter(state, entry, { kind: "unproven" }, effects);
        break;
      case "gone":
        // It may have come back with an old primary; and its id must stay dead in this history too.
        if (entry.kind === "write") state.unproven.add(entry.key);
        break;
      case "unproven":
      case "expired":
      case "unknown":
        break;
    }
  }
}

/** Nobody knows how it ended: its id is settled, and the receipt tells. */
function settleIntent(state: TrackerState, entry: Entry, effects: Effect[]): void {
  enter(state, entry, { kind: "unproven" }, effects);
}

/** Asks for the receipts of what only they can prove, in batches. */
export function askForProof(state: TrackerState, effects: Effect[]): void {
  const { standing } = state;
  if (standing.kind !== "reigning" || state.unproven.size === 0) return;
  const lost: Entry[] = [];
  const stray: Entry[] = [];
  for (const key of state.unproven) {
    const entry = state.entries.get(key);
    // In a living epoch nothing was lost: an id without a position there was given up by its gateway.
    if (entry !== undefined)
      (entry.attempt === standing.epoch && entry.origin === null ? stray : lost).push(entry);
  }
  state.unproven.clear();
  for (const [entries, tombstone] of [
    [lost, "lost"],
    [stray, "aborted"],
  ] as const) {
    for (let from = 0; from < entries.length; from += state.config.batch)
      ask(state, entries.slice(from, from + state.config.batch), tombstone, effects);
  }
}

function ask(
  state: TrackerState,
  entries: readonly Entry[],
  tombstone: "lost" | "aborted",
  effects: Effect[],
): void {
  const { standing } = state;
  if (standing.kind !== "reigning") return;
  const request = state.nextRequest++;
  state.asked.set(request, { epoch: standing.epoch, keys: entries.map((entry) => entry.key) });
  for (const entry of entries) if (entry.state.kind !== "gone") entry.state = { kind: "asked", request };
  const ids = [...new Set(entries.map((entry) => entry.id))];
  effects.push({
    kind: "read_receipts",
    request,
    node: standing.node,
    epoch: standing.epoch,
    ids,
    tombstone,
  });
}

export function takeReceipts(state: TrackerState, event: EventOf<"receipts_read">, effects: Effect[]): void {
  const asked = state.asked.get(event.request);
  state.asked.delete(event.request);
  const { standing } = state;
  if (asked === undefined) return;
  const valid = standing.kind === "reigning" && standing.epoch === event.epoch && asked.epoch === event.epoch;
  for (const key of asked.keys) {
    const entry = state.entries.get(key);
    if (entry === undefined) continue;
    const mine =
      entry.state.kind === "gone" || (entry.state.kind === "asked" && entry.state.request === event.request);
    if (!mine) continue;
    const fact = event.receipts.get(entry.id);
    // An answer of another epoch proves nothing in this one.
    if (!valid || fact === undefined) putBack(state, entry, effects);
    else applyProof(state, entry, fact, { epoch: event.epoch, offset: event.asOf }, effects);
  }
}

export function takeNoReceipts(state: TrackerState, request: number, effects: Effect[]): void {
  const asked = state.asked.get(request);
  state.asked.delete(request);
  for (const key of asked?.keys ?? []) {
    const entry = state.entries.get(key);
    if (entry === undefined) continue;
    if (entry.state.kind === "gone" || (entry.state.kind === "asked" && entry.state.request === request))
      putBack(state, entry, effects);
  }
}

function putBack(state: TrackerState, entry: Entry, effects: Effect[]): void {
  if (entry.state.kind === "gone") state.unproven.add(entry.key);
  else enter(state, entry, { kind: "unproven" }, effects);
}

function applyProof(
  state: TrackerState,
  entry: Entry,
  fact: ReceiptFact,
  asOf: Place,
  effects: Effect[],
): void {
  const present = fact.kind === "commit" && fact.epoch === entry.attempt;
  if (entry.state.kind === "gone") {
    // Told as lost, and here it is: the loud case.
    if (present && !entry.state.reappeared) {
      enter(state, entry, { ...entry.state, reappeared: true }, effects);
      publish(state, entry, effects);
    }
    return;
  }
  switch (fact.kind) {
    case "commit":
      if (present) {
        entry.origin ??= asOf;
        enter(state, entry, { kind: "pending", place: asOf }, effects);
      } else
        enter(state, entry, { kind: "absent", asOf, sinceMs: state.nowMs, retriedIn: fact.epoch }, effects);
      return;
    case "lost":
      enter(state, entry, { kind: "absent", asOf, sinceMs: state.nowMs, retriedIn: null }, effects);
      return;
    case "aborted":
      // Without a token of its own it was never committed: its gateway has told its client so.
      if (entry.origin === null) drop(state, entry, effects);
      else enter(state, entry, { kind: "absent", asOf, sinceMs: state.nowMs, retriedIn: null }, effects);
      return;
    case "expired":
      enter(state, entry, { kind: "expired" }, effects);
      return;
    case "out_of_window":
      enter(state, entry, { kind: "unknown" }, effects);
      return;
    case "absent":
      // Settling writes a tombstone for the absent: an adapter that says so has not done what it was asked.
      enter(state, entry, { kind: "unproven" }, effects);
  }
}

/** Tells of proven losses once the proof itself is as safe as the survivors can make it. */
export function publishProven(state: TrackerState, effects: Effect[]): void {
  const { standing, config } = state;
  if (standing.kind !== "reigning" || state.absent.size === 0) return;
  const reachable = reachableLevels(state);
  for (const key of [...state.absent]) {
    const entry = state.entries.get(key);
    if (entry?.state.kind !== "absent") continue;
    const { asOf, sinceMs, retriedIn } = entry.state;
    if (asOf.epoch !== standing.epoch) continue;
    const given = Math.floor((state.nowMs - sinceMs) / config.publishPatienceMs);
    const level = reachable[Math.max(0, reachable.length - 1 - given)];
    const mark = level === undefined ? null : markIn(state, standing.epoch, level);
    if (level === undefined || mark === null || mark < asOf.offset) continue;
    enter(state, entry, { kind: "gone", settledAt: level, retriedIn, reappeared: false }, effects);
    publish(state, entry, effects);
  }
}

function publish(state: TrackerState, entry: Entry, effects: Effect[]): void {
  if (entry.state.kind !== "gone") return;
  const judged = state.config.levels.map(({ name }) => [name, judgeEntry(state, entry, name)] as const);
  const verdicts: Record<string, Verdict> = Object.fromEntries(
    judged.map(([name, judgement]) => [name, judgement.verdict]),
  );
  effects.push({
    kind: "publish_verdict",
    published: {
      id: entry.id,
      attempt: entry.attempt,
      verdicts,
      rule: judged.at(-1)?.[1].rule ?? "R6 absent",
      settledAt: entry.state.settledAt,
      retriedIn: entry.state.retriedIn,
      metadata: entry.metadata,
    },
  });
}

const MAX_RETIRED_PER_TICK = 1_000;

/** Time passes: forgotten intents are settled, old verdicts leave, and so does what is durable enough for long enough. */
export function age(state: TrackerState, effects: Effect[]): void {
  const { config, nowMs } = state;
  for (const key of state.intents) {
    const entry = state.entries.get(key);
    if (entry === undefined || nowMs - entry.atMs < config.intentPatienceMs) break;
    settleIntent(state, entry, effects);
  }
  for (const [key, sinceMs] of state.finished) {
    if (nowMs - sinceMs < config.keepVerdictMs) break;
    const entry = state.entries.get(key);
    if (entry !== undefined) drop(state, entry, effects);
    else state.finished.delete(key);
  }
  let looked = 0;
  for (const entry of state.entries.values()) {
    if (++looked > MAX_RETIRED_PER_TICK || nowMs - entry.atMs < config.keepDurableMs) break;
    const beyondPrimary = entry.reached & ~primaryBits(state);
    if (entry.state.kind === "pending" && beyondPrimary !== 0) drop(state, entry, effects);
  }
}

function primaryBits(state: TrackerState): number {
  return state.config.levels.reduce(
    (bits, { name, rule }) => ("primary" in rule ? bits | levelBit(state, name) : bits),
    0,
  );
}

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
