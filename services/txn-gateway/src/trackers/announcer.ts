// Announces every write transaction to every tracker before its COMMIT, and its position
// afterwards. Counts what no tracker has acknowledged; exposure/ keeps the bound, and
// announcements.ts has the queues.
import { randomBytes } from "node:crypto";
import {
  type Announcement,
  type AnsweredAnnouncement,
  type EpochId,
  formatAmount,
  formatOffset,
  type Offset,
  type TxnId,
  withRedo,
} from "@highwater/protocol";
import { sleep } from "@highwater/runtime";
import { type Deps } from "../deps.ts";
import { type Exposed } from "../exposure/tally.ts";
import { AnsweredItem, Item, TrackerQueue, type TrackerQueueOptions } from "./announcements.ts";

export interface AnnouncerOptions {
  readonly gateway: string;
  readonly region: string;
  readonly trackers: readonly string[];
  /** Ids that no tracker has acknowledged. */
  readonly maxPending: number;
  /** Bytes of contents above which a queue leaves out what another tracker has. */
  readonly maxContentsBytes: number;
  readonly onContact: () => void;
  readonly parentOf: TrackerQueueOptions["parentOf"];
}

/** What a client wants to be known of its transaction. */
interface Wishes {
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  /** Not durable at the level after so long: trackers report it. */
  readonly maxDelayMs?: number | undefined;
  readonly level: string;
  /** The service brings it back if it is lost. */
  readonly isRedone?: boolean;
}

/** What is announced of an attempt before its COMMIT. */
export interface Intent extends Wishes {
  /** It has ended so long from now, or its gateway is gone: its id is not settled sooner. */
  readonly endsWithinMs: number;
}

/** The attempt that is announced. */
export interface Announceable {
  readonly id: TxnId;
  readonly primaryEpoch: { readonly epoch: EpochId };
  /** 0 without authentication. */
  readonly owner: bigint;
  /** Absent or null: it does not count as exposed. */
  readonly exposed?: Pick<Exposed, "value"> | null;
}

/** An announcement and its position are two items. */
const ITEMS_PER_ID = 2;

const NOBODYS = {};
const BOOT_BYTES = 9;

/** The announcements of one attempt at one transaction. */
export class Announced {
  readonly #announcer: Announcer;
  readonly #id: TxnId;
  readonly #epoch: EpochId;
  readonly #whose: { readonly owner?: string };
  readonly #by: string;
  #unacknowledged = 0;
  #reached = false;
  #onReached = (): void => undefined;

