// The state at birth: empty, or as the ledger on disk remembers it.
import {
  EpochGraph,
  type EpochId,
  type EpochRecord,
  maxOffset,
  type Offset,
  ZERO,
} from "@highwater/protocol";
import { type Source } from "./accounts.ts";
import { Backlog } from "./backlog.ts";
import { expose, ownerAccount } from "./exposure.ts";
import { countPresented, file } from "./ledger.ts";
import { levelNames, nameLevels } from "./levels.ts";
import { OffsetHeap } from "./offset-heap.ts";
import { NOT_SYNCHRONOUS } from "./synchronous.ts";
import {
  type CoreConfig,
  type Deadline,
  type Departed,
  type LedgerEntry,
  type TrackerState,
} from "./types.ts";
import { type Waiting } from "./waiting-table.ts";

export function initialState(config: CoreConfig, nowMs: number): TrackerState {
  const state: TrackerState = {
    config,
    levelBits: new Map(),
    nowMs,
    standing: { kind: "unsettled", reason: "no primary is known yet", split: false },
    epochSinceMs: nowMs,
    seenEnd: null,
    endedAtMs: new Map(),
    epochs: new EpochGraph(),
    ancestry: [],
    nodes: new Map(
      config.nodes.map((site) => [
        site.id,
        {
          site,
          reportedAtMs: null,
          alive: false,
          unfit: true,
          incarnation: null,
          askedAtMs: -Infinity,
          position: null,
          streamed: null,
          feed: null,
          confirmedFeed: null,
          candidateFeed: null,
          endedFeeds: [],
          role: null,
          ownStream: null,
        },
      ]),
    ),
    marks: new Map(),
    primaryFlushed: null,
    primaryReport: null,
    wentBack: null,
    synchronous: NOT_SYNCHRONOUS,
    backlog: new Backlog(),
    entries: new Map(),
    presented: new Map(),
    departed: [],
    exposed: { total: 0, owners: new Map(), sources: new Map() },
    stalls: new Map(),
    late: new Map(),
    deadlines: new OffsetHeap<Deadline>(),
    brokenPromises: new Set(),
    publishesDurable: false,
    waiting: new Map(config.levels.map(({ name }) => [name, new OffsetHeap<LedgerEntry>()])),
    unproven: new Set(),
    held: new Map(),
    absent: new Set(),
    unpublished: new Set(),
    unplaced: new Set(),
    intents: new Set(),
    finished: new Map(),
    retiring: null,
    asked: new Map(),
    nextRequest: 1,
    unflushedSinceMs: null,
    highestPending: ZERO,
    helping: false,
  };
  state.backlog.begin(null, levelNames(state));
  nameLevels(state);
  return state;
}

/** An entry as it is on disk, where accounts are names. */
export type SavedEntry = Omit<LedgerEntry, "owner" | "source" | "isExposed"> & {
  readonly owner: bigint;
  readonly source: SavedSource | null;
};

type SavedSource = Pick<Source, "gateway" | "region">;

/** One of the backlog as it is on disk. */
export type SavedWaiting = Pick<Waiting, "id" | "offset" | "metadata"> & {
  readonly owner: bigint;
  readonly source: SavedSource | null;
};

export interface Restored {
  readonly levelBits: ReadonlyMap<string, number>;
  readonly epochs: readonly EpochRecord[];
  /** Of epochs whose record was never seen, the epoch before. */
  readonly parents: ReadonlyMap<EpochId, EpochId>;
  /** Ended epochs about which verdicts may have left the ledger. */
  readonly oldEpochs: readonly EpochId[];
  readonly marks: readonly { readonly epoch: EpochId; readonly level: string; readonly offset: Offset }[];
  readonly entries: readonly SavedEntry[];
  /** In any order. */
  readonly departed: readonly Departed[];
  /** The backlog of that epoch, in any order. */
  readonly waitingEpoch: EpochId | null;
  readonly waiting: Iterable<SavedWaiting>;
}

