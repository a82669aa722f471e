// The announcements to one tracker: kept in order, sent in batches, and sent again until the
// tracker has them on disk. Self-clocked: one batch is in flight, and everything since then goes in
// the next.
import {
  type Announcement,
  AnnouncementsAnswer,
  type AnsweredAnnouncement,
  LIMITS,
  validate,
} from "@highwater/protocol";
import { sleep } from "@highwater/runtime";
import { hostOf, isLogged } from "@highwater/service";
import { type Deps } from "../deps.ts";

/** One announcement, shared by the queues of all trackers. */
export class Item {
  readonly announcement: Announcement;
  readonly #onAcknowledged: (isKept: boolean) => void;
  #json: string | null = null;
  #acknowledged = false;

  /**
   * `onAcknowledged`: called for each tracker that has it on disk, or (false) does not keep the
   * contents in it; only once unless it has contents.
   */
  constructor(announcement: Announcement, onAcknowledged: (isKept: boolean) => void) {
    this.announcement = announcement;
    this.#onAcknowledged = onAcknowledged;
  }

  /** Bytes of contents in it. */
  get contentsBytes(): number {
    return this.announcement.kind === "contents" ? this.announcement.sealed.length : 0;
  }

  /** Some tracker has it on disk. */
  get acknowledged(): boolean {
    return this.#acknowledged;
  }

  get isSent(): boolean {
    return this.#json !== null;
  }

