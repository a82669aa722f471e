// The durability events for the rest of the tracker: subscribes to the loop's reports, has them
// recorded, and serves clients. Owns the clients' streams and how long events are kept.
import { type ServerResponse } from "node:http";
import {
  type BrokenPromiseData,
  type EpochRecord,
  HighwaterError,
  type StallEvent,
  type UnlistedData,
} from "@highwater/protocol";
import { type Clock, sleep } from "@highwater/runtime";
import { type Log } from "@highwater/service";
import { comparePositions, type EventStore, type Store } from "@highwater/store";
import { type BecameDurable, markIn, type Published, type TrackerState, unlisted } from "../core/index.ts";
import { type ReadExpiryTime } from "../shell/expiry-clock.ts";
import { type Subscriber } from "../shell/reports.ts";
import { BrokenElsewhere } from "./broken-elsewhere.ts";
import { EventLog, type PrimaryEpoch } from "./event-log.ts";
import { EventFeed } from "./feed.ts";
import {
  brokenPromiseEvent,
  delayedEvent,
  durableEvent,
  epochEvent,
  lostEvent,
  stallEvent,
  unlistedEvent,
} from "./new-events.ts";
import { type OutboxStore } from "./outbox-store.ts";
import { OwnerTurns } from "../shell/owner-turns.ts";
import { type EventsQuery } from "./query.ts";
import { EventStream } from "./stream.ts";
import { cursorAt, formatCursor, wireEvent, type WireEvent } from "./wire.ts";

/** Who listens, and to whose events; `owner` null: to every owner's. */
export interface Viewer {
  readonly id: string;
  readonly owner: bigint | null;
}

/** As `EventPage` of the wire. */
export interface Page {
  readonly events: readonly WireEvent[];
  readonly next: string;
  readonly more: boolean;
  readonly missed: boolean;
}

/**
 * Whether somebody beside the streams wants to have it recorded that a transaction has become
 * durable.
 */
export type WantsDurable = (owner: bigint, metadata: Readonly<Record<string, string>> | null) => boolean;

export interface DurabilityEventsDeps {
  readonly events: EventStore;
  readonly outbox: OutboxStore;
  readonly store: Pick<Store, "prepare">;
  readonly clock: Clock;
  readonly log: Log;
  /** Evenly distributed in [0, 1). */
  readonly random: () => number;
  readonly state: () => TrackerState;
  readonly readTime: ReadExpiryTime;
  /** The core says what becomes durable only while somebody subscribes to it. */
  readonly wantDurable: (wanted: boolean) => void;
  /** Somebody has recorded them as broken, perhaps this tracker itself. */
  readonly onBroken?: (peerVerdicts: readonly Published[]) => void;
  /** Everything that was announced before the epoch is known here. */
  readonly isComplete?: (epoch: EpochRecord) => boolean;
}

export interface EventSettings {
  readonly keepMs: number;
  readonly expireEveryMs: number;
  readonly heartbeatMs: number;
  readonly maxStreams: number;
  readonly maxStreamsPerKey: number;
  readonly drainMs: number;
}

export const EVENT_DEFAULTS = {
  heartbeatMs: 5_000,
  expireEveryMs: 600_000,
  maxStreams: 5_000,
  maxStreamsPerKey: 500,
  drainMs: 30_000,
} as const;

export class DurabilityEvents implements Subscriber {
  readonly #deps: DurabilityEventsDeps;
  readonly #settings: EventSettings;
  readonly #log: EventLog;
  readonly #feed: EventFeed;
  readonly #elsewhere: BrokenElsewhere;
  readonly #stop = new AbortController();
  readonly #pageTurns = new OwnerTurns({ limit: "eventPages", calls: "pages of events" });
  readonly #streams = new Map<EventStream, Viewer>();
  readonly #epochsPublished = new Set<string>();
  #wantsDurable: WantsDurable | null = null;
  #streamsWantDurable = false;

