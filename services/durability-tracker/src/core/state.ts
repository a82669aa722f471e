// The state at birth: empty, or as the ledger on disk remembers it.
import { EpochGraph, type EpochId, type EpochRecord, type Offset, ZERO } from "@highwater/protocol";
import { OffsetHeap } from "./offset-heap.ts";
import { type CoreConfig, type Entry, type TrackerState } from "./types.ts";

export function initialState(config: CoreConfig, nowMs: number): TrackerState {
  return {
    config,
    nowMs,
    standing: { kind: "unsettled", reason: "no primary is known yet", split: false },
    reignSinceMs: nowMs,
    epochs: new EpochGraph(),
    ancestry: [],
    nodes: new Map(
      config.nodes.map((site) => [
        site.id,
        {
          site,
          heardAtMs: null,
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
    entries: new Map(),
    waiting: new Map(config.levels.map(({ name }) => [name, new OffsetHeap<Entry>()])),
    unproven: new Set(),
    absent: new Set(),
    untold: new Set(),
    adrift: new Set(),
    intents: new Set(),
    finished: new Map(),
    retiring: null,
    asked: new Map(),
    nextRequest: 1,
    unflushedSinceMs: null,
    highestPending: ZERO,
    helping: false,
  };
}

export interface Restored {
  readonly epochs: readonly EpochRecord[];
  readonly marks: readonly { readonly epoch: EpochId; readonly level: string; readonly offset: Offset }[];
  readonly entries: readonly Entry[];
}

/**
 * What a tracker knew before it was stopped or killed. Every claim is as true as it was: marks hold for their epochs, and
 * entries that were waiting are proven anew unless their epoch turns out to reign still.
 */
export function restore(config: CoreConfig, nowMs: number, saved: Restored): TrackerState {
  const state = initialState(config, nowMs);
  state.epochs.add(saved.epochs);
  for (const { epoch, level, offset } of saved.marks) {
    let marks = state.marks.get(epoch);
    if (marks === undefined) state.marks.set(epoch, (marks = new Map<string, Offset>()));
    marks.set(level, offset);
  }
  for (const entry of saved.entries) {
    // A question that was open when the process died was never answered.
    if (entry.state.kind === "asked") entry.state = { kind: "unproven" };
    // Times of another process mean nothing here: everything is as old as this one.
    entry.atMs = nowMs;
    if (entry.state.kind === "absent") entry.state = { ...entry.state, sinceMs: nowMs };
    state.entries.set(entry.key, entry);
    switch (entry.state.kind) {
      case "intent":
        state.intents.add(entry.key);
        break;
      case "unproven":
        state.unproven.add(entry.key);
        break;
      case "absent":
        state.absent.add(entry.key);
        break;
      case "gone":
      case "expired":
      case "unknown":
        state.finished.set(entry.key, nowMs);
        break;
      case "pending":
        state.adrift.add(entry.key);
        break;
    }
  }
  return state;
}
