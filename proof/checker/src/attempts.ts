// Finds the epochs in which each transaction committed and in which its values were read. A
// recorded answer is taken as it is. If the answer was lost, reads of the values show what
// happened.
import { type EpochId } from "./history.ts";
import { type ListView } from "./lists.ts";
import { getOrMake } from "./maps.ts";
import { attemptIn, type History, type Transaction, isVoid } from "./model.ts";

export interface Sighting extends ListView {
  readonly key: string;
  readonly epoch: EpochId;
}

/**
 * For each epoch, the longest list of each kind that was read there. The final state is included.
 */
export function sightingsOf({ transactions, finalLists, epochs }: History): Sighting[] {
  const byEpoch = new Map<EpochId, Map<object, Sighting>>();
  const note = (sighting: Sighting): void => {
    const known = getOrMake(byEpoch, sighting.epoch, () => new Map<object, Sighting>());
    const before = known.get(sighting.spine);
    if (before === undefined || before.length < sighting.length) known.set(sighting.spine, sighting);
  };
  for (const { readIn: epoch, reads } of transactions) {
    if (epoch === null) continue;
    for (const { key, spine, length } of reads) note({ key, spine, length, epoch });
  }
  if (epochs.last !== null) {
    for (const [key, { spine, length }] of finalLists) note({ key, spine, length, epoch: epochs.last });
  }
  return [...byEpoch.values()].flatMap((known) => [...known.values()]);
}

export function inferAttempts(history: History): void {
  const { transactions, writers, epochs } = history;
  for (const transaction of transactions) recordAttempts(transaction);
  const sightings = sightingsOf(history);
  for (const { spine, length, epoch } of sightings) {
    for (let at = 0; at < length; at++) writers.get(spine.values[at] ?? Number.NaN)?.seenIn.add(epoch);
  }
  for (const transaction of transactions) {
    if (!transaction.isInferred || isVoid(transaction)) continue;
    let found = transaction.attempts[0] ?? null;
    for (const epoch of transaction.seenIn)
      found = found === null ? epoch : (epochs.common(found, epoch) ?? found);
    if (found !== null) transaction.attempts = [found];
  }
  for (const sighting of sightings) lowerInferred(history, sighting);
  const oldestFirst = sightings.toSorted((one, other) => epochs.depth(one.epoch) - epochs.depth(other.epoch));
  for (const sighting of oldestFirst) addUnanswered(history, sighting);
}

/**
 * Adds attempts that have no answer and that a failure discarded: only reads of their values show
 * them. A read proves such an attempt if it was answered before the first answer of the other
 * attempt's epoch, or if its list cannot belong to that epoch. Otherwise the read may have seen the
 * other attempt. The attempt may also be the later one: a node that was given up may continue
 * beside its successor.
 */
function addUnanswered(history: History, { spine, length, epoch, key }: Sighting): void {
  const { writers, epochs, firstSeen } = history;
  for (let at = 0; at < length; at++) {
    const writer = writers.get(spine.values[at] ?? Number.NaN);
    if (writer === undefined || isVoid(writer) || attemptIn(epochs, writer, epoch) !== null) continue;
    const later = writer.attempts.filter((attempt) => epochs.contains(attempt, epoch));
    if (later.length === 0 || later.length < writer.attempts.length) continue;
    const begunAt = Math.min(...later.map((attempt) => firstSeen.get(attempt) ?? Number.POSITIVE_INFINITY));
    const isElsewhere =
      later.every((attempt) => epochs.inHistory(attempt)) && isOfAnotherList(history, key, spine, at);
    if (isElsewhere || history.transactions.some((reader) => hasSeen(reader, epoch, key, spine, at, begunAt)))
      writer.attempts = [epoch, ...writer.attempts];
  }
}

/**
 * True if the final list has the value too, but after different values. A failure discards only the
 * end of a list, so the value in this list comes from another attempt.
 */
function isOfAnotherList(
  { finalLists }: History,
  key: string,
  { values }: ListView["spine"],
  at: number,
): boolean {
  const final = finalLists.get(key);
  const there = final?.spine.indexOf(values[at] ?? Number.NaN) ?? -1;
  if (final === undefined || there < 0 || there >= final.length) return false;
  const inFront = new Set(final.spine.values.slice(0, there));
  return there !== at || !values.slice(0, at).every((value) => inFront.has(value));
}

function hasSeen(
  { readIn, reads, answer }: Transaction,
  epoch: EpochId,
  key: string,
  spine: ListView["spine"],
  at: number,
  before: number,
): boolean {
  if (readIn !== epoch || answer === null || answer.atMs >= before) return false;
  return reads.some(
    (read) => read.key === key && read.length > at && read.spine.values[at] === spine.values[at],
  );
}

function recordAttempts(transaction: Transaction): void {
  const { reports, receipt, answer, resolution, readIn } = transaction;
  const known = new Set<EpochId>();
  for (const { attempt } of reports) if (attempt !== null) known.add(attempt);
  if (receipt?.kind === "commit") known.add(receipt.epoch);
  if (readIn !== null) known.add(readIn);
  transaction.attempts = [...known];
  if (known.size > 0) return;
  // The position of a replayed answer is that of the look-up.
  transaction.isInferred = true;
  const position = answer?.position ?? resolution?.position;
  if (position != null) transaction.attempts = [position.epoch];
}

/** The values before a value of an older epoch belong to that epoch or to an earlier one. */
function lowerInferred({ writers, epochs }: History, { spine, length, epoch }: Sighting): void {
  let bound: EpochId | null = null;
  for (let at = length - 1; at >= 0; at--) {
    const writer = writers.get(spine.values[at] ?? Number.NaN);
    const attempt = writer === undefined ? null : attemptIn(epochs, writer, epoch);
    if (writer === undefined || attempt === null) continue;
    if (bound !== null && writer.isInferred && epochs.depth(attempt) > epochs.depth(bound))
      writer.attempts = [bound];
    else if (bound === null || epochs.depth(attempt) < epochs.depth(bound)) bound = attempt;
  }
}
