// One server of the memory world: its log, how much of it is on disk, the tables as far as it has
// replayed, and the sentinel, which a recovery empties. Knows no other node; the world moves
// records between nodes.
import { type EpochId, type Offset, ZERO } from "@highwater/protocol";
import { type Execution, type StoreNode } from "../port.ts";
import { type Change, History, type LogRecord, sizeOf } from "./history.ts";

/**
 * A transaction that holds its id and waits. Its client may be gone: then no one learns how it
 * ends.
 */
export interface OpenTransaction {
  readonly helper: string;
  readonly beganMs: number;
  /** Commits, and answers the client. */
  readonly commit: () => Execution;
  client: {
    readonly resolve: (execution: Execution) => void;
    readonly reject: (cause: Error) => void;
  } | null;
}

/** Where a timeline was left for the next one. */
export interface TimelineSwitch {
  readonly timeline: number;
  readonly at: Offset;
}

export interface Sentinel {
  readonly epoch: EpochId;
  readonly incarnation: string;
  /** The server went back to an earlier state by itself, so nothing in its log is proof. */
  readonly isDisowned?: boolean;
}

/** What a copy of a node's disk holds. */
export interface MemorySnapshot {
  readonly log: readonly LogRecord[];
  readonly timeline: number;
  readonly switches: readonly TimelineSwitch[];
  /**
   * Null unless the node had been stopped cleanly: a copy of anything else recovers when it starts.
   */
  readonly sentinel: Sentinel | null;
  readonly isClean: boolean;
}

/** So that no real offset is zero. */
export const FIRST_OFFSET = 1_000n as Offset;
const CHECKPOINT_BYTES = 120;

export class MemoryNode {
  readonly spec: StoreNode;
  role: "primary" | "replica" = "replica";
  isUp = true;
  /** The last stop was a clean one. */
  isClean = false;
  incarnation: string;
  timeline = 1;
  switches: TimelineSwitch[] = [];
  /**
   * How far the last recovery went, and whether it ended with a promotion. As on the real server it
   * is forgotten in a clean restart.
   */
  recovery: { readonly end: Offset; readonly isPromotion: boolean } | null = null;
  sentinel: Sentinel | null = null;
  /** The node that a replica follows. */
  upstream: string | null = null;
  isCut = false;
  /** Names the stream from the upstream; renewed whenever that is interrupted. */
  session = 0;
  /**
   * Bytes of a stream that came from another history were written up to here; they are not a log.
   */
  junkEnd: Offset = ZERO;
  unfit: string | null = null;
  /** By `receiptName`. */
  readonly open = new Map<string, OpenTransaction>();
  /** How long any transaction may take, as far as anybody has said. */
  limitMs = 0;
  #log: LogRecord[] = [];
  #flushed = 0;
  #applied = 0;
  #history = new History();

  /** The log of a node that has never run begins here. */
  readonly #origin: Offset;

  constructor(spec: StoreNode, incarnation: string, origin: Offset) {
    this.spec = spec;
    this.incarnation = incarnation;
    this.#origin = origin;
  }

  get log(): readonly LogRecord[] {
    return this.#log;
  }

  get history(): History {
    return this.#history;
  }

  /** Records on disk. */
  get flushedCount(): number {
    return this.#flushed;
  }

  get end(): Offset {
    return this.#log.at(-1)?.end ?? this.#origin;
  }

  get flushed(): Offset {
    return this.#endOf(this.#flushed);
  }

  get applied(): Offset {
    return this.#endOf(this.#applied);
  }

  #endOf(count: number): Offset {
    return count === 0 ? this.#origin : (this.#log[count - 1]?.end ?? this.#origin);
  }

  /** The epoch in which a transaction can commit now. */
  get epoch(): EpochId | null {
    const { sentinel } = this;
    if (sentinel === null || sentinel.isDisowned === true) return null;
    return sentinel.incarnation === this.incarnation ? sentinel.epoch : null;
  }

  /** Appends one atomic record to a primary's log; visible at once, not yet on disk. */
  append(changes: readonly Change[], bytes = sizeOf(changes)): LogRecord {
    const record: LogRecord = { start: this.end, end: (this.end + BigInt(bytes)) as Offset, changes };
    this.#log.push(record);
    this.#apply(this.#log.length);
    return record;
  }

  flush(): void {
    this.#flushed = this.#log.length;
  }

  /**
   * A replica's receipt of records that directly follow its own: written, flushed and, unless held
   * back, replayed.
   */
  receive(records: readonly LogRecord[]): void {
    this.#log.push(...records);
    this.flush();
  }

  /** Replays up to `count` records of what is on disk. */
  replay(count = Number.POSITIVE_INFINITY): void {
    this.#apply(Math.min(this.#flushed, this.#applied + count));
  }

  #apply(until: number): void {
    for (; this.#applied < until; this.#applied++) {
      const record = this.#log[this.#applied];
      if (record !== undefined) this.#history.apply(record);
    }
  }

  /**
   * The end of a server process without a word: what is not on disk is gone, and so are its
   * sessions.
   */
  lose(): void {
    this.#log = this.#log.slice(0, this.#flushed);
    this.#applied = 0;
    this.#history = new History();
    this.#apply(this.#flushed);
    this.junkEnd = ZERO;
    this.endSessions();
  }

  endSessions(): void {
    for (const transaction of this.open.values())
      transaction.client?.reject(new Error("the connection ended"));
    this.open.clear();
  }

  /** Recovery empties the sentinel and ends with a checkpoint in the log. */
  recover(isPromotion = false): void {
    this.sentinel = null;
    this.junkEnd = ZERO;
    this.replay();
    this.recovery = { end: this.flushed, isPromotion };
    if (this.role === "primary") this.checkpoint();
  }

  checkpoint(): void {
    this.append([], CHECKPOINT_BYTES);
    this.flush();
  }

  copy(): MemorySnapshot {
    const isClean = !this.isUp && this.isClean;
    return {
      log: this.#log.slice(0, this.#flushed),
      timeline: this.timeline,
      switches: [...this.switches],
      sentinel: isClean ? this.sentinel : null,
      isClean,
    };
  }

  /** Puts a copy in place of everything that is on this node's disk. */
  replaceBy(copy: MemorySnapshot): void {
    this.#log = [...copy.log];
    this.flush();
    this.lose();
    this.timeline = copy.timeline;
    this.switches = [...copy.switches];
    this.sentinel = copy.sentinel;
    this.isClean = copy.isClean;
  }
}
