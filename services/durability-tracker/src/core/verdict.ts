// The rules: the verdict of a transaction at a level, and the evidence for it. Missing evidence is
// `pending`.
import {
  type EpochId,
  type EpochRecord,
  keptEnd,
  type LevelRule,
  maxOffset,
  type Offset,
  outranks,
  type OwnedId,
  parseOffset,
  type TokenKind,
  type Verdict,
} from "@highwater/protocol";
import { entryKey } from "./entry-key.ts";
import { hasAll, levelBit } from "./levels.ts";
import { isMetByCommit, markIn } from "./marks.ts";
import { currentEpoch } from "./topology.ts";
import { type LedgerEntry, type LogPosition, type TrackerState } from "./types.ts";

export interface Judgement {
  readonly verdict: Verdict;
  /** Rule of SPEC.md. */
  readonly rule: string;
  /** Where it is judged now. */
  readonly position: LogPosition;
  readonly retriedIn: EpochId | null;
  readonly settledAt: string | null;
  /**
   * True when only a look-up of the receipt can answer: the caller presents the token to the core.
   */
  readonly needsProof: boolean;
}

const plain = { retriedIn: null, settledAt: null, needsProof: false } as const;

export interface Token extends OwnedId {
  readonly attempt: EpochId;
  readonly kind: TokenKind;
  readonly position: LogPosition;
  /** The epoch before that of its place. Null: it does not say. */
  readonly parent?: EpochId | null;
  /** Its entryKey(), from a client that asks again and again. */
  readonly key?: string;
}

/** The verdict of a token that the ledger may or may not hold. */
export function judge(state: TrackerState, token: Token, level: string): Judgement {
  if (token.kind === "position") return judgePosition(state, token, level);
  const held = state.ledger.entries.get(token.key ?? entryKey(token, token.attempt));
  // A reported loss binds, even if its position was never learned.
  if (held !== undefined && (held.origin !== null || held.state.kind === "lost")) {
    if (showsMore(state, held, token.position)) {
      const position = held.origin ?? token.position;
      return { ...plain, verdict: "pending", rule: "R5 being proven", position, needsProof: true };
    }
    const judged = judgeEntry(state, held, level);
    // The answer rests on the ledger and not on the token: it must not be forgotten before the
    // token can give the same answer.
    const isBorrowed = judged.verdict === "durable" && isOther(held, token.position) && !held.hasOtherTokens;
    return isBorrowed ? { ...judged, needsProof: true } : judged;
  }
  const carried = carry(state, token.position);
  if (carried === null) {
    if (isForgotten(state, token))
      return { ...plain, verdict: "expired", rule: "R9 expired", position: token.position };
    return {
      ...waitingAt(state, token.position, level, "R1 mark"),
      needsProof: hasEnded(state, token.position.epoch) || namesParent(state, token),
    };
  }
  return judgeCarried(state, token.position, carried, level);
}

/** What a pending verdict of a token that the ledger holds rests on, as it was judged. */
export interface Ground {
  readonly entry: LedgerEntry;
  readonly at: LedgerEntry["state"];
  readonly origin: LogPosition;
  readonly epoch: EpochId | null;
}

/**
 * Null: nothing short of judge() says whether the verdict is still pending. That is so for whatever
 * is not in the ledger, or has another position there than in the token.
 */
export function groundOf(state: TrackerState, token: Token): Ground | null {
  const entry = state.ledger.entries.get(token.key ?? entryKey(token, token.attempt));
  if (entry?.origin == null || token.kind === "position" || isOther(entry, token.position)) return null;
  return { entry, at: entry.state, origin: entry.origin, epoch: currentEpoch(state) };
}

/**
 * True when judge() would say pending again, for the same reason. It looks at next to nothing:
 * after a failover clients ask for a hundred thousand verdicts again and again until the last one
 * is found.
 */
export function isUnchanged(state: TrackerState, ground: Ground, level: string): boolean {
  const { entry, at, origin, epoch } = ground;
  if (entry.state !== at || entry.origin !== origin || currentEpoch(state) !== epoch) return false;
  switch (at.kind) {
    case "pending":
      return (entry.reached & levelBit(state, level)) === 0 && isHeld(state, entry);
    case "unproven":
    case "asked":
    case "absent":
    case "intent":
      return isHeld(state, entry);
    case "lost":
    case "expired":
    case "unknown":
      return false;
  }
}

