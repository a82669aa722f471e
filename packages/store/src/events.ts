// The port of durability events as the store keeps them. Every tracker publishes the same events
// under the same ids, and a failover keeps them. The tracker defines what an event means.
import { type DurabilityEventType, type EpochId, type Offset } from "@highwater/protocol";

export interface EventPosition {
  /** Number of the epoch in which it was recorded. */
  readonly seq: number;
  /** Its own number there, from 1, in the order of the commits. */
  readonly n: number;
}

/**
 * Names its history as well: nodes that were promoted side by side give their epochs the same
 * number.
 */
export interface HistoryPosition extends EventPosition {
  /** The epoch with that number; null: below every event. */
  readonly epoch: EpochId | null;
}

/** Below every event. */
export const FIRST_POSITION: HistoryPosition = Object.freeze({ epoch: null, seq: 0, n: 0 });

/** Negative when `a` comes before `b`. Both are of one history. */
export function comparePositions(a: EventPosition, b: EventPosition): number {
  return a.seq === b.seq ? a.n - b.n : a.seq - b.seq;
}

export interface NewEvent {
  /**
   * What it is about. Of those who record the same, on whichever tracker, the first one counts,
   * except where a later one is better informed: see `whatIsBetter`. At most 200 characters.
   */
  readonly key: string;
  readonly type: DurabilityEventType;
  /** Whose; null: everybody's. */
  readonly owner: bigint | null;
  readonly data: Readonly<Record<string, unknown>>;
}

export interface RecordedEvent extends NewEvent, HistoryPosition {
  readonly epoch: EpochId;
  /** By the server's clock or the recorder's, whichever is later: neither makes it expire early. */
  readonly atMs: number;
}

/**
 * What a hook gets: an event that was recorded just now, and the less informed one that it
 * replaces.
 */
export interface FreshEvent extends RecordedEvent {
  readonly replaced?: RecordedEvent;
}

/** Numbers that a ledger knows only in part: the highest that a tracker knows is right. */
const COUNTS: Readonly<Partial<Record<DurabilityEventType, string>>> = {
  "epoch.started": "unlisted",
  "promise.broken": "transactions",
};

/**
 * What an event says that the recorded one of the same key does not. A tracker that knows a lost
 * transaction by its token alone may lack its owner and metadata, and one with a part of the ledger
 * counts too few. `owner`: it had no owner, so its owner has not received it and gets it under a
 * new number. `data`: its readers may have read it already, so it stays where it is and gets the
 * data. Null: nothing.
 */
export function whatIsBetter(recorded: NewEvent, again: NewEvent): "owner" | "data" | null {
  if (recorded.owner === 0n && again.owner !== null && again.owner !== 0n) return "owner";
  if (recorded.owner !== again.owner) return null;
  const lacks = recorded.data["metadata"] === undefined && again.data["metadata"] !== undefined;
  const count = COUNTS[again.type];
  const hasMore = count !== undefined && Number(again.data[count]) > Number(recorded.data[count]);
  return lacks || hasMore ? "data" : null;
}

/** One event of each key, the best informed one. */
export function bestOfKeys(events: readonly NewEvent[]): ReadonlyMap<string, NewEvent> {
  const best = new Map<string, NewEvent>();
  for (const event of events) {
    const other = best.get(event.key);
    if (other === undefined || whatIsBetter(other, event) !== null) best.set(event.key, event);
  }
  return best;
}

export interface Recording {
  /** In the order in which they were asked for, as they are recorded now. */
  readonly events: readonly RecordedEvent[];
  /** How many of them are at a place that they were not at before. */
  readonly fresh: number;
  /** End of the log in `epoch`, read afterwards: at or below it is everything that was recorded. */
  readonly epoch: EpochId;
  readonly asOf: Offset;
}

export interface EventFilter {
  /** Only later ones. */
  readonly after: EventPosition;
  /** That owner's and everybody's; null: all. */
  readonly owner: bigint | null;
  readonly types: readonly DurabilityEventType[] | null;
  readonly limit: number;
}

export interface EventExtent {
  /** The newest event's place; `FIRST_POSITION` before there is one. */
  readonly end: HistoryPosition;
  /** Events at or below may have been dropped. */
  readonly expiredTo: EventPosition;
}

/** Events in one recording. */
export const MAX_EVENTS_PER_RECORDING = 5_000;

/**
 * Every call is answered by the primary that is in the given epoch, or not at all.
 * Errors: HighwaterError `epoch_changed` when the node is in another epoch or in none.
 */
export interface EventStore {
  /**
   * Records in one transaction, on the primary's disk when this resolves.
   * Errors: anything but `epoch_changed` leaves it open whether they were recorded: record them
   * again.
   */
  record(node: string, epoch: EpochId, events: readonly NewEvent[]): Promise<Recording>;
  /**
   * In the order of their places. Every later call finds later places only: an event never appears
   * below one that was read.
   */
  read(node: string, epoch: EpochId, filter: EventFilter): Promise<readonly RecordedEvent[]>;
  extent(node: string, epoch: EpochId): Promise<EventExtent>;
  /**
   * Drops events of before that time, a bounded number at once; says how many. Milliseconds since
   * 1970, by no clock of the store.
   */
  expire(node: string, epoch: EpochId, beforeMs: number): Promise<number>;
  close(): void;
}
