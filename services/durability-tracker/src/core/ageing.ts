// Acts on the passing of time: settles forgotten intents, and removes old verdicts and entries that
// have been durable long enough.
import { type Departing, forgetDeparted, noteDeparted } from "./departed.ts";
import { expose, dropIdleSources } from "./exposure.ts";
import { tidyHeaps } from "./heaps.ts";
import { drop, dropFinished, enter, heldCount, retireWaiting } from "./ledger.ts";
import { levelBit } from "./levels.ts";
import { ageEpochs } from "./old-epochs.ts";
import { askForHeldAgain } from "./proofs.ts";
import { type Effect } from "./effects.ts";
import { type Ledger, type Own, type TrackerState } from "./types.ts";
import { hasEnded } from "./verdict.ts";

const MAX_RETIRED_PER_TICK = 1_000;

const own = ({ ledger }: TrackerState): Pick<Own<Ledger>, "retiring"> => ledger;

export function age(state: TrackerState, effects: Effect[]): void {
  settleForgotten(state, effects);
  askForHeldAgain(state);
  ageEpochs(state, effects);
  dropFinished(state, effects);
  retireDurable(state, effects);
  retireBacklog(state, effects);
  forgetDeparted(state, effects);
  tidyHeaps(state);
  dropIdleSources(state);
}

/**
 * The outcome of an intent is unknown. Its gateway may yet withdraw it, or announce its position.
 * In the current epoch it may also be under way still: its id is settled only when the deadlines of
 * all who announced it are over.
 */
function settleForgotten(state: TrackerState, effects: Effect[]): void {
  const { standing } = state.topology;
  const { config, nowMs } = state;
  if (standing.kind !== "following") return;
  for (const key of [...state.ledger.intents]) {
    const entry = state.ledger.entries.get(key);
    const ageMs = nowMs - (entry?.atMs ?? nowMs);
    if (entry === undefined || ageMs < Math.min(config.intentGraceMs, config.intentPatienceMs)) break;
    // An epoch that is neither may be the next one: a tombstone of this one would deny what commits
    // there.
    const forgotten = hasEnded(state, entry.attempt)
      ? Math.min(ageMs, nowMs - state.topology.epochSinceMs) >= config.intentGraceMs
      : entry.attempt === standing.epoch && ageMs >= Math.max(config.intentPatienceMs, entry.endsWithinMs);
    if (forgotten) enter(state, entry, { kind: "unproven" }, effects);
  }
}

/**
 * Goes round and round through the entries, oldest first: those that have to stay must not keep it
 * from the others.
 */
function retireDurable(state: TrackerState, effects: Effect[]): void {
  const { config, nowMs } = state;
  const round = own(state);
  const entries = (round.retiring ??= state.ledger.entries.values());
  const departing: Departing[] = [];
  for (let looked = 0; looked < MAX_RETIRED_PER_TICK; looked++) {
    const next = entries.next();
    if (next.done === true || nowMs - next.value.atMs < config.keepDurableMs) {
      round.retiring = null;
      break;
    }
    const entry = next.value;
    const beyondPrimary = entry.reached & ~primaryBits(state);
    if (entry.state.kind !== "pending" || beyondPrimary === 0) continue;
    const { id, kind, announced, owner, state: at } = entry;
    if (announced && kind === "write") departing.push({ ...at.position, id, owner: owner.owner });
    drop(state, entry, effects);
  }
  noteDeparted(state, departing, effects);
}

/**
 * The same of the backlog; and sooner when there are too many, for a level may be out of reach for
 * long.
 */
function retireBacklog(state: TrackerState, effects: Effect[]): void {
  const { backlog } = state.ledger;
  const { config, nowMs } = state;
  const beyondPrimary = config.levels.filter(({ rule }) => !("primary" in rule)).map(({ name }) => name);
  const others = heldCount(state) - backlog.size;
  const left = retireWaiting(
    state,
    beyondPrimary,
    (item, stay) => nowMs - item.atMs >= config.keepDurableMs || stay + others > config.maxKept,
  );
  // At risk still, if another level than the one that has it counts.
  for (const item of left) if (!backlog.hasReached(item, config.exposureLevel)) expose(state, -1, item);
  if (backlog.epoch !== null && left.length > 0) {
    const { epoch } = backlog;
    const departing = left.map(({ offset, id, owner }) => ({ epoch, offset, id, owner: owner.owner }));
    noteDeparted(state, departing, effects);
  }
  const through = left.at(-1)?.offset;
  if (through !== undefined) effects.push({ kind: "forget_waiting", through });
}

function primaryBits(state: TrackerState): number {
  return state.config.levels.reduce(
    (bits, { name, rule }) => ("primary" in rule ? bits | levelBit(state, name) : bits),
    0,
  );
}
