// The initial state: empty, or restored from the ledger on disk.
import { EpochGraph, type EpochId, type EpochRecord, type Offset, ZERO } from "@highwater/protocol";
import { type Source } from "./accounts.ts";
import { Backlog } from "./backlog.ts";
import { restoreDeparted } from "./departed.ts";
import { ownerAccount, sourceOf } from "./exposure.ts";
import { makeHeaps } from "./heaps.ts";
import { requeue, restoreBacklog, restoreEntry } from "./ledger.ts";
import { nameLevels, restoreLevels } from "./levels.ts";
import { setMark } from "./marks.ts";
import { OffsetHeap } from "./offset-heap.ts";
import { restoreEnded } from "./old-epochs.ts";
import { noteUnpublished } from "./proofs.ts";
import { NOT_SYNCHRONOUS } from "./synchronous.ts";
import { addParent, addRecords } from "./topology.ts";
import { Tracker } from "./tracker.ts";
import {
  type CoreConfig,
  type Deadline,
  type Departed,
  type LedgerEntry,
  type NodeSite,
  type NodeState,
  type TrackerState,
} from "./types.ts";
import { type Waiting } from "./waiting-table.ts";

export function initialState(config: CoreConfig, nowMs: number): Tracker {
  const state = new Tracker({
    config,
    levelBits: new Map(),
    nowMs,
    topology: {
      standing: { kind: "unsettled", reason: "no primary is known yet", split: false },
      epochSinceMs: nowMs,
      seenEnd: null,
      endedAtMs: new Map(),
      epochs: new EpochGraph(),
      ancestry: [],
      nodes: new Map(config.nodes.map((site) => [site.id, unheard(site)])),
      marks: new Map(),
      primaryFlushed: null,
      primaryReport: null,
      wentBack: null,
      synchronous: NOT_SYNCHRONOUS,
      stalls: new Map(),
      unflushedSinceMs: null,
      helping: false,
    },
    ledger: {
      backlog: new Backlog(),
      entries: new Map(),
      presented: new Map(),
      departed: [],
      late: new Map(),
      deadlines: new OffsetHeap<Deadline>(),
      publishesDurable: false,
      waiting: new Map(),
      unplaced: new Set(),
      absent: new Set(),
      intents: new Set(),
      finished: new Map(),
      retiring: null,
      highestPending: ZERO,
    },
    proofs: {
      unproven: new Set(),
      held: new Map(),
      unpublished: new Set(),
      asked: new Map(),
      nextRequest: 1,
      brokenPromises: new Set(),
    },
    exposure: { total: 0, owners: new Map(), sources: new Map(), values: new Map() },
  });
  restoreBacklog(state, null);
  makeHeaps(state);
  nameLevels(state);
  return state;
}

/** A node before its first report. */
function unheard(site: NodeSite): NodeState {
  return {
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
  };
}

/** An entry on disk, which has the names of its accounts. */
export type SavedEntry = Omit<LedgerEntry, "owner" | "source" | "isExposed"> & {
  readonly owner: bigint;
  readonly source: SavedSource | null;
};

type SavedSource = Pick<Source, "gateway" | "region">;

/** An attempt of the backlog on disk. */
export type SavedWaiting = Pick<Waiting, "id" | "offset" | "metadata" | "atRisk"> & {
  readonly owner: bigint;
  readonly source: SavedSource | null;
};

export interface Restored {
  readonly levelBits: ReadonlyMap<string, number>;
  readonly epochs: readonly EpochRecord[];
  /** The parents of epochs whose record was never seen. */
  readonly parents: ReadonlyMap<EpochId, EpochId>;
  /** Ended epochs about which verdicts may have left the ledger. */
  readonly oldEpochs: readonly EpochId[];
  readonly marks: readonly { readonly epoch: EpochId; readonly level: string; readonly offset: Offset }[];
  readonly entries: readonly SavedEntry[];
  /** In any order. */
  readonly departed: readonly Departed[];
  /** The epoch of the backlog. Its attempts come in any order. */
  readonly waitingEpoch: EpochId | null;
  readonly waiting: Iterable<SavedWaiting>;
}

/**
 * Restores the knowledge of a tracker before it was stopped or killed. All of it is still true:
 * marks hold for their epochs, and waiting entries are proven anew unless their epoch is still
 * current.
 */
export function restore(config: CoreConfig, nowMs: number, saved: Restored): Tracker {
  const state = initialState(config, nowMs);
  restoreLevels(state, saved.levelBits);
  addRecords(state, saved.epochs);
  for (const [epoch, parent] of saved.parents) addParent(state, epoch, parent);
  // Every verdict about an epoch that is not old is in the ledger, and is kept from now on. An
  // epoch without a verdict may not have ended yet.
  for (const { attempt, origin, state: at } of saved.entries)
    if (at.kind === "lost")
      for (const epoch of [attempt, origin?.epoch ?? attempt]) restoreEnded(state, epoch, nowMs);
  for (const epoch of saved.oldEpochs) restoreEnded(state, epoch, -Infinity);
  for (const { epoch, level, offset } of saved.marks) setMark(state, epoch, level, offset);
  for (const { owner, source, ...each } of saved.entries) {
    const accounts = restoredAccounts(state, owner, source);
    restoreEntry(state, { ...each, ...accounts, isExposed: false });
    // Broken promises are reported again, so that this process knows them.
    const { state: at } = each;
    if (at.kind === "lost" && (!at.isPublished || at.reappeared || at.broken !== 0))
      noteUnpublished(state, each.key, true);
  }
  restoreDeparted(state, saved.departed);
  // If another epoch than the backlog's is current, all of it is judged anew.
  restoreBacklog(state, saved.waitingEpoch);
  restoreWaiting(state, saved.waiting);
  return state;
}

function restoredAccounts(
  state: TrackerState,
  owner: bigint,
  source: SavedSource | null,
): Pick<LedgerEntry, "owner" | "source"> {
  return {
    owner: ownerAccount(state, owner),
    source: source === null ? null : sourceOf(state, source.gateway, source.region),
  };
}

/** Restores part of the backlog, which can have a million attempts. Only before the first step. */
export function restoreWaiting(state: TrackerState, waiting: Iterable<SavedWaiting>): void {
  const atMs = Math.floor(state.nowMs);
  for (const { id, offset, metadata, atRisk, owner, source } of waiting)
    requeue(state, { id, offset, atMs, metadata, atRisk, ...restoredAccounts(state, owner, source) });
}
