// Decides when a held answer may go out. One query reads the end of the log for all answers that
// came since the last query; an answer goes out when its level's mark reaches that position. For
// commits the flush help replaces the query: it returns a position that its flush covers. A
// question is sent as soon as none is in flight.
import { type EpochId, type Offset } from "@highwater/protocol";
import { type Clock, sleep } from "@highwater/runtime";
import { type Store } from "@highwater/store";
import { type MarkBoard } from "../outcomes/marks.ts";
import { type FlushHelp } from "../primary/flush.ts";
import { type PrimaryEpoch } from "../primary/primary.ts";
import { INTEREST_MS, type MarkInterest } from "../trackers/interest.ts";

export interface Position {
  readonly epoch: EpochId;
  readonly offset: Offset;
}

/** One answer that waits. */
export interface Wanted {
  /** The primary's epoch in which the answer was given. */
  readonly primaryEpoch: PrimaryEpoch;
  /** Null: only the position is wanted. */
  readonly level: string | null;
  /** The answer follows a commit, whose record has to be flushed to disk. */
  readonly isCommit?: boolean;
  /** Called with the end of the log after the answer, once it is known. */
  readonly onPosition?: (position: Position) => void;
  /** `ended`: the epoch is over, and the outcome is not known here. */
  readonly onEnd: (end: "durable" | "ended", position: Position | null) => void;
}

export interface PositionsContext {
  readonly deps: { readonly clock: Clock; readonly store: Pick<Store, "logEnd"> };
  readonly marks: Pick<MarkBoard, "reached" | "wait">;
  readonly flush: Pick<FlushHelp, "committed" | "reach">;
  readonly interest: Pick<MarkInterest, "renew">;
  /** A failure that may mean the end of the primary. */
  readonly onFailure: () => void;
}

/** An error in the callback affects only its own answer, not the others. */
function guarded(callback: () => void): void {
  try {
    callback();
  } catch {
    // The session catches its own errors and has ended.
  }
}

function tell({ onEnd }: Wanted, how: "durable" | "ended", position: Position | null): void {
  guarded(() => {
    onEnd(how, position);
  });
}

const RETRY_MS_MIN = 10;
const RETRY_MS_MAX = 1_000;

export class Positions {
  readonly #parts: PositionsContext;
  readonly #stop = new AbortController();
  readonly #ended = new Set<EpochId>();
  /** By node, in order of arrival. */
  readonly #wanted = new Map<string, Wanted[]>();
  readonly #running = new Set<string>();
  /** Commits by epoch, for the flush after the one in flight. */
  readonly #unflushed = new Map<EpochId, Wanted[]>();

  constructor(parts: PositionsContext) {
    this.#parts = parts;
  }

  /** Asks for a position above everything that the node has committed by now. */
  want(wanted: Wanted): void {
    const { epoch } = wanted.primaryEpoch;
    if (this.#ended.has(epoch)) {
      tell(wanted, "ended", null);
      return;
    }
    if (wanted.level !== null) this.#parts.interest.renew();
    if (wanted.level === null || wanted.isCommit !== true) {
      this.#ask(wanted);
      return;
    }
    const unflushed = this.#unflushed.get(epoch);
    if (unflushed !== undefined) {
      unflushed.push(wanted);
      return;
    }
    this.#unflushed.set(epoch, [wanted]);
    void this.#flush(wanted.primaryEpoch);
  }

  #ask(wanted: Wanted): void {
    const { node } = wanted.primaryEpoch;
    const queue = this.#wanted.get(node);
    if (queue === undefined) this.#wanted.set(node, [wanted]);
    else queue.push(wanted);
    if (!this.#running.has(node)) void this.#run(node);
  }

  /** An answer went out before it was durable: flushes soon. */
  committed(primaryEpoch: PrimaryEpoch): void {
    this.#parts.flush.committed(primaryEpoch);
  }

  /** The node's position now; null when the node is in another epoch. */
  now(primaryEpoch: PrimaryEpoch): Promise<Position | null> {
    return new Promise((resolve) => {
      this.want({
        primaryEpoch,
        level: null,
        onEnd: (_end, position) => {
          resolve(position);
        },
      });
    });
  }

