// The live events. Reads the store once for all subscribers, so that every tracker sends the same
// events under the same ids, also those that a dead tracker recorded. Owns the subscribers; each
// writes to its client itself.
import { type DurabilityEventType, type EpochGraph, type EpochId, HighwaterError } from "@highwater/protocol";
import { type Clock, sleep } from "@highwater/runtime";
import { type Log } from "@highwater/service";
import { comparePositions, type EventFilter, type EventStore, type RecordedEvent } from "@highwater/store";
import { type BecameDurable } from "../core/index.ts";
import { type PrimaryEpoch } from "./event-log.ts";
import { isMissed, type ReadingOn, readOn } from "./reading-on.ts";
import { type Cursor, cursorAt } from "./wire.ts";

export interface DurableFilter {
  readonly level: string;
  /** All of them have to be in the transaction's metadata, with these values. */
  readonly metadata: Readonly<Record<string, string>>;
}

export interface Listener {
  /** Null: every owner's. */
  readonly owner: bigint | null;
  readonly types: readonly DurabilityEventType[];
  /** Null: does not subscribe to what has become durable. */
  readonly durable: DurableFilter | null;
  onEvents(events: readonly RecordedEvent[]): void;
  /**
   * The feed goes on in another history than the listener has read. It has left, and can join again
   * where it reads on.
   */
  onParted(): void;
  onDurable(item: BecameDurable, level: string): void;
}

export interface FeedDeps {
  readonly events: EventStore;
  readonly clock: Clock;
  readonly log: Log;
  readonly primaryEpoch: () => PrimaryEpoch | null;
  readonly epochs: () => EpochGraph;
  /** Whether anybody listens to what becomes durable. */
  readonly onDurableWanted: (wanted: boolean) => void;
}

/**
 * While somebody listens the store is asked so often, besides after each recording of this
 * tracker's own.
 */
const POLL_MS = 250;
const PAGE = 1_000;
/** A client may come from a tracker that learned of a new epoch sooner. */
const UNKNOWN_EPOCH_MS = 3_000;
const UNKNOWN_EPOCH_LOOK_MS = 100;

/** Where a reader begins, as of one epoch. */
export interface Beginning {
  readonly primaryEpoch: PrimaryEpoch;
  readonly from: Cursor;
  readonly end: Cursor;
  /** Events between what the reader has read and `from` may have been dropped. */
  readonly missed: boolean;
}

export class EventFeed {
  readonly #deps: FeedDeps;
  /** And what each had read when it joined: that may be more than the feed had. */
  readonly #listeners = new Map<Listener, Cursor>();
  readonly #durable = new Set<Listener>();
  readonly #stop = new AbortController();
  #wake = new AbortController();
  /** Everything at or below has been handed to those who listen, in the history of `#epoch`. */
  #head: Cursor | null = null;
  #epoch: EpochId | null = null;
  #polling = false;

  constructor(deps: FeedDeps) {
    this.#deps = deps;
  }

  get size(): number {
    return this.#listeners.size;
  }

  /** Null while there has been no listener in that epoch. */
  headIn(epoch: EpochId): Cursor | null {
    return this.#epoch === epoch ? this.#head : null;
  }

