// The outbox: records each event in the store whatever fails meanwhile, and forgets it here only
// when the recording is as safe as the store can make it. Owns order, retries and the bound on
// memory, not the contents.
import { type EpochId, HighwaterError, type Offset } from "@highwater/protocol";
import { type Clock, sleep } from "@highwater/runtime";
import { type Log } from "@highwater/service";
import {
  type EventStore,
  MAX_EVENTS_PER_RECORDING,
  type NewEvent,
  type RecordedEvent,
} from "@highwater/store";
import { type OutboxStore } from "./outbox-store.ts";

export interface PrimaryEpoch {
  readonly node: string;
  readonly epoch: EpochId;
}

export interface EventLogDeps {
  readonly events: EventStore;
  readonly outbox: OutboxStore;
  readonly clock: Clock;
  readonly log: Log;
  /** Evenly distributed in [0, 1). */
  readonly random: () => number;
  readonly primaryEpoch: () => PrimaryEpoch | null;
  /** The mark of the strongest level in the epoch; null while there is none. */
  readonly strongestMark: (epoch: EpochId) => Offset | null;
  /** Creates what the store lacks: it may be of an older version. */
  readonly prepare: (node: string) => Promise<void>;
  /** Called at every recording; `fresh`: how many events no tracker had recorded before. */
  readonly onRecorded: (events: readonly RecordedEvent[], fresh: number) => void;
  /**
   * A recording that reaches the strongest level in no such time is let go: its events will soon be
   * dropped as well.
   */
  readonly keepMs: number;
  /**
   * While verdicts are being found, their events wait a little: both need the same store. Default:
   * never.
   */
  readonly isJudging?: () => boolean;
}

interface Kept {
  readonly number: number;
  readonly event: NewEvent;
  readonly bytes: number;
}

/** One recording that is not safe yet. */
interface Unsafe {
  readonly numbers: readonly number[];
  readonly asOf: Offset;
  readonly atMs: number;
}

/** Of what waits, so much is in memory; the rest is on disk alone. */
const AHEAD_EVENTS = 10_000;
const AHEAD_BYTES = 8 * 1024 * 1024;
const BATCH_BYTES = 4 * 1024 * 1024;
const RETRY_MS = 100;
const RETRY_MS_MAX = 5_000;
/** Whatever else happens, one looks so often whether something can be done. */
const LOOK_MS = 1_000;
/** So long at most, however long it takes to judge. */
const YIELD_MS_MAX = 10_000;
const YIELD_MS = 50;
const NUMBER_DIGITS = 16;

export class EventLog {
  readonly #deps: EventLogDeps;
  readonly #stop = new AbortController();
  #wake = new AbortController();
  #backoff = new AbortController();
  /** Everything on disk has a number, in the order of the events. */
  #last = 0;
  #onDisk = 0;
  /** The epoch in which everything up to `#cursor` has been recorded. */
  #epoch: EpochId | null = null;
  #cursor = 0;
  /** What comes next. `#isAll`: there is nothing behind it on disk. */
  #ahead: Kept[] = [];
  #aheadBytes = 0;
  #isAll = false;
  #unsafe: Unsafe[] = [];
  #batchLimit = MAX_EVENTS_PER_RECORDING;
  #failures = 0;
  #isIdle = false;
  #setAside = 0;
  #recorded = 0;
  #judgingSinceMs: number | null = null;
  #running: Promise<void> | null = null;

  constructor(deps: EventLogDeps) {
    this.#deps = deps;
  }

