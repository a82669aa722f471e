// Decides what only receipts can prove: asks for them, weighs the answers, and reports losses once
// the proof itself is safe.
import { type EpochId, type OwnedId, ownedName, type Verdict } from "@highwater/protocol";
import { amend, drop, enter, goOnAt, restate } from "./ledger.ts";
import { levelNames } from "./levels.ts";
import { markIn, reachableLevels } from "./marks.ts";
import { noticeBrokenLoss } from "./promises.ts";
import { beginLookUp, doubt, endLookUp, noteUnpublished, putAside, takeUnproven } from "./proofs.ts";
import { type Effect } from "./effects.ts";
import { type ReceiptFact, type TrackerEvent } from "./events.ts";
import { type LedgerEntry, type LogPosition, type TrackerState } from "./types.ts";
import { brokenBits, isWithinLimit, judgeEntry, wasChosenOver } from "./verdict.ts";

type EventOf<K extends TrackerEvent["kind"]> = Extract<TrackerEvent, { kind: K }>;

/**
 * Look-ups that may be under way before those that follow have to gather. A failover leaves very
 * many: each look-up is prepared while the server answers the ones before it.
 */
const MAX_LOOK_UPS = 4;

/** Asks for the receipts of what only they can prove, in batches. */
export function askForProof(state: TrackerState, effects: Effect[]): void {
  const { proofs, ledger } = state;
  const { standing } = state.topology;
  if (standing.kind !== "following" || proofs.unproven.size === 0) return;
  // Self-clocked: while look-ups are under way the next batch grows, instead of one round trip for
  // each id.
  const room = MAX_LOOK_UPS - proofs.asked.size;
  if (room <= 0) return;
  const lost: LedgerEntry[] = [];
  const stray: LedgerEntry[] = [];
  for (const key of takeUnproven(state, room * state.config.batch)) {
    const entry = ledger.entries.get(key);
    // In a living epoch nothing was lost: an id without a position there was given up by its
    // gateway.
    if (entry !== undefined)
      (entry.attempt === standing.epoch && entry.origin === null ? stray : lost).push(entry);
  }
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
  entries: readonly LedgerEntry[],
  tombstone: "lost" | "aborted",
  effects: Effect[],
): void {
  const { standing } = state.topology;
  if (standing.kind !== "following") return;
  const keys = entries.map((entry) => entry.key);
  const request = beginLookUp(state, { epoch: standing.epoch, keys });
  for (const entry of entries) if (entry.state.kind !== "lost") restate(entry, { kind: "asked", request });
  // One receipt answers for all attempts of a transaction.
  const of = new Map(entries.map(ownedOf).map((owned) => [ownedName(owned), owned]));
  effects.push({
    kind: "read_receipts",
    request,
    node: standing.node,
    epoch: standing.epoch,
    of: [...of.values()],
    tombstone,
  });
}

function ownedOf({ id, owner }: LedgerEntry): OwnedId {
  return { id, owner: owner.owner };
}

export function takeReceipts(state: TrackerState, event: EventOf<"receipts_read">, effects: Effect[]): void {
  const asked = endLookUp(state, event.request);
  const { standing } = state.topology;
  if (asked === undefined) return;
  const valid =
    standing.kind === "following" && standing.epoch === event.epoch && asked.epoch === event.epoch;
  const asOf: LogPosition = { epoch: event.epoch, offset: event.asOf };
  for (const key of asked.keys) {
    const entry = state.ledger.entries.get(key);
    if (entry === undefined) continue;
    const mine =
      entry.state.kind === "lost" || (entry.state.kind === "asked" && entry.state.request === event.request);
    if (!mine) continue;
    const fact = event.receipts.get(ownedName(ownedOf(entry)));
    // An answer of another epoch proves nothing in this one.
    if (!valid || fact === undefined) putBack(state, entry, effects);
    else if (fact.kind === "held") {
      putBack(state, entry, effects);
      putAside(state, key);
    } else applyProof(state, entry, fact, asOf, effects);
  }
}

export function takeNoReceipts(state: TrackerState, request: number, effects: Effect[]): void {
  for (const key of endLookUp(state, request)?.keys ?? []) {
    const entry = state.ledger.entries.get(key);
    if (entry === undefined) continue;
    if (entry.state.kind === "lost" || (entry.state.kind === "asked" && entry.state.request === request))
      putBack(state, entry, effects);
  }
}

function putBack(state: TrackerState, entry: LedgerEntry, effects: Effect[]): void {
  if (entry.state.kind === "lost") doubt(state, entry.key);
  else enter(state, entry, { kind: "unproven" }, effects);
}