function isHeld({ ledger }: TrackerState, entry: LedgerEntry): boolean {
  return ledger.entries.get(entry.key) === entry;
}

function judgeCarried(
  state: TrackerState,
  position: LogPosition,
  carried: LogPosition,
  level: string,
): Judgement {
  const judged = waitingAt(state, carried, level, carried === position ? "R1 mark" : "R3 carried over");
  if (judged.verdict === "durable" || carried === position || !wasReached(state, position, level))
    return judged;
  return { ...plain, verdict: "durable", rule: "R2 was durable", position: carried };
}

function wasReached(state: TrackerState, position: LogPosition, level: string): boolean {
  return (reachedBits(state, position) & levelBit(state, level)) !== 0;
}

/**
 * No receipt can prove it, and its commit may lie anywhere below its position. So marks and what is
 * carried over are all the evidence that there is, and no ledger holds anything of it.
 */
function judgePosition(state: TrackerState, token: Token, level: string): Judgement {
  const { position } = token;
  const carried = carry(state, position);
  if (carried !== null) return judgeCarried(state, position, carried, level);
  if (!hasEnded(state, position.epoch))
    return { ...waitingAt(state, position, level, "R1 mark"), needsProof: namesParent(state, token) };
  const fate = wasReached(state, position, level) ? fateOf(state, position, level) : "not known";
  if (fate === "given up") return { ...plain, verdict: "broken", rule: "R7 broken", position };
  if (fate === "kept") return { ...plain, verdict: "durable", rule: "R2 was durable", position };
  // A mark that another tracker has seen may be on its way.
  if (state.nowMs - state.topology.epochSinceMs < state.config.intentGraceMs)
    return { ...plain, verdict: "pending", rule: "R5 being proven", position };
  return { ...plain, verdict: "unknown", rule: "R11 no receipt", position };
}

/**
 * What became of a place that was durable at the level. Kept is also one that is gone, if the level
 * never promised to survive what happened.
 */
function fateOf(
  state: TrackerState,
  position: LogPosition,
  level: string,
): "kept" | "given up" | "not known" {
  const rule = state.config.levels.find(({ name }) => name === level)?.rule;
  if (rule === undefined || !isCovered(state, rule, position.epoch, "position")) return "kept";
  const successor = successorOf(state, position.epoch);
  if (successor === undefined) return "given up";
  const end = keptOf(successor);
  if (end === null || position.offset <= end) return "kept";
  return successor.forkLimit === null ? "not known" : "given up";
}

function successorOf({ topology: { ancestry } }: TrackerState, epoch: EpochId): EpochRecord | undefined {
  return ancestry.find(({ previous }) => previous === epoch);
}

/**
 * Above this offset a history has nothing of the log of the epoch before `record`, or it is not
 * known to have any. Null: it has all of that log.
 */
export function keptOf({ cause, forkOffset, forkLimit }: EpochRecord): Offset | null {
  const limit = forkLimit === null ? null : (BigInt(forkLimit) as Offset);
  return keptEnd({ cause, fork: BigInt(forkOffset) as Offset, limit });
}

/** No record of its epoch was ever seen, and where that epoch began decides. */
function namesParent({ topology: { epochs } }: TrackerState, { position, parent }: Token): boolean {
  return parent != null && !epochs.has(position.epoch) && !epochs.hasParent(position.epoch);
}

/**
 * A read leaves no receipt that could have expired. But its loss may have been reported and have
 * left the ledger, and what marks say of it now may differ: a mark may have been learned after the
 * loss was reported, or be known to another tracker alone.
 */
function isForgotten(state: TrackerState, { kind, position }: Token): boolean {
  return (
    kind === "read" &&
    state.topology.endedAtMs.get(position.epoch) === -Infinity &&
    hasEnded(state, position.epoch)
  );
}

/**
 * The token of a repeated request has a position of its own, above the one that its attempt is
 * known by.
 */
export function isOther({ state: at, origin }: LedgerEntry, position: LogPosition): boolean {
  if (at.kind === "lost" || origin === null) return false;
  return origin.epoch !== position.epoch || origin.offset !== position.offset;
}

/**
 * What the holder of a token could read off the marks binds, even if the ledger found the attempt
 * by a look-up alone.
 */
function showsMore(state: TrackerState, held: LedgerEntry, position: LogPosition): boolean {
  const { origin, reached } = held;
  if (origin?.epoch === position.epoch && origin.offset === position.offset) return false;
  return hasReappeared(state, held, position) || (reachedBits(state, position) & ~reached) !== 0;
}