  /**
   * Whether somebody who has read up to there in that epoch can join: `later` when the feed has not
   * followed into it yet.
   */
  canJoin(upTo: Cursor, epoch: EpochId): "now" | "later" | "read_more" {
    if (this.#listeners.size === 0 || this.#head === null) return "now";
    if (this.#epoch !== epoch) return "later";
    return comparePositions(upTo, this.#head) >= 0 ? "now" : "read_more";
  }

  stop(): void {
    this.#stop.abort();
    this.#wake.abort();
  }

  /** The store has more now, as far as this tracker knows. */
  wake(): void {
    this.#wake.abort();
    if (!this.#stop.signal.aborted) this.#wake = new AbortController();
  }

  /**
   * From now on the listener gets everything later than `from`, which must not be below the feed's
   * head in that epoch. The returned function ends it.
   */
  join(listener: Listener, from: Cursor, epoch: EpochId): () => void {
    if (this.canJoin(from, epoch) !== "now") throw new Error("a listener must have read up to the head");
    if (this.#listeners.size === 0) [this.#head, this.#epoch] = [from, epoch];
    this.#listeners.set(listener, from);
    if (!this.#polling) void this.#poll();
    return () => {
      if (this.#listeners.delete(listener) && this.#listeners.size === 0) this.wake();
    };
  }

  /** From now on the listener gets what becomes durable. The returned function ends it. */
  joinDurable(listener: Listener): () => void {
    if (listener.durable === null) return () => undefined;
    if (this.#durable.add(listener).size === 1) this.#deps.onDurableWanted(true);
    return () => {
      if (this.#durable.delete(listener) && this.#durable.size === 0) this.#deps.onDurableWanted(false);
    };
  }

  /**
   * Where somebody who has read up to the cursor reads on. An epoch that is not known here is
   * waited for a little.
   * Errors: HighwaterError `primary_unavailable`.
   */
  async readOn(cursor: Cursor): Promise<ReadingOn & { readonly primaryEpoch: PrimaryEpoch }> {
    const { clock, epochs } = this.#deps;
    const untilMs = clock.monotonicMs() + UNKNOWN_EPOCH_MS;
    for (;;) {
      const primaryEpoch = this.#primaryEpoch();
      const reading = readOn(cursor, epochs(), primaryEpoch.epoch);
      const isOver = clock.monotonicMs() >= untilMs || this.#stop.signal.aborted;
      if (reading.found !== "unknown" || isOver) return { ...reading, primaryEpoch };
      await sleep(clock, UNKNOWN_EPOCH_LOOK_MS, this.#stop.signal);
    }
  }

  /**
   * Null: at the end. Errors: HighwaterError `primary_unavailable`, `epoch_changed`, or what the
   * store throws.
   */
  async begin(after: Cursor | null): Promise<Beginning> {
    const reading = after === null ? null : await this.readOn(after);
    const primaryEpoch = reading?.primaryEpoch ?? this.#primaryEpoch();
    const extent = await this.#deps.events.extent(primaryEpoch.node, primaryEpoch.epoch);
    const end = cursorAt(extent.end);
    const missed = reading !== null && isMissed(reading, extent.expiredTo);
    return { primaryEpoch, from: reading?.from ?? end, end, missed };
  }

  /** Errors: as `begin`. */
  read({ node, epoch }: PrimaryEpoch, filter: EventFilter): Promise<readonly RecordedEvent[]> {
    return this.#deps.events.read(node, epoch, filter);
  }

  durable(level: string, items: readonly BecameDurable[]): void {
    for (const listener of this.#durable) {
      const { durable, owner } = listener;
      if (durable?.level !== level) continue;
      const wanted = Object.entries(durable.metadata);
      for (const item of items) {
        if (owner !== null && owner !== item.owner) continue;
        if (wanted.every(([name, value]) => item.metadata?.[name] === value)) listener.onDurable(item, level);
      }
    }
  }

  #primaryEpoch(): PrimaryEpoch {
    const now = this.#deps.primaryEpoch();
    if (now === null) throw new HighwaterError("primary_unavailable", { retryAfterMs: POLL_MS });
    return now;
  }

  async #poll(): Promise<void> {
    const { clock, log, primaryEpoch } = this.#deps;
    this.#polling = true;
    let failedIn: EpochId | null = null;
    while (this.#listeners.size > 0 && !this.#stop.signal.aborted) {
      const wake = this.#wake.signal;
      const now = primaryEpoch();
      let isMore = false;
      try {
        if (now !== null) isMore = await this.#handOut(now);
        failedIn = null;
      } catch (cause) {
        // Expected once when an epoch ends; worth a line only if it goes on, and then once.
        if (now !== null && failedIn !== now.epoch) log.warn("events_not_read", { node: now.node, cause });
        failedIn = now?.epoch ?? null;
        await sleep(clock, POLL_MS, this.#stop.signal);
      }
      if (!isMore) await sleep(clock, POLL_MS, wake);
    }
    this.#polling = false;
  }

  /** True when there is more at once. */
  async #handOut({ node, epoch }: PrimaryEpoch): Promise<boolean> {
    this.#follow(epoch);
    const after = this.#head;
    if (after === null || this.#listeners.size === 0) return false;
    const events = await this.#deps.events.read(node, epoch, {
      after,
      owner: null,
      types: null,
      limit: PAGE,
    });
    // Everybody left meanwhile, and somebody else came, who has read to another place.
    if (this.#head !== after || this.#epoch !== epoch) return true;
    const last = events.at(-1);
    if (last !== undefined) this.#head = cursorAt(last);
    for (const [listener, from] of events.length === 0 ? [] : [...this.#listeners]) {
      const { owner, types } = listener;
      const theirs = events.filter(
        (event) =>
          types.includes(event.type) &&
          (owner === null || event.owner === null || event.owner === owner) &&
          comparePositions(event, from) > 0,
      );
      if (theirs.length > 0) listener.onEvents(theirs);
    }
    return events.length === PAGE;
  }

  /** Those who have read what this history does not have read on by themselves. */
  #follow(epoch: EpochId): void {
    const head = this.#head;
    if (this.#epoch === epoch || head === null) return;
    this.#epoch = epoch;
    const isHere = (position: Cursor): boolean =>
      readOn(position, this.#deps.epochs(), epoch).found === "here";
    if (!isHere(head)) this.#head = null;
    for (const [listener, from] of [...this.#listeners]) {
      if (isHere(comparePositions(head, from) > 0 ? head : from)) continue;
      this.#listeners.delete(listener);
      listener.onParted();
    }
  }
}