/**
 * The knowledge of a tracker before it was stopped or killed. Every claim is as true as it was:
 * marks hold for their epochs, and entries that were waiting are proven anew unless their epoch
 * turns out to be current still.
 */
export function restore(config: CoreConfig, nowMs: number, saved: Restored): TrackerState {
  const state = initialState(config, nowMs);
  restoreLevels(state, saved);
  state.epochs.add(saved.epochs);
  for (const [epoch, parent] of saved.parents) state.epochs.learnParent(epoch, parent);
  // Every verdict about an epoch that is not old is in the ledger, and is kept from now on. Without one the epoch may not have ended yet.
  for (const { attempt, origin, state: at } of saved.entries)
    if (at.kind === "lost")
      for (const epoch of [attempt, origin?.epoch ?? attempt]) state.endedAtMs.set(epoch, nowMs);
  for (const epoch of saved.oldEpochs) state.endedAtMs.set(epoch, -Infinity);
  for (const { epoch, level, offset } of saved.marks) {
    let marks = state.marks.get(epoch);
    if (marks === undefined) state.marks.set(epoch, (marks = new Map<string, Offset>()));
    marks.set(level, offset);
  }
  for (const { owner, source, ...each } of saved.entries)
    restoreEntry(state, {
      ...each,
      owner: ownerAccount(state, owner),
      source: source === null ? null : restoredSource(state, source),
      isExposed: false,
    });
  state.departed = [...saved.departed].sort((a, b) => a.number - b.number);
  restoreBacklog(state, saved);
  return state;
}

/** What is on disk may say the names of levels that are not configured any more. */
function restoreLevels(state: TrackerState, { levelBits }: Restored): void {
  state.levelBits.clear();
  for (const [name, bit] of levelBits) state.levelBits.set(name, bit);
  nameLevels(state);
}

function restoredSource(state: TrackerState, { gateway, region }: SavedSource): Source {
  const { sources } = state.exposed;
  let source = sources.get(gateway);
  if (source === undefined)
    sources.set(gateway, (source = { gateway, region, count: 0, announcedAtMs: state.nowMs }));
  return source;
}

function restoreEntry(state: TrackerState, entry: LedgerEntry): void {
  const { nowMs } = state;
  // A question that was open when the process died was never answered.
  if (entry.state.kind === "asked") entry.state = { kind: "unproven" };
  // Times of another process mean nothing here: everything is as old as this one.
  entry.atMs = nowMs;
  if (entry.state.kind === "absent") entry.state = { ...entry.state, sinceMs: nowMs };
  state.entries.set(entry.key, entry);
  countPresented(state, entry, 1);
  file(state, entry);
  // Broken promises are reported again: so this process knows which ones are.
  const { state: at } = entry;
  if (at.kind === "lost" && (!at.isPublished || at.reappeared || at.broken !== 0))
    state.unpublished.add(entry.key);
}

/**
 * It waits where it stood: should another epoch than its own be current, everything in it is looked
 * at anew.
 */
function restoreBacklog(state: TrackerState, { waitingEpoch, waiting }: Restored): void {
  state.backlog.begin(waitingEpoch, levelNames(state));
  if (waitingEpoch !== null)
    for (const [level, mark] of state.marks.get(waitingEpoch) ?? []) state.backlog.advance(level, mark);
  restoreWaiting(state, waiting);
}

/** A million of them come in parts. Only before the first step. */
export function restoreWaiting(state: TrackerState, waiting: Iterable<SavedWaiting>): void {
  const { backlog, config } = state;
  for (const { id, offset, metadata, owner, source } of waiting) {
    const account = ownerAccount(state, owner);
    const from = source === null ? null : restoredSource(state, source);
    const atMs = Math.floor(state.nowMs);
    backlog.add({ id, offset, atMs, owner: account, source: from, metadata });
    if (!backlog.hasReached({ offset }, config.exposureLevel)) expose(state, 1, account, from);
  }
  state.highestPending = maxOffset(state.highestPending, backlog.highest ?? ZERO);
}
