// The reference adapter of the events, for tests only: one history, which a test can end, cut off
// or delay.
import { type EpochId, HighwaterError, type Offset } from "@highwater/protocol";
import {
  bestOfKeys,
  comparePositions,
  type EventExtent,
  type EventFilter,
  type EventPosition,
  type EventStore,
  FIRST_POSITION,
  type HistoryPosition,
  MAX_EVENTS_PER_RECORDING,
  type NewEvent,
  type RecordedEvent,
  type Recording,
  whatIsBetter,
} from "../events.ts";

/** What is on the primary, for every caller. */
export class MemoryEventLog {
  epoch: EpochId;
  seq = 1;
  nowMs = 0;
  /** Called before each recording; what it throws, or waits for, is what the caller gets to see. */
  hold: (events: readonly NewEvent[]) => Promise<void> = () => Promise.resolve();
  #events: RecordedEvent[] = [];
  #end = FIRST_POSITION;
  #offset = 0n;
  #expiredTo: EventPosition = FIRST_POSITION;

  constructor(epoch: EpochId) {
    this.epoch = epoch;
  }

  get events(): readonly RecordedEvent[] {
    return this.#events;
  }

  get end(): HistoryPosition {
    return this.#end;
  }

  get expiredTo(): EventPosition {
    return this.#expiredTo;
  }

  get offset(): Offset {
    return this.#offset as Offset;
  }

  /** The epoch ends; its last `lost` events are not in the history of the next one. */
  begin(epoch: EpochId, lost = 0): void {
    this.epoch = epoch;
    this.seq++;
    this.#events = this.#events.slice(0, this.#events.length - lost);
    const last = this.#events.at(-1);
    if (lost > 0) this.#end = last === undefined ? FIRST_POSITION : positionOf(last);
  }

  append(event: NewEvent): RecordedEvent {
    const n = this.#end.seq === this.seq ? this.#end.n + 1 : 1;
    const position = { epoch: this.epoch, seq: this.seq, n };
    this.#end = position;
    // As a store would keep it: nothing of the caller's object.
    const data = JSON.parse(JSON.stringify(event.data)) as RecordedEvent["data"];
    const recorded = { ...event, data, ...position, atMs: this.nowMs };
    this.#events.push(recorded);
    this.#offset += 100n;
    return recorded;
  }

  /** Keeps the place. */
  revise({ seq, n }: EventPosition, data: RecordedEvent["data"]): void {
    this.#events = this.#events.map((event) =>
      event.seq === seq && event.n === n ? { ...event, data } : event,
    );
    this.#offset += 100n;
  }

  /** What takes its place gets a new one. */
  remove({ seq, n }: EventPosition): void {
    this.#events = this.#events.filter((event) => event.seq !== seq || event.n !== n);
  }

  drop(beforeMs: number): number {
    const kept = this.#events.filter(({ atMs }) => atMs >= beforeMs);
    const dropped = this.#events.filter(({ atMs }) => atMs < beforeMs);
    const last = dropped.at(-1);
    if (last !== undefined) this.#expiredTo = { seq: last.seq, n: last.n };
    this.#events = kept;
    return dropped.length;
  }
}

function positionOf({ epoch, seq, n }: HistoryPosition): HistoryPosition {
  return { epoch, seq, n };
}

export class MemoryEvents implements EventStore {
  readonly #log: MemoryEventLog;

  constructor(log: MemoryEventLog) {
    this.#log = log;
  }

  #check(epoch: EpochId): void {
    if (epoch !== this.#log.epoch) throw new HighwaterError("epoch_changed");
  }

  async record(_node: string, epoch: EpochId, events: readonly NewEvent[]): Promise<Recording> {
    if (events.length > MAX_EVENTS_PER_RECORDING) throw new RangeError("too many events");
    await this.#log.hold(events);
    this.#check(epoch);
    const log = this.#log;
    const before = new Map(log.events.map((event) => [event.key, event]));
    let fresh = 0;
    for (const event of bestOfKeys(events).values()) {
      const old = before.get(event.key);
      const better = old === undefined ? "owner" : whatIsBetter(old, event);
      if (old !== undefined && better === "data") log.revise(old, event.data);
      if (better !== "owner") continue;
      if (old !== undefined) log.remove(old);
      log.append(event);
      fresh++;
    }
    const now = new Map(log.events.map((event) => [event.key, event]));
    const recorded = events.map(({ key }) => now.get(key) as RecordedEvent);
    return { events: recorded, fresh, epoch: this.#log.epoch, asOf: this.#log.offset };
  }

  async read(_node: string, epoch: EpochId, filter: EventFilter): Promise<readonly RecordedEvent[]> {
    this.#check(epoch);
    const { after, owner, types, limit } = filter;
    return Promise.resolve(
      this.#log.events
        .filter(
          (event) =>
            comparePositions(event, after) > 0 &&
            (owner === null || event.owner === null || event.owner === owner) &&
            (types === null || types.includes(event.type)),
        )
        .slice(0, limit),
    );
  }

  async extent(_node: string, epoch: EpochId): Promise<EventExtent> {
    this.#check(epoch);
    return Promise.resolve({ end: this.#log.end, expiredTo: this.#log.expiredTo });
  }

  async expire(_node: string, epoch: EpochId, beforeMs: number): Promise<number> {
    this.#check(epoch);
    return Promise.resolve(this.#log.drop(beforeMs));
  }

  close(): void {
    return;
  }
}