  /**
   * `kept`: published and not safe in the store yet. `setAside`: refused by the store again and
   * again, one by one.
   */
  get counts(): { readonly kept: number; readonly recorded: number; readonly setAside: number } {
    return { kept: this.#onDisk, recorded: this.#recorded, setAside: this.#setAside };
  }

  /** Finds what an earlier process has left. Before the first `publish`. */
  async start(): Promise<void> {
    const { outbox, log } = this.#deps;
    await outbox.flush();
    for (let after = ""; ; after = keyOf(this.#last)) {
      const page = await outbox.load(after, AHEAD_EVENTS);
      const last = [...page.keys()].at(-1);
      if (last === undefined) break;
      this.#last = Number(last);
      this.#onDisk += page.size;
    }
    if (this.#onDisk > 0) log.info("events_left", { events: this.#onDisk });
    this.#isAll = this.#onDisk === 0;
    this.#running = this.#run();
  }

  /** Ends without waiting for what is not recorded: it is on disk. */
  async stop(): Promise<void> {
    this.#stop.abort();
    this.#wake.abort();
    await this.#running;
  }

  /**
   * Never fails, never waits. Goes to disk with everything else that is queued for the ledger in
   * this tick.
   */
  publish(event: NewEvent): void {
    if (this.#running === null) throw new Error("the outbox was not started");
    const number = ++this.#last;
    const body = encode(event);
    this.#deps.outbox.save(keyOf(number), body);
    this.#onDisk++;
    const hasRoom = this.#ahead.length < AHEAD_EVENTS && this.#aheadBytes < AHEAD_BYTES;
    if (this.#isAll && hasRoom) this.#append({ number, event, bytes: body.length });
    else this.#isAll = false;
    // A hundred thousand may come in a row: a writer that is awake needs no waking.
    if (this.#isIdle) this.wake();
  }

  /** Something may have changed: the primary, or how far the marks are. */
  wake(): void {
    this.#confirm();
    const epoch = this.#deps.primaryEpoch()?.epoch ?? this.#epoch;
    const isSame = epoch === this.#epoch;
    // Marks move hundreds of times a second, and mostly there are no events.
    if (isSame && this.#onDisk === 0) return;
    this.#isIdle = false;
    if (!isSame) this.#backoff.abort();
    this.#wake.abort();
    if (!this.#stop.signal.aborted) this.#wake = new AbortController();
  }

  #append(kept: Kept): void {
    this.#ahead.push(kept);
    this.#aheadBytes += kept.bytes;
  }

  async #run(): Promise<void> {
    const { clock, primaryEpoch, log } = this.#deps;
    while (!this.#stop.signal.aborted) {
      // Before anything is looked at: a wake-up from here on is not missed.
      const wake = this.#wake.signal;
      const now = primaryEpoch();
      if (now !== null && now.epoch !== this.#epoch) this.#startOver(now.epoch);
      if (now === null || (this.#isAll && this.#ahead.length === 0)) {
        await this.#idle(wake);
        continue;
      }
      if (this.#yields()) {
        await sleep(clock, YIELD_MS, this.#stop.signal);
        continue;
      }
      try {
        if (this.#ahead.length === 0) await this.#readOn();
        else await this.#record(now, this.#batch());
        this.#failures = 0;
      } catch (cause) {
        const pauseMs = Math.min(RETRY_MS_MAX, RETRY_MS * 2 ** this.#failures++);
        if (!(cause instanceof HighwaterError && cause.code === "epoch_changed"))
          log.warn("events_not_recorded", { waiting: this.#onDisk, retryMs: pauseMs, cause });
        // Whatever failed in one epoch says nothing of the next.
        this.#backoff = new AbortController();
        const until = AbortSignal.any([this.#stop.signal, this.#backoff.signal]);
        await sleep(clock, pauseMs * (0.5 + this.#deps.random() / 2), until);
      }
    }
  }

  #yields(): boolean {
    const { clock, isJudging } = this.#deps;
    if (isJudging?.() !== true) {
      this.#judgingSinceMs = null;
      return false;
    }
    this.#judgingSinceMs ??= clock.monotonicMs();
    return clock.monotonicMs() - this.#judgingSinceMs < YIELD_MS_MAX;
  }

  async #idle(wake: AbortSignal): Promise<void> {
    this.#isIdle = true;
    if (this.#onDisk === 0) {
      if (!wake.aborted)
        await new Promise((resolve) => {
          wake.addEventListener("abort", resolve, { once: true });
        });
      return;
    }
    await sleep(this.#deps.clock, LOOK_MS, wake);
    this.#confirm();
  }

  /**
   * In another epoch what was not safe may be missing: everything that is still here is recorded
   * again.
   */
  #startOver(epoch: EpochId): void {
    this.#epoch = epoch;
    this.#failures = 0;
    this.#cursor = 0;
    this.#ahead = [];
    this.#aheadBytes = 0;
    this.#unsafe = [];
    this.#isAll = this.#onDisk === 0;
  }

  async #readOn(): Promise<void> {
    const { outbox, log } = this.#deps;
    const last = this.#last;
    const from = this.#cursor;
    await outbox.flush();
    const page = await outbox.load(keyOf(from), AHEAD_EVENTS);
    for (const [key, body] of page) {
      const event = decode(body);
      if (event !== null) this.#append({ number: Number(key), event, bytes: body.length });
      else {
        log.error("event_unreadable", { key });
        if (this.#ahead.length === 0) this.#cursor = Number(key);
      }
      if (this.#aheadBytes >= AHEAD_BYTES) return;
    }
    // An event since the question went to disk alone: it is found by the next one.
    if (page.size < AHEAD_EVENTS && this.#last === last) this.#isAll = true;
  }

  #batch(): Kept[] {
    let bytes = 0;
    const batch: Kept[] = [];
    for (const kept of this.#ahead) {
      bytes += kept.bytes;
      if (batch.length === this.#batchLimit || (batch.length > 0 && bytes > BATCH_BYTES)) break;
      batch.push(kept);
    }
    return batch;
  }

  async #record(now: PrimaryEpoch, batch: readonly Kept[]): Promise<void> {
    const { events, clock, onRecorded, prepare } = this.#deps;
    try {
      const recording = await events.record(
        now.node,
        now.epoch,
        batch.map(({ event }) => event),
      );
      this.#recorded += recording.fresh;
      onRecorded(recording.events, recording.fresh);
      // Over before it was done: the next epoch may not have it.
      if (recording.epoch !== now.epoch) return;
      this.#unsafe.push({
        numbers: batch.map(({ number }) => number),
        asOf: recording.asOf,
        atMs: clock.monotonicMs(),
      });
      this.#pass(batch);
      this.#batchLimit = Math.min(MAX_EVENTS_PER_RECORDING, this.#batchLimit * 2);
      this.#confirm();
    } catch (cause) {
      if (isMissingTable(cause)) await prepare(now.node);
      else if (isRefused(cause)) this.#narrow(batch, cause);
      throw cause;
    }
  }

  #pass(batch: readonly Kept[]): void {
    this.#cursor = batch.at(-1)?.number ?? this.#cursor;
    this.#ahead.splice(0, batch.length);
    for (const { bytes } of batch) this.#aheadBytes -= bytes;
  }

  /**
   * One that the store cannot take must not keep the others waiting. It stays on disk, and the next
   * epoch tries again.
   */
  #narrow(batch: readonly Kept[], cause: unknown): void {
    this.#batchLimit = Math.max(1, Math.floor(batch.length / 2));
    const [only] = batch;
    if (batch.length > 1 || only === undefined) return;
    this.#deps.log.error("event_refused", { key: only.event.key, cause });
    this.#setAside++;
    this.#pass(batch);
  }

  /** Forgets what is safe now. */
  #confirm(): void {
    const [first] = this.#unsafe;
    if (first === undefined || this.#epoch === null) return;
    const mark = this.#deps.strongestMark(this.#epoch);
    const oldMs = this.#deps.clock.monotonicMs() - this.#deps.keepMs;
    const open = this.#unsafe.findIndex(({ asOf, atMs }) => (mark === null || asOf > mark) && atMs > oldMs);
    for (const { numbers } of this.#unsafe.splice(0, open === -1 ? this.#unsafe.length : open)) {
      for (const number of numbers) this.#deps.outbox.remove(keyOf(number));
      this.#onDisk -= numbers.length;
    }
  }
}

function keyOf(number: number): string {
  return String(number).padStart(NUMBER_DIGITS, "0");
}

function encode({ key, type, owner, data }: NewEvent): string {
  return JSON.stringify({ key, type, owner: owner === null ? null : String(owner), data });
}

function decode(body: string): NewEvent | null {
  try {
    const { key, type, owner, data } = JSON.parse(body) as Omit<NewEvent, "owner"> & { owner: string | null };
    return { key, type, owner: owner === null ? null : BigInt(owner), data };
  } catch {
    return null;
  }
}

const codeOf = (cause: unknown): string => {
  const { code } = cause as { code?: unknown };
  return typeof code === "string" ? code : "";
};

function isMissingTable(cause: unknown): boolean {
  return codeOf(cause) === "42P01";
}

/** Not for want of a server: the data exception, constraint and limit classes of SQLSTATE. */
function isRefused(cause: unknown): boolean {
  return /^(22|23|54)[0-9A-Z]{3}$/.test(codeOf(cause));
}
