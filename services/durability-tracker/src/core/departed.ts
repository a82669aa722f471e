// Attempts that left the ledger by age, or for lack of room, before every level had them. The
// ledger no longer knows their outcomes. So it keeps their number for each owner and the range of
// their ids, and informs the owners when a failover may have lost them. Owns these counts. A client
// that asks with a token or an id still gets a verdict.
import { type EpochId, type Offset, type TxnId } from "@highwater/protocol";
import { markIn } from "./marks.ts";
import { type Effect } from "./effects.ts";
import { type Departed, type Ledger, type Own, type OwnersDeparted, type TrackerState } from "./types.ts";
import { carry } from "./verdict.ts";

type Part = Own<Departed>;

const own = ({ ledger }: TrackerState): Pick<Own<Ledger>, "departed"> => ledger;

function partsOf(state: TrackerState): Part[] {
  return own(state).departed as Part[];
}

/** From the disk, in any order. */
export function restoreDeparted(state: TrackerState, departed: readonly Departed[]): void {
  own(state).departed = [...departed].sort((a, b) => a.number - b.number);
}

export interface Departing {
  readonly epoch: EpochId;
  readonly offset: Offset;
  readonly id: TxnId;
  readonly owner: bigint;
}

/**
 * A part with as many transactions, or owners, is full: what leaves later goes into another one.
 */
const MAX_TRANSACTIONS = 10_000;
const MAX_OWNERS = 200;
/** Above this number the two oldest neighbours of an epoch become one. */
const MAX_PARTS = 1_000;

export function noteDeparted(state: TrackerState, departing: readonly Departing[], effects: Effect[]): void {
  const changed = new Set<Departed>();
  for (const { epoch, offset, id, owner } of departing) {
    const part = partFor(state, epoch, offset);
    if (offset < part.from) part.from = offset;
    if (offset > part.to) part.to = offset;
    count(part, owner, { transactions: 1, firstId: id, lastId: id });
    changed.add(part);
  }
  for (const part of changed) effects.push({ kind: "save_departed", part });
  while (state.ledger.departed.length > MAX_PARTS && mergeOldest(state, effects));
}

function partFor(state: TrackerState, epoch: EpochId, offset: Offset): Part {
  const departed = partsOf(state);
  const last = departed.at(-1);
  if (last?.epoch === epoch && last.owners.size < MAX_OWNERS && last.transactions < MAX_TRANSACTIONS)
    return last;
  const number = (last?.number ?? 0) + 1;
  const part = { number, epoch, from: offset, to: offset, transactions: 0, owners: new Map() };
  departed.push(part);
  return part;
}

function count(part: Part, owner: bigint, more: OwnersDeparted): void {
  part.transactions += more.transactions;
  const known: Own<OwnersDeparted> | undefined = part.owners.get(owner);
  if (known === undefined) {
    part.owners.set(owner, { ...more });
    return;
  }
  known.transactions += more.transactions;
  if (more.firstId < known.firstId) known.firstId = more.firstId;
  if (more.lastId > known.lastId) known.lastId = more.lastId;
}

function mergeOldest(state: TrackerState, effects: Effect[]): boolean {
  const departed = partsOf(state);
  const at = departed.findIndex((part, index) => departed[index + 1]?.epoch === part.epoch);
  const [one, next] = departed.slice(at, at + 2);
  if (at < 0 || one === undefined || next === undefined) return false;
  add(one, next);
  departed.splice(at + 1, 1);
  effects.push({ kind: "save_departed", part: one }, { kind: "forget_departed", number: next.number });
  return true;
}

function add(one: Part, { from, to, owners }: Departed): void {
  if (from < one.from) one.from = from;
  if (to > one.to) one.to = to;
  for (const [owner, more] of owners) count(one, owner, more);
}

/**
 * Forgets the parts that every level of this history has by now. Also forgets the parts that this
 * history may lack, once every level has the history's own beginning: then no other history can
 * follow without it, and the owners were informed when this one began.
 */
export function forgetDeparted(state: TrackerState, effects: Effect[]): void {
  const { standing } = state.topology;
  const { departed } = state.ledger;
  if (standing.kind !== "following" || departed.length === 0) return;
  const start = BigInt(state.topology.epochs.get(standing.epoch)?.startOffset ?? "0") as Offset;
  const isEverywhere = (offset: Offset): boolean =>
    state.config.levels.every(({ name }) => (markIn(state, standing.epoch, name) ?? -1n) >= offset);
  const stay = departed.filter(
    ({ epoch, to }) => !isEverywhere(carry(state, { epoch, offset: to })?.offset ?? start),
  );
  if (stay.length === departed.length) return;
  for (const part of departed)
    if (!stay.includes(part)) effects.push({ kind: "forget_departed", number: part.number });
  own(state).departed = stay;
}

/** Those of earlier epochs that no record proves to be in the current history, by epoch. */
function inDoubt(state: TrackerState): Departed[] {
  const byEpoch = new Map<EpochId, Part>();
  for (const part of state.ledger.departed) {
    if (carry(state, { epoch: part.epoch, offset: part.to }) !== null) continue;
    const sum = byEpoch.get(part.epoch);
    if (sum === undefined) byEpoch.set(part.epoch, { ...part, owners: copyOf(part.owners) });
    else add(sum, part);
  }
  return [...byEpoch.values()];
}

function copyOf(owners: Departed["owners"]): Part["owners"] {
  return new Map([...owners].map(([owner, about]) => [owner, { ...about }]));
}

/** How many transactions may be missing from the current history without a verdict of their own. */
export function unlisted(state: TrackerState): number {
  return inDoubt(state).reduce((sum, part) => sum + part.transactions, 0);
}

/** An epoch has begun. */
export function publishDeparted(state: TrackerState, effects: Effect[]): void {
  if (state.topology.standing.kind !== "following") return;
  const currentEpoch = state.topology.standing.epoch;
  for (const { epoch, from, to, owners } of inDoubt(state))
    for (const [owner, about] of owners)
      effects.push({ kind: "publish_unlisted", epoch, currentEpoch, from, to, owner, ...about });
}
