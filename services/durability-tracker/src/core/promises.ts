// Compares the promises that a level has made about an epoch's log with what the next history has
// of it.
import { type EpochId, type Offset, parseOffset } from "@highwater/protocol";
import { levelBit } from "./levels.ts";
import { type Effect } from "./effects.ts";
import { type LedgerEntry, type Own, type Proofs, type TrackerState } from "./types.ts";
import { isCovered, keptOf, knownMark } from "./verdict.ts";

const own = ({ proofs }: TrackerState): Pick<Own<Proofs>, "brokenPromises"> => proofs as Own<Proofs>;

/**
 * An epoch has begun after `before`. Every epoch that it ended is held against its history: those
 * that it went on from, and those that it has given up.
 */
export function noticeBrokenPromises(
  state: TrackerState,
  before: EpochId | undefined,
  effects: Effect[],
): void {
  if (before === undefined) return;
  const own = new Set(state.topology.ancestry.map(({ id }) => id));
  const chain = state.topology.epochs.ancestry(before);
  const parted = chain.findIndex(({ id }) => own.has(id));
  const common = chain[parted];
  // It is not known that the two have met.
  if (common === undefined) return;
  const from = state.topology.ancestry.findIndex(({ previous }) => previous === common.id);
  for (const record of from < 0 ? [] : state.topology.ancestry.slice(from)) {
    const kept = keptOf(record);
    if (record.previous !== null && kept !== null)
      publishBroken(state, record.previous as EpochId, kept, effects);
  }
  // The new history has nothing of what was committed in them.
  for (const { id, startOffset } of chain.slice(0, parted))
    publishBroken(state, id as EpochId, BigInt(startOffset) as Offset, effects);
}

/**
 * The levels that had promised more of the ended epoch's log than this history is known to have.
 * No ledger holds a transaction that every level had: only the event says that it may be gone.
 */
function publishBroken(state: TrackerState, ended: EpochId, kept: Offset, effects: Effect[]): void {
  for (const { name, rule } of state.config.levels) {
    const mark = knownMark(state, ended, name);
    if (mark !== null && mark > kept && isCovered(state, rule, ended))
      publishOnce(state, { level: name, epoch: ended, from: kept, to: mark }, effects);
  }
}

/**
 * A loss that breaks a promise proves that the level's mark was not kept, also where no limit says
 * so.
 */
export function noticeBrokenLoss(
  state: TrackerState,
  entry: LedgerEntry,
  broken: number,
  effects: Effect[],
): void {
  const { origin, kind } = entry;
  if (broken === 0 || origin === null) return;
  for (const { name, rule } of state.config.levels) {
    // A failover may take a hundred thousand at once: reported losses are not worked out again.
    if ((broken & levelBit(state, name)) === 0 || isPublished(state, name, origin.epoch)) continue;
    // Only the two verdicts about this one contradict each other: the level promised nothing.
    if (!isCovered(state, rule, origin.epoch, kind)) continue;
    const kept = provenEnd(state, origin.epoch) ?? origin.offset;
    const from = kept < origin.offset ? kept : origin.offset - 1n;
    const mark = knownMark(state, origin.epoch, name);
    const to = mark !== null && mark > origin.offset ? mark : origin.offset;
    publishOnce(state, { level: name, epoch: origin.epoch, from, to }, effects);
  }
}

/**
 * Up to where the current history has the log of an epoch that it has ended; null where its records
 * do not say.
 */
function provenEnd({ topology: { ancestry, epochs } }: TrackerState, ended: EpochId): bigint | null {
  const successor = ancestry.find(({ previous }) => previous === ended);
  if (successor !== undefined) return parseOffset(successor.forkOffset ?? "") ?? null;
  const own = new Set(ancestry.map(({ id }) => id));
  const chain = epochs.ancestry(ended);
  const hasMet = !own.has(ended) && chain.some(({ id }) => own.has(id));
  return hasMet ? (parseOffset(chain[0]?.startOffset ?? "") ?? null) : null;
}

function isPublished(state: TrackerState, level: string, epoch: EpochId): boolean {
  return state.proofs.brokenPromises.has(`${epoch}/${level}`);
}

function publishOnce(
  state: TrackerState,
  range: { level: string; epoch: EpochId; from: bigint; to: bigint },
  effects: Effect[],
): void {
  if (isPublished(state, range.level, range.epoch)) return;
  own(state).brokenPromises.add(`${range.epoch}/${range.level}`);
  const transactions = countBetween(state, range.epoch, range.from, range.to);
  effects.push({ kind: "publish_broken_promise", ...range, transactions });
}

function countBetween(state: TrackerState, epoch: EpochId, from: bigint, to: bigint): number {
  let count = 0;
  for (const { origin, kind } of state.ledger.entries.values())
    if (kind === "write" && origin?.epoch === epoch && origin.offset > from && origin.offset <= to) count++;
  return count;
}
