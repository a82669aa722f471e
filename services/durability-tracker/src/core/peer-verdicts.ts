// Broken verdicts of other trackers, read from the log of events. They were published, so they bind
// this tracker as well, whether it holds the attempt or not. Owns the consequences of such a
// verdict.
import { entryKey } from "./entry-key.ts";
import { enter, newEntry, reach } from "./ledger.ts";
import { levelBit } from "./levels.ts";
import { publishLoss } from "./proof.ts";
import { currentEpoch } from "./topology.ts";
import { type Effect, type Published } from "./effects.ts";
import { type LedgerEntry, type TrackerState } from "./types.ts";
import { brokenBits, reachedBits } from "./verdict.ts";

export function takePeerVerdicts(
  state: TrackerState,
  peerVerdicts: readonly Published[],
  effects: Effect[],
): void {
  for (const published of peerVerdicts) takePeerVerdict(state, published, effects);
}

function takePeerVerdict(state: TrackerState, published: Published, effects: Effect[]): void {
  const isBack = published.rule === "R8 reappeared";
  // Only of an epoch that has ended can anything be lost; this tracker may not know yet that it
  // has. But an attempt that the other had reported lost under another history can be back in the
  // current epoch.
  if (published.attempt === state.ledger.backlog.epoch && (!isBack || state.ledger.backlog.has(published)))
    return;
  const held = state.ledger.entries.get(entryKey(published, published.attempt));
  // In one history it cannot be both there and settled as lost: the other tracker could not see
  // its receipt, or speaks of a history that was given up, and then reports that it is back.
  if (!isBack && held !== undefined && isFound(state, held)) {
    effects.push({ kind: "refuse_peer_verdict", published });
    return;
  }
  const entry = held ?? entryOf(state, published);
  const bits = bitsOf(state, published, "broken");
  const durable = bitsOf(state, published, "durable");
  const { state: at } = entry;
  if (at.kind === "lost") {
    const broken = at.broken | bits;
    if (at.reappeared || (broken === at.broken && !isBack)) return;
    enter(state, entry, { ...at, broken, reappeared: isBack }, effects);
  } else {
    // An attempt that was reported durable here, and is lost to the other, is a promise that does
    // not hold.
    const broken = bits | (brokenBits(state, entry) & ~durable);
    const { settledAt, retriedIn } = published;
    // Durable where the level promises nothing about what happened. A loss that was reported here
    // stays one.
    reach(entry, durable);
    const lostState = { asOf: null, settledAt, retriedIn, reappeared: isBack, broken, isPublished: true };
    enter(state, entry, { kind: "lost", ...lostState }, effects);
  }
  reach(entry, bits);
  publishLoss(state, entry, effects);
}

/** Proven to be in the current history, by its receipt or its position. */
function isFound(state: TrackerState, { state: at }: LedgerEntry): boolean {
  return at.kind === "pending" && at.position.epoch === currentEpoch(state);
}

function entryOf(state: TrackerState, published: Published): LedgerEntry {
  const { id, attempt, kind, origin, owner, metadata } = published;
  // Its token alone was enough to read off the marks that it is durable.
  const reached = origin === null ? 0 : reachedBits(state, origin);
  return newEntry(state, { id, attempt, kind, announced: false, owner, origin, metadata, reached });
}

function bitsOf(state: TrackerState, { verdicts }: Published, wanted: "broken" | "durable"): number {
  let bits = 0;
  for (const [level, verdict] of Object.entries(verdicts))
    if (verdict === wanted) bits |= levelBit(state, level);
  return bits;
}