  get json(): string {
    return (this.#json ??= JSON.stringify(this.announcement));
  }

  acknowledge(isKept = true): void {
    if (this.#acknowledged && this.announcement.kind !== "contents") return;
    this.#acknowledged = true;
    this.#onAcknowledged(isKept);
  }
}

/** Takes more ids until the first tracker gets it. */
export class AnsweredItem extends Item {
  readonly #also: string[];

  constructor(announcement: AnsweredAnnouncement) {
    const also: string[] = [];
    super({ ...announcement, also }, () => undefined);
    this.#also = also;
  }

  /** Returns false if it is on its way, or full. */
  add(id: string): boolean {
    if (this.isSent || this.#also.length >= LIMITS.announcementsPerBatch) return false;
    this.#also.push(id);
    return true;
  }
}

export interface TrackerQueueOptions {
  readonly gateway: string;
  readonly region: string;
  readonly url: string;
  /** Above this length, what another tracker holds is left out here. */
  readonly trimAbove: number;
  /** The same for the bytes of contents. */
  readonly contentsAbove: number;
  readonly onContact: () => void;
  /** The epoch before, if it is known. */
  readonly parentOf: (epoch: string) => string | null;
}

const SEND_TIMEOUT_MS = 5_000;
/** Below the usual limit of an HTTP server's request body. */
const BATCH_BYTES_MAX = 512 * 1_024;
const BATCH_BYTES_MIN = 8 * 1_024;
/** Under load a batch every two milliseconds carries more and costs less than one per commit. */
const BATCH_INTERVAL_MS = 2;
/**
 * After a batch of so many, the queue rests: to wake the tracker and its threads costs more than
 * what a batch carries. (docs/decisions/0250-a-busy-queue-of-announcements-rests.md)
 */
const BUSY_ITEMS = 32;
const REST_MS = 5;
const BACKOFF_MS_MIN = 50;
const BACKOFF_MS_MAX = 5_000;

export class TrackerQueue {
  readonly #deps: Pick<Deps, "clock" | "rng" | "log" | "transport">;
  readonly #options: TrackerQueueOptions;
  readonly #stop = new AbortController();
  #wake = new AbortController();
  #items: Item[] = [];
  /** Items at the head that are on their way now. */
  #sending = 0;
  #trimAt: number;
  #contentsBytes = 0;
  #contentsTrimAt: number;
  #batchBytes = BATCH_BYTES_MAX;
  #failures = 0;
  #running = false;
  #idle: (() => void)[] = [];

  constructor(deps: Pick<Deps, "clock" | "rng" | "log" | "transport">, options: TrackerQueueOptions) {
    this.#deps = deps;
    this.#options = options;
    this.#trimAt = options.trimAbove;
    this.#contentsTrimAt = options.contentsAbove;
  }

  get length(): number {
    return this.#items.length;
  }

  get host(): string {
    return hostOf(this.#options.url);
  }

  push(item: Item): void {
    this.#items.push(item);
    this.#contentsBytes += item.contentsBytes;
    if (this.#items.length > this.#trimAt || this.#contentsBytes > this.#contentsTrimAt) this.#trim();
    if (!this.#running) void this.#run();
  }

  /**
   * Resolves when nothing is left to send. A tracker that is being retried is tried again at once.
   */
  drained(): Promise<void> {
    this.#wake.abort();
    this.#wake = new AbortController();
    if (this.#items.length === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  stop(): void {
    this.#stop.abort();
    this.#wake.abort();
  }

  /**
   * The ledger of another tracker holds what is left out; what no tracker has acknowledged always
   * stays.
   */
  #trim(): void {
    const before = this.#items.length;
    this.#items = this.#items.filter((item, index) => index < this.#sending || !item.acknowledged);
    // Twice what had to stay, so that the cost of trimming is spread over as many pushes.
    this.#trimAt = Math.max(this.#options.trimAbove, 2 * this.#items.length);
    this.#contentsBytes = this.#items.reduce((sum, item) => sum + item.contentsBytes, 0);
    this.#contentsTrimAt = Math.max(this.#options.contentsAbove, 2 * this.#contentsBytes);
    const left = before - this.#items.length;
    if (left > 0) this.#deps.log.warn("announcements_left_to_others", { tracker: this.host, count: left });
  }

  async #run(): Promise<void> {
    const { clock } = this.#deps;
    this.#running = true;
    // Whatever else this tick commits goes along.
    await Promise.resolve();
    while (this.#items.length > 0 && !this.#stop.signal.aborted) {
      const beganMs = clock.monotonicMs();
      const batch = this.#takeBatch();
      this.#sending = batch.length;
      const notKept = await this.#send(batch);
      this.#sending = 0;
      if (notKept !== null) {
        this.#items.splice(0, batch.length);
        for (const item of batch) {
          this.#contentsBytes -= item.contentsBytes;
          item.acknowledge(notKept.size === 0 || !notKept.has(nameOf(item.announcement)));
        }
      }
      const restMs =
        batch.length < BUSY_ITEMS ? BATCH_INTERVAL_MS - (clock.monotonicMs() - beganMs) : REST_MS;
      const pauseMs = notKept === null ? this.#backoffMs() : restMs;
      if (this.#items.length > 0 && pauseMs > 0) await sleep(clock, pauseMs, this.#wake.signal);
    }
    this.#running = false;
    if (this.#items.length === 0) {
      this.#trimAt = this.#options.trimAbove;
      this.#contentsTrimAt = this.#options.contentsAbove;
    }
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  #takeBatch(): Item[] {
    let bytes = 0;
    let count = 0;
    for (const item of this.#items) {
      bytes += item.json.length;
      if (count > 0 && (bytes > this.#batchBytes || count >= LIMITS.announcementsPerBatch)) break;
      count++;
    }
    return this.#items.slice(0, count);
  }

  /**
   * Returns the names of those whose contents the tracker does not keep, or null if it did not take
   * the batch.
   */
  async #send(batch: readonly Item[]): Promise<ReadonlySet<string> | null> {
    const { gateway, region, url, onContact, parentOf } = this.#options;
    const from = `"gateway":${JSON.stringify(gateway)},"region":${JSON.stringify(region)}`;
    const parents = parentsOf(batch, parentOf);
    const body = `{${from},"parents":${parents},"announcements":[${batch.map((item) => item.json).join(",")}]}`;
    try {
      const answer = await this.#deps.transport.post(`${url}/internal/announcements`, body, SEND_TIMEOUT_MS);
      onContact();
      if (answer.status >= 200 && answer.status < 300) {
        if (this.#failures > 0) this.#deps.log.info("announcements_resumed", { tracker: this.host });
        this.#failures = 0;
        return answer.status === 200 ? readNotKept(answer.body) : NONE;
      }
      if (answer.status === 413) this.#batchBytes = Math.max(BATCH_BYTES_MIN, this.#batchBytes / 2);
      this.#noteFailure({ status: answer.status });
    } catch (cause) {
      this.#noteFailure({ cause });
    }
    return null;
  }

  #noteFailure(why: Readonly<Record<string, unknown>>): void {
    // A tracker may be down for hours.
    if (!isLogged(++this.#failures)) return;
    const { log } = this.#deps;
    log.warn("announcements_held_up", { tracker: this.host, failures: this.#failures, ...why });
  }

  #backoffMs(): number {
    const ceiling = Math.min(BACKOFF_MS_MAX, BACKOFF_MS_MIN * 2 ** Math.min(this.#failures, 16));
    return ceiling * (0.5 + 0.5 * this.#deps.rng.random());
  }
}

const NONE: ReadonlySet<string> = new Set();

function nameOf({ id, epoch, owner = "0" }: Pick<Announcement, "id" | "epoch" | "owner">): string {
  return `${id}/${epoch}/${owner}`;
}

/** Throws if it is not a tracker's answer. */
function readNotKept(body: string): ReadonlySet<string> {
  const answer = validate(AnnouncementsAnswer, JSON.parse(body));
  if (!answer.ok) throw new Error(answer.faults.join("; "));
  return new Set(answer.value.notKept.map(nameOf));
}

function parentsOf(batch: readonly Item[], parentOf: TrackerQueueOptions["parentOf"]): string {
  const epochs = [...new Set(batch.map(({ announcement }) => announcement.epoch))];
  const known = epochs.flatMap((epoch) => {
    const parent = parentOf(epoch);
    return parent === null ? [] : [[epoch, parent]];
  });
  return JSON.stringify(Object.fromEntries(known));
}