/**
 * Reported lost, and its position is proven to be in the current history: no look-up has to say so.
 */
export function hasReappeared(
  state: TrackerState,
  { state: at, kind }: LedgerEntry,
  position: LogPosition,
): boolean {
  if (at.kind !== "lost" || at.reappeared) return false;
  return carry(state, position) !== null || (kind === "read" && keptPlace(state, position) !== null);
}

/**
 * Where a read goes on that is kept, though it is not carried over; null when that is not known. If
 * its place was on any disk, it was on the primary's, so the epoch's log had no other records there
 * ever after; and the successor's history followed that log beyond the place. A server that goes on
 * has all of its log, on a disk or not, and the place may be above the successor's record.
 */
export function keptPlace(state: TrackerState, position: LogPosition): LogPosition | null {
  const successor = successorOf(state, position.epoch);
  const current = state.topology.ancestry.at(-1);
  if (successor === undefined || current === undefined || !isWithinLimit(state, position)) return null;
  if (keptOf(successor) === null) {
    const start = parseOffset(successor.startOffset) ?? position.offset;
    const offset = maxOffset(start, position.offset);
    const next: LogPosition = { epoch: successor.id as EpochId, offset };
    return carry(state, next) ?? keptPlace(state, next);
  }
  if (reachedBits(state, position) === 0) return null;
  return { epoch: current.id as EpochId, offset: BigInt(current.startOffset) as Offset };
}

export function judgeEntry(state: TrackerState, entry: LedgerEntry, level: string): Judgement {
  const bit = levelBit(state, level);
  const origin = entry.origin ?? { epoch: entry.attempt, offset: state.ledger.highestPending };
  const { state: at } = entry;
  const wasDurable = (entry.reached & bit) !== 0;
  switch (at.kind) {
    case "lost": {
      const verdict = at.reappeared || (at.broken & bit) !== 0 ? "broken" : wasDurable ? "durable" : "lost";
      const rule = at.reappeared
        ? "R8 reappeared"
        : verdict === "durable"
          ? "R2 was durable"
          : verdict === "broken"
            ? "R7 broken"
            : "R6 absent";
      return {
        verdict,
        rule,
        position: origin,
        retriedIn: at.retriedIn,
        settledAt: at.settledAt,
        needsProof: false,
      };
    }
    case "expired": {
      const verdict = wasDurable && isStillPromised(state, entry, level) ? "durable" : "expired";
      return { ...plain, verdict, rule: "R9 expired", position: origin };
    }
    case "unknown":
      return { ...plain, verdict: "unknown", rule: "R10 unknown id", position: origin };
    case "pending": {
      const here = at.position.epoch === origin.epoch;
      const judged = waitingAt(state, at.position, level, here ? "R1 mark" : "R3 carried over");
      if (judged.verdict === "durable" || !wasDurable) return judged;
      return { ...plain, verdict: "durable", rule: "R2 was durable", position: at.position };
    }
    case "absent":
    case "asked":
    case "unproven":
    case "intent":
      // What was durable may turn out to be broken: while it is being looked up, nothing is said.
      return { ...plain, verdict: "pending", rule: "R5 being proven", position: origin };
  }
}

/**
 * A promise that the ledger has held since the attempt was announced binds, unless the level's
 * promises of this part of the log are broken. A token alone shows no more than that a mark passed
 * its position: its loss may have been reported, and have left the ledger. That takes longer than
 * `keepVerdictMs` from the end of its epoch.
 */
function isStillPromised(state: TrackerState, { announced, origin }: LedgerEntry, level: string): boolean {
  if (origin === null) return false;
  const isRecent = state.nowMs - state.topology.epochSinceMs < state.config.keepVerdictMs;
  if (!announced && !(state.topology.seenEnd === origin.epoch && isRecent)) return false;
  const rule = state.config.levels.find(({ name }) => name === level)?.rule;
  if (rule === undefined || !isCovered(state, rule, origin.epoch)) return true;
  if (state.proofs.brokenPromises.has(`${origin.epoch}/${level}`)) return false;
  const successor = successorOf(state, origin.epoch);
  const end = successor === undefined ? null : keptOf(successor);
  return end === null || origin.offset <= end;
}

/**
 * Pending or durable by the marks of the place's epoch, in which it is known to be part of the
 * history.
 */
