// Works out what promoting a node would lose, as far as one tracker knows. Reads the core's state
// without changing it.
import { type EpochId, formatOffset, type Offset, parseOffset } from "@highwater/protocol";
import { currentEpoch, forEachPending, intentCount, type TrackerState } from "../core/index.ts";
import type { CandidatePreview, FailoverPreview, FailoverPreviewRequest, PromiseAtStake } from "./wire.ts";

export function previewFailover(state: TrackerState, request: FailoverPreviewRequest): FailoverPreview {
  const epoch = request.epoch.toLowerCase() as EpochId;
  const follows = currentEpoch(state) === epoch;
  const counts = request.candidates.map(
    ({ node, offset }) => new Count(node, parseOffset(offset) ?? (0n as Offset), request.list ?? 0),
  );
  let end: Offset | null = null;
  const reach = (offset: Offset): void => {
    if (end === null || offset > end) end = offset;
  };
  const marks = [...(state.topology.marks.get(epoch) ?? [])];
  for (const [, offset] of marks) reach(offset);
  const nodes = follows ? positionsOf(state) : [];
  for (const { position } of nodes) reach(position);
  if (follows)
    forEachPending(state, ({ id, offset }) => {
      reach(offset as Offset);
      for (const count of counts) count.take(id, offset);
    });
  return {
    epoch,
    follows,
    end: end === null ? null : formatOffset(end),
    marks: Object.fromEntries(marks.map(([level, offset]) => [level, formatOffset(offset)])),
    nodes: nodes.map(({ node, position }) => ({ node, position: formatOffset(position) })),
    undecided: intentCount(state, epoch),
    candidates: counts.map((count) => describe(state, epoch, count, end)),
  };
}

function positionsOf(state: TrackerState): { node: string; position: Offset }[] {
  return [...state.topology.nodes.values()].flatMap(({ site, position }) =>
    position === null ? [] : [{ node: site.id, position }],
  );
}

/** Counts what lies above a candidate's offset, and keeps the lowest of it by name. */
class Count {
  readonly node: string;
  readonly offset: Offset;
  readonly #keep: number;
  readonly #lowest: { readonly id: string; readonly offset: bigint }[] = [];
  transactions = 0;

  constructor(node: string, offset: Offset, keep: number) {
    this.node = node;
    this.offset = offset;
    this.#keep = keep;
  }

  take(id: string, offset: bigint): void {
    if (offset <= this.offset) return;
    this.transactions++;
    const lowest = this.#lowest;
    if (this.#keep === 0 || (lowest.length === this.#keep && offset >= (lowest.at(-1)?.offset ?? 0n))) return;
    // Most come in order, so this is nearly always the end.
    const at = lowest.findLastIndex((kept) => kept.offset <= offset) + 1;
    lowest.splice(at, 0, { id, offset });
    if (lowest.length > this.#keep) lowest.pop();
  }

  get ids(): string[] {
    return this.#lowest.map(({ id }) => id);
  }
}

function describe(
  state: TrackerState,
  epoch: EpochId,
  { node, offset, transactions, ids }: Count,
  end: Offset | null,
): CandidatePreview {
  const bytes = end !== null && end > offset ? end - offset : 0n;
  return {
    node,
    offset: formatOffset(offset),
    bytes: bytes.toString(),
    promises: promisesAtStake(state, epoch, node, offset),
    transactions,
    complete: isComplete(state, epoch, offset),
    ids,
  };
}

/** The primary's own disk is not expected to survive that another node takes over. */
function promisesAtStake(
  state: TrackerState,
  epoch: EpochId,
  node: string,
  offset: Offset,
): PromiseAtStake[] {
  const stays = state.topology.epochs.get(epoch)?.node === node;
  return state.config.levels.flatMap(({ name, rule }) => {
    const mark = state.topology.marks.get(epoch)?.get(name);
    if (mark === undefined || mark <= offset || ("primary" in rule && !stays)) return [];
    return [{ level: name, from: formatOffset(offset), to: formatOffset(mark) }];
  });
}

/**
 * What every level has reached has left the ledger, and what one beyond the primary has reached may
 * have left with time. Above the offset nothing of that kind may lie.
 */
function isComplete(state: TrackerState, epoch: EpochId, offset: Offset): boolean {
  if (currentEpoch(state) !== epoch) return false;
  const marks = state.topology.marks.get(epoch);
  const isAbove = (name: string): boolean => (marks?.get(name) ?? offset) > offset;
  const { levels } = state.config;
  const beyond = levels.filter(({ rule }) => !("primary" in rule));
  return !beyond.some(({ name }) => isAbove(name)) && levels.some(({ name }) => !isAbove(name));
}
