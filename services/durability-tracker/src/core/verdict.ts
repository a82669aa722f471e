// The rules: what is the verdict of a transaction at a level, and by which evidence. Missing evidence is `pending`.
import {
  type EpochId,
  outranks,
  parseOffset,
  type TokenKind,
  type TxnId,
  type Verdict,
} from "@highwater/protocol";
import { entryKey } from "./ledger.ts";
import { markIn } from "./marks.ts";
import { type Entry, type Place, type TrackerState } from "./types.ts";

export interface Judgement {
  readonly verdict: Verdict;
  /** Rule of SPEC.md. */
  readonly rule: string;
  /** Where it is judged now. */
  readonly place: Place;
  readonly retriedIn: EpochId | null;
  readonly settledAt: string | null;
  /** True when only a look-up of the receipt can tell: the caller presents the token to the core. */
  readonly needsProof: boolean;
}

const plain = { retriedIn: null, settledAt: null, needsProof: false } as const;

/** The verdict of a token that the ledger may or may not hold. */
export function judge(
  state: TrackerState,
  token: { readonly id: TxnId; readonly attempt: EpochId; readonly kind: TokenKind; readonly place: Place },
  level: string,
): Judgement {
  const held = state.entries.get(entryKey(token.id, token.attempt));
  if (held !== undefined && held.origin !== null) return judgeEntry(state, held, level);
  const carried = carry(state, token.place);
  if (carried === null) {
    const needsProof = hasEnded(state, token.place.epoch);
    return {
      ...plain,
      verdict: "pending",
      rule: needsProof ? "R5 being proven" : "R10 unknown epoch",
      place: token.place,
      needsProof,
    };
  }
  if (carried !== token.place && (reachedBits(state, token.place) & levelBit(state, level)) !== 0)
    return { ...plain, verdict: "durable", rule: "R2 was durable", place: carried };
  return waitingAt(state, carried, level, carried === token.place ? "R1 mark" : "R3 carried over");
}

export function judgeEntry(state: TrackerState, entry: Entry, level: string): Judgement {
  const bit = levelBit(state, level);
  const origin = entry.origin ?? { epoch: entry.attempt, offset: state.highestPending };
  const { state: at } = entry;
  const wasDurable = (entry.reached & bit) !== 0;
  switch (at.kind) {
    case "gone": {
      const verdict = at.reappeared ? "broken" : lostVerdict(state, entry, level);
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
        place: origin,
        retriedIn: at.retriedIn,
        settledAt: at.settledAt,
        needsProof: false,
      };
    }
    case "expired":
      return { ...plain, verdict: wasDurable ? "durable" : "expired", rule: "R9 expired", place: origin };
    case "unknown":
      return { ...plain, verdict: "unknown", rule: "R10 unknown id", place: origin };
    case "pending":
      if (wasDurable) return { ...plain, verdict: "durable", rule: "R2 was durable", place: at.place };
      return waitingAt(
        state,
        at.place,
        level,
        at.place.epoch === origin.epoch ? "R1 mark" : "R3 carried over",
      );
    case "absent":
    case "asked":
    case "unproven":
    case "intent":
      // What was durable may turn out to be broken: while it is being looked up, nothing is said.
      return { ...plain, verdict: "pending", rule: "R5 being proven", place: origin };
  }
}

/** Pending or durable by the marks of the place's epoch, in which it is known to be part of the history. */
function waitingAt(state: TrackerState, place: Place, level: string, rule: string): Judgement {
  const mark = isCurrent(state, place.epoch) ? markIn(state, place.epoch, level) : null;
  if (mark !== null && mark >= place.offset) return { ...plain, verdict: "durable", rule, place };
  return { ...plain, verdict: "pending", rule: "R4 waiting", place };
}

/** The epoch that reigns, or did when somebody last reigned. */
function isCurrent(state: TrackerState, epoch: EpochId): boolean {
  return state.ancestry.at(-1)?.id === epoch;
}

/** True when the reigning history has ended the epoch: contains it, supersedes it or was chosen over it. */
export function hasEnded(state: TrackerState, epoch: EpochId): boolean {
  if (state.standing.kind !== "reigning" || isCurrent(state, epoch) || !state.epochs.has(epoch)) return false;
  return outranks(state.ancestry, epoch, state.epochs);
}

/**
 * The place in the current epoch from which a transaction at `place` of an earlier one continues, if that needs no
 * look-up: in every step its place is proven to be in the successor's history. Null when a receipt has to be looked up.
 */
export function carry(state: TrackerState, place: Place): Place | null {
  let at = place;
  for (const [index, record] of state.ancestry.entries()) {
    if (record.id !== at.epoch) continue;
    const successor = state.ancestry[index + 1];
    if (successor === undefined) return at;
    const fork = parseOffset(successor.forkOffset);
    const start = parseOffset(successor.startOffset);
    // Past the first step it stands at an epoch's own record, which the successor's history contains by being its successor.
    const proven = at !== place || (fork !== undefined && at.offset <= fork);
    if (!proven || start === undefined) return null;
    at = { epoch: successor.id as EpochId, offset: start };
  }
  return isCurrent(state, at.epoch) ? at : null;
}

/** The verdict at a level of a transaction that is proven absent. */
export function lostVerdict(state: TrackerState, entry: Entry, level: string): "lost" | "broken" | "durable" {
  if ((entry.reached & levelBit(state, level)) === 0) return "lost";
  return coversLoss(state, entry, level) ? "broken" : "durable";
}

/**
 * Does the level promise to survive what happened? The primary's own disk survives a crash of the process or the host, not
 * that another node takes over; every other level survives the loss of the primary and whatever is near it.
 */
function coversLoss(state: TrackerState, entry: Entry, level: string): boolean {
  const rule = state.config.levels.find(({ name }) => name === level)?.rule;
  if (rule === undefined || !("primary" in rule)) return true;
  const born = state.epochs.get(entry.origin?.epoch ?? entry.attempt)?.node;
  const { standing } = state;
  return standing.kind === "reigning" && born === standing.node;
}

export function levelBit(state: TrackerState, level: string): number {
  return 1 << state.config.levels.findIndex(({ name }) => name === level);
}

/** The levels at which a place was durable when its epoch ended, as far as anybody's marks tell. */
export function reachedBits(state: TrackerState, place: Place): number {
  const successors = state.epochs.records().filter((record) => record.previous === place.epoch);
  let bits = 0;
  for (const { name } of state.config.levels) {
    const own = markIn(state, place.epoch, name);
    const told = successors.map((record) => parseOffset(record.finalMarks[name] ?? "") ?? null);
    if ([own, ...told].some((mark) => mark !== null && mark >= place.offset)) bits |= levelBit(state, name);
  }
  return bits;
}