function waitingAt(state: TrackerState, position: LogPosition, level: string, rule: string): Judgement {
  if (!isCurrent(state, position.epoch)) {
    const why = isEnded(state, position.epoch) ? "R5 being proven" : "R10 unknown epoch";
    return { ...plain, verdict: "pending", rule: why, position };
  }
  const mark = markIn(state, position.epoch, level);
  if (mark !== null && mark >= position.offset) return { ...plain, verdict: "durable", rule, position };
  if (isMetByCommit(state, position.epoch, level)) return { ...plain, verdict: "durable", rule, position };
  return { ...plain, verdict: "pending", rule: "R4 waiting", position };
}

/** The current epoch, or the last one while there is none. */
function isCurrent(state: TrackerState, epoch: EpochId): boolean {
  return currentEpoch(state) === epoch;
}

/**
 * True when the current history has ended the epoch: contains it, supersedes it, was chosen over it
 * or has left it behind.
 */
export function hasEnded(state: TrackerState, epoch: EpochId): boolean {
  return state.topology.standing.kind === "following" && isEnded(state, epoch);
}

/** ... or the last one while there is none. */
function isEnded(state: TrackerState, epoch: EpochId): boolean {
  if (isCurrent(state, epoch)) return false;
  return outranks(state.topology.ancestry, epoch, state.topology.epochs) || isLeftBehind(state, epoch);
}

/**
 * It descends from an epoch that this history has gone on from, is no part of this history, and has
 * not ended it. Another node has authority, so its own node has none: what committed there is not
 * in the current history. An operator may still choose it; therefore losses are reported no sooner
 * than publishProven() says.
 */
function isLeftBehind({ topology: { ancestry, epochs } }: TrackerState, epoch: EpochId): boolean {
  const current = ancestry.at(-1)?.id as EpochId | undefined;
  const chain = epochs.ancestry(epoch);
  const common = lastCommon(ancestry, chain);
  if (current === undefined || common === undefined || common === current) return false;
  return !outranks(chain.reverse(), current, epochs);
}

/**
 * True when an operator's command, given after this history and the epoch's had parted, chose this
 * one.
 */
export function wasChosenOver({ topology: { ancestry, epochs } }: TrackerState, epoch: EpochId): boolean {
  const common = lastCommon(ancestry, epochs.ancestry(epoch));
  const from = ancestry.findIndex(({ id }) => id === common);
  // A command may confirm an epoch after it has begun: its newest record says so.
  const isChoice = ({ id, supersedes }: EpochRecord): boolean =>
    (common !== undefined && epochs.get(id as EpochId)?.commanded === true) || supersedes.includes(epoch);
  return ancestry.slice(from + 1).some(isChoice);
}

/**
 * Where a history, newest first, has parted from this one; undefined when it is not known that they
 * have met.
 */
function lastCommon(ancestry: readonly EpochRecord[], chain: readonly EpochRecord[]): string | undefined {
  const own = new Set(ancestry.map(({ id }) => id));
  return chain.find(({ id }) => own.has(id))?.id;
}

/**
 * The place in the current epoch from which a transaction at `position` of an earlier one
 * continues, if that needs no look-up: in every step its place is proven to be in the successor's
 * history. Null when a receipt has to be looked up.
 */
export function carry(state: TrackerState, position: LogPosition): LogPosition | null {
  let at = position;
  for (const [index, record] of state.topology.ancestry.entries()) {
    if (record.id !== at.epoch) continue;
    const successor = state.topology.ancestry[index + 1];
    if (successor === undefined) return at;
    const next = stepInto(state, at, successor);
    if (next === null) return null;
    at = next;
  }
  return isCurrent(state, at.epoch) ? at : null;
}

/**
 * Where a transaction at `position` continues in a successor of its epoch; null when that is not
 * proven.
 */
function stepInto(state: TrackerState, position: LogPosition, successor: EpochRecord): LogPosition | null {
  const proven = provenEnd(state, position.epoch, successor);
  const start = parseOffset(successor.startOffset);
  if (proven === null || position.offset > proven || start === undefined) return null;
  return { epoch: successor.id as EpochId, offset: start };
}

/** Up to where the successor's history is proven to have the epoch's log. */
export function provenEnd(state: TrackerState, epoch: EpochId, successor: EpochRecord): Offset | null {
  // What stands at its epoch's own record came from earlier epochs: the successor's history
  // contains the record by being its successor, and nothing commits in an epoch below it.
  const own = parseOffset(state.topology.epochs.get(epoch)?.startOffset ?? "") ?? null;
  return higherOf(parseOffset(successor.forkOffset) ?? null, own);
}