  constructor(deps: DurabilityEventsDeps, settings: EventSettings) {
    this.#deps = deps;
    this.#settings = settings;
    const { events, clock, log } = deps;
    this.#feed = new EventFeed({
      events,
      clock,
      log,
      primaryEpoch: () => this.#primaryEpoch(),
      epochs: () => deps.state().topology.epochs,
      onDurableWanted: (wanted) => {
        this.#streamsWantDurable = wanted;
        this.#publishWishes();
      },
    });
    this.#elsewhere = new BrokenElsewhere({
      events,
      clock,
      log,
      primaryEpoch: () => this.#primaryEpoch(),
      epochs: () => deps.state().topology.epochs,
      onPeerVerdicts: (peerVerdicts) => deps.onBroken?.(peerVerdicts),
    });
    this.#log = new EventLog({
      events,
      clock,
      log,
      outbox: deps.outbox,
      random: deps.random,
      keepMs: settings.keepMs,
      primaryEpoch: () => this.#primaryEpoch(),
      strongestMark: (epoch) => {
        const state = deps.state();
        const strongest = state.config.levels.at(-1);
        return strongest === undefined ? null : markIn(state, epoch, strongest.name);
      },
      prepare: (node) => deps.store.prepare(node),
      onRecorded: () => {
        this.#feed.wake();
      },
      isJudging: () => {
        const { asked, unproven } = deps.state().proofs;
        return asked.size > 0 || unproven.size > 0;
      },
    });
  }

  /** Before the loop starts: it may report something at once. */
  async start(): Promise<void> {
    await this.#log.start();
    this.#elsewhere.start();
    void this.#beat();
    void this.#expire();
  }

  /**
   * The ledger must still be open. Events that are not recorded by now are on disk, for the next
   * start.
   */
  async close(): Promise<void> {
    this.#stop.abort();
    this.#feed.stop();
    this.#elsewhere.stop();
    for (const stream of this.#streams.keys()) stream.end();
    const stopped = this.#log.stop();
    this.#deps.events.close();
    await stopped;
  }

  get streams(): number {
    return this.#streams.size;
  }

  get counts(): EventLog["counts"] {
    return this.#log.counts;
  }

  /** From now on, and until it is changed, such events are recorded too. Null: none. */
  recordDurable(wanted: WantsDurable | null): void {
    this.#wantsDurable = wanted;
    this.#publishWishes();
  }

  #publishWishes(): void {
    this.#deps.wantDurable(this.#streamsWantDurable || this.#wantsDurable !== null);
  }

  // The loop's reports; each in the tick in which the core has decided it, so that the ledger and
  // the outbox agree.

  onMarks(): void {
    this.#log.wake();
  }

  /**
   * Each epoch once, also one that began while this tracker was down; its key is the same,
   * whichever tracker reported it before.
   */
  onEpochs(): void {
    this.#elsewhere.wake();
    const { clock, isComplete } = this.#deps;
    // An older one may have been reported and dropped again.
    const sinceMs = clock.wallMs() - this.#settings.keepMs / 2;
    for (const record of this.#deps.state().topology.ancestry) {
      if (this.#epochsPublished.has(record.id) || Date.parse(record.startedAt) < sinceMs) continue;
      this.#epochsPublished.add(record.id);
      // An earlier one was reported when it began.
      const lacks = record.id === this.#primaryEpoch()?.epoch ? unlisted(this.#deps.state()) : 0;
      const complete = lacks === 0 && (isComplete?.(record) ?? false);
      this.#log.publish(epochEvent(record, { complete, unlisted: lacks }));
    }
    this.#log.wake();
  }

  onVerdict(published: Published): void {
    this.#log.publish(lostEvent(published));
  }

  onDelayed(published: Published): void {
    this.#log.publish(delayedEvent(published));
  }

  onDurable(level: string, items: readonly BecameDurable[]): void {
    this.#feed.durable(level, items);
    for (const item of items)
      if (this.#wantsDurable?.(item.owner, item.metadata) === true)
        this.#log.publish(durableEvent(level, item));
  }

  onStall(stall: StallEvent, isStalled: boolean): void {
    this.#log.publish(stallEvent(stall, isStalled));
  }

  onBrokenPromise(promise: BrokenPromiseData): void {
    this.#log.publish(brokenPromiseEvent(promise));
  }

  onUnlisted(data: UnlistedData, owner: bigint): void {
    this.#log.publish(unlistedEvent(data, owner));
  }

  /**
   * Answers with a stream that lasts until the client goes away, or the tracker stops.
   * Errors: HighwaterError `concurrency_limited`, `overloaded`; nothing was written then.
   */
  listen(response: ServerResponse, viewer: Viewer, query: EventsQuery): void {
    const { maxStreams, maxStreamsPerKey, drainMs } = this.#settings;
    if (this.#stop.signal.aborted)
      throw new HighwaterError("overloaded", {
        detail: "The tracker is shutting down.",
        retryAfterMs: 5_000,
      });
    if (this.#streams.size >= maxStreams)
      throw new HighwaterError("overloaded", {
        detail: `All ${String(maxStreams)} event streams are in use (eventStreams); retry later.`,
        limit: { name: "eventStreams", value: maxStreams },
        retryAfterMs: 5_000,
      });
    const ofKey = [...this.#streams.values()].filter(({ id }) => id === viewer.id).length;
    if (ofKey >= maxStreamsPerKey)
      throw new HighwaterError("concurrency_limited", {
        detail: `The credential has ${String(ofKey)} event streams open, its limit (eventStreamsPerKey); close one first.`,
        limit: { name: "eventStreamsPerKey", value: maxStreamsPerKey },
        retryAfterMs: 5_000,
      });
    const { clock } = this.#deps;
    const stream = new EventStream(response, {
      feed: this.#feed,
      clock,
      owner: viewer.owner,
      query,
      drainMs,
    });
    this.#streams.set(stream, viewer);
    response.once("close", () => {
      this.#streams.delete(stream);
    });
    if (response.destroyed) this.#streams.delete(stream);
    void stream.run();
  }

  /** Errors: HighwaterError `concurrency_limited`, `primary_unavailable`. */
  page({ owner }: Viewer, query: EventsQuery): Promise<Page> {
    return this.#pageTurns.take(owner, () => this.#page(owner, query));
  }

  async #page(owner: bigint | null, query: EventsQuery): Promise<Page> {
    const { types, limit } = query;
    try {
      const { primaryEpoch, from, end, missed } = await this.#feed.begin(query.after);
      const found = await this.#feed.read(primaryEpoch, { after: from, owner, types, limit: limit + 1 });
      const events = found.slice(0, limit);
      const newest = events.at(-1);
      const last = newest === undefined ? from : cursorAt(newest);
      const more = found.length > limit;
      // There was nothing else up to the end: the next question needs not look at it again.
      const next = more || comparePositions(end, last) < 0 ? last : end;
      return {
        events: events.map(wireEvent),
        next: formatCursor(next),
        more,
        missed,
      };
    } catch (cause) {
      if (cause instanceof HighwaterError && cause.code === "primary_unavailable") throw cause;
      const detail = "Events are in the store, and its primary is not reachable now; retry.";
      throw new HighwaterError("primary_unavailable", { detail, retryAfterMs: 1_000 }, { cause });
    }
  }

  #primaryEpoch(): PrimaryEpoch | null {
    const { standing } = this.#deps.state().topology;
    return standing.kind === "following" ? standing : null;
  }

  async #beat(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      await sleep(this.#deps.clock, this.#settings.heartbeatMs, this.#stop.signal);
      for (const stream of this.#streams.keys()) stream.heartbeat();
    }
  }

  async #expire(): Promise<void> {
    const { clock, events, log, readTime } = this.#deps;
    const { keepMs, expireEveryMs } = this.#settings;
    while (!this.#stop.signal.aborted) {
      await sleep(clock, expireEveryMs, this.#stop.signal);
      try {
        const timeMs = await readTime();
        for (let isMore = timeMs !== null; isMore && !this.#stop.signal.aborted;) {
          const now = this.#primaryEpoch();
          isMore = now !== null && (await events.expire(now.node, now.epoch, (timeMs ?? 0) - keepMs)) > 0;
        }
      } catch (cause) {
        log.warn("events_not_expired", { cause });
      }
    }
  }
}