function applyProof(
  state: TrackerState,
  entry: LedgerEntry,
  fact: Exclude<ReceiptFact, { kind: "held" }>,
  asOf: LogPosition,
  effects: Effect[],
): void {
  const present = fact.kind === "commit" && fact.epoch === entry.attempt;
  if (entry.state.kind === "lost") {
    // Any receipt settles its id in this history as well.
    const retriedIn = fact.kind === "commit" ? fact.epoch : null;
    if (present) reappear(state, entry, effects);
    if (!present && "epoch" in fact) restate(entry, { ...entry.state, asOf, retriedIn });
    return;
  }
  switch (fact.kind) {
    case "commit":
      if (present) {
        if (entry.origin === null) amend(entry, { origin: asOf });
        goOnAt(state, entry, asOf, effects);
      } else if (entry.origin === null) {
        // This attempt was never seen to commit, and its client has run it again.
        drop(state, entry, effects);
      } else {
        enter(state, entry, { kind: "absent", asOf, sinceMs: state.nowMs, retriedIn: fact.epoch }, effects);
      }
      return;
    case "lost":
      // Somebody had settled the id for another attempt, and this one was refused: it never
      // committed.
      if (entry.origin === null && wasSettledBefore(state, fact.epoch, { attempt: entry.attempt, asOf }))
        drop(state, entry, effects);
      else enter(state, entry, { kind: "absent", asOf, sinceMs: state.nowMs, retriedIn: null }, effects);
      return;
    case "aborted":
      // Without a token of its own it was never committed: its gateway has informed its client.
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
      // Settling writes a tombstone for the absent: an adapter that says so has not done what it
      // was asked.
      enter(state, entry, { kind: "unproven" }, effects);
  }
}

/**
 * Whether a tombstone of that epoch refused the attempt. In a living epoch nothing was lost, so
 * there it did. In an ended one it did if it is not of a later one: everything of this history that
 * is of an epoch stands before all that follow.
 */
function wasSettledBefore(
  { topology }: TrackerState,
  settled: string,
  { attempt, asOf }: { readonly attempt: string; readonly asOf: LogPosition },
): boolean {
  if (attempt === asOf.epoch) return true;
  const { ancestry } = topology;
  const settledAt = ancestry.findIndex(({ id }) => id === settled);
  return settledAt >= 0 && ancestry.findIndex(({ id }) => id === attempt) >= settledAt;
}

/** Reported lost, and here it is: the loud case. */
export function reappear(state: TrackerState, entry: LedgerEntry, effects: Effect[]): void {
  if (entry.state.kind !== "lost" || entry.state.reappeared) return;
  enter(state, entry, { ...entry.state, reappeared: true }, effects);
  publishLoss(state, entry, effects);
}

/**
 * Reports proven losses once no failover that respects the exposure level can take the proof back.
 */
export function publishProven(state: TrackerState, effects: Effect[]): void {
  const { config, ledger, proofs } = state;
  const { standing } = state.topology;
  if (standing.kind !== "following" || ledger.absent.size + proofs.unpublished.size === 0) return;
  const levelsFor = finalLevels(state);
  for (const key of proofs.unpublished) {
    const entry = ledger.entries.get(key);
    if (entry?.state.kind === "lost") publishLoss(state, entry, effects, levelsFor);
    else noteUnpublished(state, key, false);
  }
  let waiting: LedgerEntry | null = null;
  for (const key of ledger.absent) {
    const entry = ledger.entries.get(key);
    if (entry?.state.kind !== "absent" || (waiting !== null && isAlike(waiting, entry))) continue;
    const { asOf, sinceMs, retriedIn } = entry.state;
    if (asOf.epoch !== standing.epoch) continue;
    if (state.nowMs - sinceMs < config.intentGraceMs && mayBeKept(state, entry)) continue;
    const given = Math.floor((state.nowMs - sinceMs) / config.publishPatienceMs);
    const levels = levelsFor(entry);
    const level = levels[Math.max(0, levels.length - 1 - given)];
    if (level === undefined || !hasReached(state, level, asOf)) {
      waiting = entry;
      continue;
    }
    const broken = brokenBits(state, entry);
    const lostState = { asOf, settledAt: level, retriedIn, reappeared: false, broken, isPublished: true };
    enter(state, entry, { kind: "lost", ...lostState }, effects);
    publishLoss(state, entry, effects, levelsFor);
  }
}

/** Proven by one look-up, and so reported with the same mark. */
function isAlike(one: LedgerEntry, other: LedgerEntry): boolean {
  if (one.state.kind !== "absent" || other.state.kind !== "absent") return false;
  const { asOf, sinceMs } = one.state;
  return asOf === other.state.asOf && sinceMs === other.state.sinceMs && one.attempt === other.attempt;
}

function hasReached(state: TrackerState, level: string, { epoch, offset }: LogPosition): boolean {
  const mark = markIn(state, epoch, level);
  return mark !== null && mark >= offset;
}

/**
 * Attempts that no mark alone can judge, by state. An attempt that is being looked up counts as
 * unproven, and so does one whose id a living attempt holds: either can last for as long as the
 * primary does not answer.
 */
export function inDoubt({
  proofs,
  ledger,
}: TrackerState): Readonly<Record<"intent" | "unproven" | "absent" | "unplaced", number>> {
  let unproven = proofs.unproven.size + proofs.held.size;
  for (const { keys } of proofs.asked.values()) unproven += keys.length;
  const { absent, intents, unplaced } = ledger;
  return { intent: intents.size, unproven, absent: absent.size, unplaced: unplaced.size };
}