/**
 * The successor's history may have followed the epoch's log up to the place. Without a limit it has
 * all of the log if the server that wrote it goes on; else nothing says that it followed it.
 */
export function isWithinLimit(state: TrackerState, position: LogPosition): boolean {
  const successor = successorOf(state, position.epoch);
  if (successor === undefined) return false;
  const end = keptOf(successor);
  if (end === null) return true;
  return successor.forkLimit !== null && position.offset <= end;
}

/**
 * The levels whose promise the loss of an entry violates, as bits. Decided once, when the loss is
 * reported: what happens to the store afterwards says nothing of this loss.
 */
export function brokenBits(state: TrackerState, entry: LedgerEntry): number {
  let bits = 0;
  for (const { name, rule } of state.config.levels)
    if (
      (entry.reached & levelBit(state, name)) !== 0 &&
      isCovered(state, rule, entry.origin?.epoch ?? entry.attempt, entry.kind)
    )
      bits |= levelBit(state, name);
  return bits;
}

/**
 * True when the rule promises that what happened since the epoch loses nothing of it, or nothing
 * without a receipt.
 */
export function isCovered(
  state: TrackerState,
  rule: LevelRule,
  epoch: EpochId,
  kind: TokenKind = "write",
): boolean {
  return !("primary" in rule) || stayedOnNode(state, epoch, kind);
}

/**
 * The primary's own disk survives a crash of the process or the host, not that another node takes
 * over; every other level survives the loss of the primary and of whatever is near it. A
 * transaction without a receipt is lost by the first epoch after its own history, or by none: later
 * ones do not count, and a verdict that was forgotten is found again.
 */
function stayedOnNode(state: TrackerState, epoch: EpochId, kind: TokenKind): boolean {
  const before = new Set(state.topology.epochs.ancestry(epoch).map(({ id }) => id));
  const node = state.topology.epochs.get(epoch)?.node;
  const since = state.topology.ancestry.filter(({ id }) => !before.has(id));
  return (kind === "write" ? since : since.slice(0, 1)).every((record) => record.node === node);
}

/**
 * The levels at which a position was durable in its epoch, or where it was carried over to from
 * there, as far as anybody's marks show. The history in which it was durable may be one that is not
 * current any more.
 */
export function reachedBits(state: TrackerState, position: LogPosition): number {
  const met = new Set<EpochId>();
  const open = [position];
  let bits = 0;
  for (let at = open.pop(); at !== undefined && !hasAll(state, bits); at = open.pop()) {
    if (met.has(at.epoch)) continue;
    met.add(at.epoch);
    const here = at;
    const successors = state.topology.epochs.records().filter((record) => record.previous === here.epoch);
    for (const { name } of state.config.levels) {
      const own = markIn(state, here.epoch, name);
      const recorded = successors.map((record) => parseOffset(record.finalMarks[name] ?? "") ?? null);
      if ([own, ...recorded].some((mark) => mark !== null && mark >= here.offset))
        bits |= levelBit(state, name);
    }
    for (const successor of successors) {
      const next = stepInto(state, here, successor);
      if (next !== null) open.push(next);
    }
  }
  return bits;
}

/**
 * How far an epoch's log is known to have been durable at a level, in the epoch or where it was
 * carried over to from there: the highest place that has the level's bit in reachedBits(). `met`:
 * successors that are not asked.
 */
export function knownMark(
  state: TrackerState,
  epoch: EpochId,
  level: string,
  met = new Set<EpochId>(),
): Offset | null {
  let highest = markIn(state, epoch, level);
  const own = parseOffset(state.topology.epochs.get(epoch)?.startOffset ?? "") ?? null;
  met.add(epoch);
  for (const successor of state.topology.epochs.records()) {
    const id = successor.id as EpochId;
    if (successor.previous !== epoch || met.has(id)) continue;
    highest = higherOf(highest, parseOffset(successor.finalMarks[level] ?? "") ?? null);
    const start = parseOffset(successor.startOffset);
    const there = knownMark(state, id, level, met);
    if (start === undefined || there === null || there < start) continue;
    for (const carried of [parseOffset(successor.forkOffset) ?? null, own])
      highest = higherOf(highest, carried);
  }
  return highest;
}

function higherOf(one: Offset | null, other: Offset | null): Offset | null {
  if (one === null || other === null) return one ?? other;
  return one > other ? one : other;
}