  constructor(announcer: Announcer, attempt: Announceable, intent: Intent) {
    const { maxDelayMs, level, endsWithinMs } = intent;
    const metadata = intent.isRedone === true ? withRedo(intent.metadata) : intent.metadata;
    const { id, owner } = attempt;
    const value = attempt.exposed?.value ?? null;
    const { epoch } = attempt.primaryEpoch;
    this.#announcer = announcer;
    this.#by = announcer.nextAttempt();
    this.#id = id;
    this.#epoch = epoch;
    this.#whose = owner === 0n ? NOBODYS : { owner: owner.toString(10) };
    this.#send({
      kind: "intent",
      id,
      epoch,
      by: this.#by,
      endsWithinMs,
      ...this.#whose,
      ...(maxDelayMs === undefined ? {} : { maxDelayMs, level }),
      ...(metadata === undefined ? {} : { metadata }),
      ...(value === null ? {} : { atRisk: `${formatAmount(value.amount)} ${value.unit}` }),
    });
  }

  /** Some tracker has the id on disk by now. */
  get reached(): boolean {
    return this.#reached;
  }

  /** Resolves when some tracker has it; at once where there are none. */
  whenReached(): Promise<void> {
    if (this.#reached || !this.#announcer.hasTrackers) return Promise.resolve();
    const others = this.#onReached;
    return new Promise((resolve) => {
      this.#onReached = () => {
        others();
        resolve();
      };
    });
  }

  position(offset: Offset): void {
    const where = { id: this.#id, epoch: this.#epoch, offset: formatOffset(offset) };
    this.#send({ kind: "position", ...where, ...this.#whose });
  }

  /**
   * The attempt has not committed and never will. Announcements of other attempts under its id
   * stay.
   */
  withdraw(): void {
    this.#send({ kind: "withdrawn", id: this.#id, epoch: this.#epoch, by: this.#by, ...this.#whose });
  }

  /**
   * The sealed contents of the attempt, to be sent after its position. Resolves true when a tracker
   * has them on disk, and false when none keeps them.
   */
  contents(offset: string, sealed: string): Promise<boolean> {
    const announcer = this.#announcer;
    const { length } = sealed;
    announcer.contentsBegan(length);
    return new Promise((resolve) => {
      let answers = 0;
      const item = new Item(
        { kind: "contents", id: this.#id, epoch: this.#epoch, offset, sealed, ...this.#whose },
        (isKept) => {
          if (answers++ === 0) announcer.contentsEnded(length);
          if (isKept) resolve(true);
          else if (answers === announcer.trackers) resolve(false);
        },
      );
      announcer.enqueue(item);
    });
  }

  /** Whether the attempt's answer was written to the client. */
  answered(answered: "yes" | "no"): void {
    this.#announcer.answered(this.#id, { answered, epoch: this.#epoch, ...this.#whose });
  }

  #send(announcement: Announcement): void {
    if (!this.#announcer.hasTrackers) return;
    if (this.#unacknowledged++ === 0) this.#announcer.pendingBegan();
    const item = new Item(announcement, () => {
      this.#reached = true;
      this.#onReached();
      if (--this.#unacknowledged === 0) this.#announcer.pendingEnded();
    });
    this.#announcer.enqueue(item);
  }
}

/** Reports of answers that are still open, for as many owners. */
const OPEN_REPORTS = 1_000;

export class Announcer {
  readonly #deps: Pick<Deps, "clock" | "rng" | "log" | "transport">;
  readonly #queues: readonly TrackerQueue[];
  readonly #boot = randomBytes(BOOT_BYTES).toString("base64url");
  #attempts = 0;
  #pending = 0;
  #contentsPending = 0;
  /** By what they have in common. */
  readonly #reports = new Map<string, AnsweredItem>();

  constructor(deps: Pick<Deps, "clock" | "rng" | "log" | "transport">, options: AnnouncerOptions) {
    this.#deps = deps;
    this.#queues = options.trackers.map(
      (url) =>
        new TrackerQueue(deps, {
          gateway: options.gateway,
          region: options.region,
          url,
          trimAbove: ITEMS_PER_ID * options.maxPending,
          contentsAbove: options.maxContentsBytes,
          onContact: options.onContact,
          parentOf: options.parentOf,
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

  /** Bytes of contents that no tracker has acknowledged. */
  get contentsPending(): number {
    return this.#contentsPending;
  }

  get trackers(): number {
    return this.#queues.length;
  }

  contentsBegan(bytes: number): void {
    this.#contentsPending += bytes;
  }

  contentsEnded(bytes: number): void {
    this.#contentsPending -= bytes;
  }

  queueLengths(): { tracker: string; length: number }[] {
    return this.#queues.map((queue) => ({ tracker: queue.host, length: queue.length }));
  }

  /** Hands the id over to the queues in this very tick. */
  announce(attempt: Announceable, intent: Intent): Announced {
    return new Announced(this, attempt, intent);
  }

  /** Names one attempt among those of all gateways there will ever be. */
  nextAttempt(): string {
    return `${this.#boot}.${(++this.#attempts).toString(36)}`;
  }

  /** Many answers leave together, and their reports too; but none goes before its contents. */
  answered(id: TxnId, of: Omit<AnsweredAnnouncement, "kind" | "id" | "also">): void {
    const name = `${of.answered}/${of.epoch}/${of.owner ?? ""}`;
    if (this.#reports.get(name)?.add(id) === true) return;
    const item = new AnsweredItem({ kind: "answered", id, ...of });
    if (this.#reports.size >= OPEN_REPORTS) this.#reports.clear();
    this.#reports.set(name, item);
    this.enqueue(item);
  }

  enqueue(item: Item): void {
    if (item.contentsBytes > 0) this.#reports.clear();
    for (const queue of this.#queues) queue.push(item);
  }

  pendingBegan(): void {
    this.#pending++;
  }

  pendingEnded(): void {
    this.#pending--;
  }

  /**
   * Until every tracker has everything, or the limit is over. Answers how many ids no tracker has
   * acknowledged.
   */
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