  /** Ends all answers of the epoch that still wait for a position. */
  epochEnded(epoch: EpochId): void {
    this.#ended.add(epoch);
    for (const [node, queue] of this.#wanted) {
      this.#wanted.set(
        node,
        queue.filter(({ primaryEpoch }) => primaryEpoch.epoch !== epoch),
      );
      for (const wanted of queue) if (wanted.primaryEpoch.epoch === epoch) tell(wanted, "ended", null);
    }
    for (const wanted of this.#unflushed.get(epoch)?.splice(0) ?? []) tell(wanted, "ended", null);
  }

  stop(): void {
    this.#stop.abort();
  }

  async #flush(primaryEpoch: PrimaryEpoch): Promise<void> {
    const { epoch } = primaryEpoch;
    const unflushed = this.#unflushed.get(epoch) ?? [];
    while (unflushed.length > 0 && !this.#stop.signal.aborted) {
      const taken = unflushed.splice(0);
      const offset = await this.#parts.flush.reach(primaryEpoch);
      if (offset !== null) this.#found(taken, { epoch, offset }, { isFlushed: true });
      // The query below finds out whether the epoch is over.
      else for (const wanted of taken) this.want({ ...wanted, isCommit: false });
    }
    this.#unflushed.delete(epoch);
  }

  async #run(node: string): Promise<void> {
    const { store, clock } = this.#parts.deps;
    this.#running.add(node);
    let retryMs = RETRY_MS_MIN;
    // Waits for the end of this tick, so that its other questions share the query.
    await Promise.resolve();
    for (;;) {
      const taken = this.#wanted.get(node) ?? [];
      if (taken.length === 0 || this.#stop.signal.aborted) break;
      this.#wanted.set(node, []);
      try {
        const position = await store.logEnd(node);
        retryMs = RETRY_MS_MIN;
        this.#found(taken, position, { isFlushed: false });
      } catch {
        // Asks again: no older position may stand in for this one.
        this.#parts.onFailure();
        const isOpen = (wanted: Wanted): boolean => {
          const isOver = this.#ended.has(wanted.primaryEpoch.epoch);
          if (isOver) tell(wanted, "ended", null);
          return !isOver;
        };
        this.#wanted.set(node, [...taken.filter(isOpen), ...(this.#wanted.get(node) ?? [])]);
        await sleep(clock, retryMs, this.#stop.signal);
        retryMs = Math.min(RETRY_MS_MAX, 2 * retryMs);
      }
    }
    this.#running.delete(node);
  }

  #found(taken: readonly Wanted[], position: Position, { isFlushed }: { isFlushed: boolean }): void {
    const { marks, flush } = this.#parts;
    const byLevel = new Map<string, Wanted[]>();
    let primaryEpoch: PrimaryEpoch | null = null;
    for (const wanted of taken) {
      if (wanted.primaryEpoch.epoch !== position.epoch) {
        tell(wanted, "ended", null);
        continue;
      }
      if (wanted.onPosition !== undefined) guarded(() => wanted.onPosition?.(position));
      const { level } = wanted;
      if (level === null || marks.reached({ ...position, level })) {
        tell(wanted, "durable", position);
        continue;
      }
      ({ primaryEpoch } = wanted);
      const group = byLevel.get(level);
      if (group === undefined) byLevel.set(level, [wanted]);
      else group.push(wanted);
    }
    if (primaryEpoch === null) return;
    if (!isFlushed) flush.committed(primaryEpoch);
    for (const [level, group] of byLevel) void this.#await(position, level, group);
  }

  async #await(position: Position, level: string, group: readonly Wanted[]): Promise<void> {
    for (;;) {
      const end = await this.#parts.marks.wait({ ...position, level }, INTEREST_MS / 2);
      if (this.#stop.signal.aborted) return;
      this.#parts.interest.renew();
      if (end === "timeout") continue;
      for (const wanted of group) tell(wanted, end === "reached" ? "durable" : "ended", position);
      return;
    }
  }
}
