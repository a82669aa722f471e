// Nothing is forgotten: every write transaction is announced to every tracker before its COMMIT, and its position after.
// Owns the bound on what no tracker has acknowledged; the queues are in trackers/announcements.ts.
import {
  type Announcement,
  type EpochId,
  formatOffset,
  HighwaterError,
  type Offset,
  type TxnId,
} from "@highwater/protocol";
import { sleep } from "@highwater/store";
import { type Deps } from "./deps.ts";
import { Item, TrackerQueue } from "./trackers/announcements.ts";

export interface AnnouncerOptions {
  readonly gateway: string;
  readonly trackers: readonly string[];
  /** Ids that no tracker has acknowledged. */
  readonly maxPending: number;
  readonly onContact: () => void;
}

/** From here on fast transactions are slowed, more the nearer the bound is. */
const SLOW_FROM = 0.8;
const SLOW_MS_MAX = 100;
/** Safe transactions wait for their marks anyway and so cannot pile up as fast; their own bound is this many times the other. */
const SAFE_FACTOR = 2;
const RETRY_MS = 1_000;
/** An announcement and its position are two items. */
const ITEMS_PER_ID = 2;

/** The announcements of one attempt at one transaction. */
export class Announced {
  readonly #announcer: Announcer;
  readonly #id: TxnId;
  readonly #epoch: EpochId;
  #unacknowledged = 0;
  #reached = false;

  constructor(announcer: Announcer, id: TxnId, epoch: EpochId, metadata?: Readonly<Record<string, string>>) {
    this.#announcer = announcer;
    this.#id = id;
    this.#epoch = epoch;
    this.#send({ kind: "intent", id, epoch, ...(metadata === undefined ? {} : { metadata }) });
  }

  /** Some tracker has the id on disk by now. */
  get reached(): boolean {
    return this.#reached;
  }

  position(offset: Offset): void {
    this.#send({ kind: "position", id: this.#id, epoch: this.#epoch, offset: formatOffset(offset) });
  }

  /** The attempt has certainly not committed, and no other attempt had before it. */
  withdraw(): void {
    this.#send({ kind: "withdrawn", id: this.#id, epoch: this.#epoch });
  }

  #send(announcement: Announcement): void {
    if (!this.#announcer.hasTrackers) return;
    if (this.#unacknowledged++ === 0) this.#announcer.pendingBegan();
    const item = new Item(announcement, () => {
      this.#reached = true;
      if (--this.#unacknowledged === 0) this.#announcer.pendingEnded();
    });
    this.#announcer.enqueue(item);
  }
}

export class Announcer {
  readonly #deps: Pick<Deps, "clock" | "rng" | "log" | "transport">;
  readonly #options: AnnouncerOptions;
  readonly #queues: readonly TrackerQueue[];
  #pending = 0;

  constructor(deps: Pick<Deps, "clock" | "rng" | "log" | "transport">, options: AnnouncerOptions) {
    this.#deps = deps;
    this.#options = options;
    this.#queues = options.trackers.map(
      (url) =>
        new TrackerQueue(deps, {
          gateway: options.gateway,
          url,
          trimAbove: ITEMS_PER_ID * options.maxPending,
          onContact: options.onContact,
        }),
    );
  }

  get hasTrackers(): boolean {
    return this.#queues.length > 0;
  }

  /** Ids with an announcement that no tracker has acknowledged. */
  get pending(): number {
    return this.#pending;
  }

  queueLengths(): { tracker: string; length: number }[] {
    return this.#queues.map((queue) => ({ tracker: queue.host, length: queue.length }));
  }

  /** What a new write transaction has to wait before it may begin. Throws `exposure_limit` at the bound. */
  admit(ack: "commit" | "durable"): Promise<void> | null {
    const { maxPending } = this.#options;
    const bound = ack === "commit" ? maxPending : SAFE_FACTOR * maxPending;
    if (this.#pending >= bound)
      throw new HighwaterError("exposure_limit", {
        detail: "No tracker acknowledges announcements; their number has reached the bound.",
        retryAfterMs: RETRY_MS,
      });
    const over = this.#pending / maxPending - SLOW_FROM;
    if (ack !== "commit" || over < 0) return null;
    return sleep(this.#deps.clock, SLOW_MS_MAX * Math.min(1, over / (1 - SLOW_FROM)));
  }

  /** Hands the id over to the queues in this very tick. */
  announce(id: TxnId, epoch: EpochId, metadata?: Readonly<Record<string, string>>): Announced {
    return new Announced(this, id, epoch, metadata);
  }

  enqueue(item: Item): void {
    for (const queue of this.#queues) queue.push(item);
  }

  pendingBegan(): void {
    this.#pending++;
  }

  pendingEnded(): void {
    this.#pending--;
  }

  /** Until every tracker has everything, or the limit is over. Answers how many ids no tracker has acknowledged. */
  async flush(limitMs: number): Promise<number> {
    const over = new AbortController();
    const all = Promise.all(this.#queues.map((queue) => queue.drained()));
    await Promise.race([all, sleep(this.#deps.clock, limitMs, over.signal)]);
    over.abort();
    return this.#pending;
  }

  stop(): void {
    for (const queue of this.#queues) queue.stop();
  }
}