/**
 * Proven losses whose proof has not reached the weakest level at which it may be published, and how
 * long the oldest has waited.
 */
export function waitingLosses(state: TrackerState): { readonly count: number; readonly oldestMs: number } {
  const levelsFor = finalLevels(state);
  let count = 0;
  let oldestMs = 0;
  for (const key of state.ledger.absent) {
    const entry = state.ledger.entries.get(key);
    if (entry?.state.kind !== "absent") continue;
    const { asOf, sinceMs } = entry.state;
    const [weakest] = levelsFor(entry);
    if (weakest !== undefined && hasReached(state, weakest, asOf)) continue;
    count++;
    oldestMs = Math.max(oldestMs, state.nowMs - sinceMs);
  }
  return { count, oldestMs };
}

/**
 * The levels at which the proof of a loss may be reported, weakest first. Below the exposure level
 * another node may still be promoted, or kept, that has the transaction and not the tombstone: its
 * client would run it twice. An operator's command for this history is a decision already, and then
 * whatever the survivors can reach will do.
 */
function finalLevels(state: TrackerState): (entry: LedgerEntry) => readonly string[] {
  const names = levelNames(state);
  const safe = names.slice(Math.max(0, names.indexOf(state.config.exposureLevel)));
  const reachable = reachableLevels(state);
  const reachableSafe = reachable.filter((name) => safe.includes(name));
  // A level that is out of reach now may have been reached before.
  const byAncestry = reachableSafe.length > 0 ? reachableSafe : safe.slice(0, 1);
  const chosen = new Map<EpochId, boolean>();
  return ({ attempt }) => {
    let isCommanded = chosen.get(attempt);
    if (isCommanded === undefined) chosen.set(attempt, (isCommanded = wasChosenOver(state, attempt)));
    return isCommanded ? reachable : byAncestry;
  };
}

/**
 * A read left no receipt: another tracker's mark, which is on its way through the store, may say
 * that it was kept.
 */
function mayBeKept(state: TrackerState, { kind, origin }: LedgerEntry): boolean {
  return kind === "read" && origin !== null && isWithinLimit(state, origin);
}

/**
 * A token named it. A tracker to which it was announced knows its metadata, and what is recorded
 * first is what counts.
 */
function isHearsay({ kind, announced, metadata }: LedgerEntry): boolean {
  return kind === "write" && !announced && metadata === null;
}

type LevelsFor = ReturnType<typeof finalLevels>;

/**
 * Publishes a loss at once, or as soon as its event may be recorded. Clients that ask have the
 * verdict meanwhile.
 */
export function publishLoss(
  state: TrackerState,
  entry: LedgerEntry,
  effects: Effect[],
  levelsFor?: LevelsFor,
): void {
  const { state: at } = entry;
  if (at.kind !== "lost") return;
  if (state.topology.standing.kind === "following") noticeBrokenLoss(state, entry, at.broken, effects);
  const settledAt = publishableAt(state, entry, levelsFor);
  const isPublished = settledAt !== undefined;
  if (isPublished !== at.isPublished) effects.push({ kind: "save", entry });
  restate(entry, { ...at, settledAt: settledAt ?? at.settledAt, isPublished });
  noteUnpublished(state, entry.key, !isPublished);
  if (isPublished) publish(state, entry, effects);
}

/**
 * The level at which a loss may be published now. Consumers act in the current history, so its id
 * has to be settled there.
 */
function publishableAt(state: TrackerState, entry: LedgerEntry, levelsFor?: LevelsFor): string | undefined {
  const { standing } = state.topology;
  const { config, nowMs } = state;
  const { state: at } = entry;
  if (standing.kind !== "following" || at.kind !== "lost") return undefined;
  const isFresh = nowMs - (state.ledger.finished.get(entry.key) ?? -Infinity) < config.intentGraceMs;
  if (isFresh && isHearsay(entry)) return undefined;
  // A broken promise is one in every history, and a read has no id.
  if (at.reappeared || at.broken !== 0 || entry.kind === "read") return at.settledAt;
  const { asOf } = at;
  if (asOf?.epoch !== standing.epoch) return undefined;
  return (levelsFor ?? finalLevels(state))(entry).findLast((level) => hasReached(state, level, asOf));
}

function publish(state: TrackerState, entry: LedgerEntry, effects: Effect[]): void {
  if (entry.state.kind !== "lost") return;
  const judged = state.config.levels.map(({ name }) => [name, judgeEntry(state, entry, name)] as const);
  const verdicts: Record<string, Verdict> = Object.fromEntries(
    judged.map(([name, judgement]) => [name, judgement.verdict]),
  );
  effects.push({
    kind: "publish_verdict",
    published: {
      id: entry.id,
      attempt: entry.attempt,
      kind: entry.kind,
      origin: entry.origin,
      owner: entry.owner.owner,
      verdicts,
      rule: judged.at(-1)?.[1].rule ?? "R6 absent",
      settledAt: entry.state.settledAt,
      retriedIn: entry.state.retriedIn,
      metadata: entry.metadata,
    },
  });
}
