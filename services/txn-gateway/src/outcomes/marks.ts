// The newest marks that this gateway has received, and the safe transactions that wait for them. A
// mark stays true within its epoch for ever, so an old one settles waits as well as a new one. No
// I/O here.
import {
  type EpochGraph,
  type EpochId,
  type EpochRecord,
  type Marks,
  minOffset,
  type Offset,
  outranks,
  parseOffset,
  ZERO,
} from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { type KnownMarks } from "../primary/primary.ts";

export interface WaitTarget {
  readonly epoch: string;
  readonly level: string;
  readonly offset: Offset;
}

/** `ended`: the epoch is over, and only a tracker knows the outcome of the transaction. */
export type WaitEnd = "reached" | "ended" | "timeout";

interface Waiter {
  readonly offset: Offset;
  readonly settle: (end: WaitEnd) => void;
}

/** Epochs whose marks are kept: the current one, and a few that tokens in flight may still name. */
const EPOCHS_KEPT = 8;

export interface MarkBoardOptions {
  readonly clock: Clock;
  /** Every epoch that this gateway has learned of. */
  readonly epochs: () => EpochGraph;
  /** The epoch in which this gateway commits; null while it knows of no primary. */
  readonly currentEpoch: () => string | null;
  /** Called when a level's mark has risen. */
  readonly onMark?: (epoch: string, level: string, mark: Offset) => void;
}

export class MarkBoard {
  readonly #options: MarkBoardOptions;
  /** By epoch, oldest first: the highest mark of each level that was received. */
  readonly #marks = new Map<string, Map<string, Offset>>();
  /** By epoch and level: lowest offset first, so that a mark settles a prefix. */
  readonly #waits = new Map<string, Map<string, Waiter[]>>();
  readonly #ended = new Set<string>();
  #newest: Marks | null = null;
  #waiting = 0;
  #stopped = false;

  constructor(options: MarkBoardOptions) {
    this.#options = options;
  }

  /** The newest epoch's marks, which every answer carries. */
  get newest(): Marks | null {
    return this.#newest;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** Returns the highest mark of the level that was received in the epoch. */
  of(epoch: string, level: string): Offset | undefined {
    return this.#marks.get(epoch)?.get(level);
  }

  /** Returns all marks that were received of the epoch, by level. */
  ofEpoch(epoch: string): Record<string, string> {
    return toWire(this.#marks.get(epoch) ?? new Map<string, Offset>());
  }

  /**
   * Returns what the next epoch's record says about this one: its marks, and the lowest mark of
   * those levels, or 0 if one of them has none.
   */
  known(levels: readonly string[]): KnownMarks {
    const finalMarks: Record<string, Record<string, string>> = {};
    const everywhere: Record<string, string> = {};
    for (const [epoch, marks] of this.#marks) {
      finalMarks[epoch] = toWire(marks);
      const least = levels.map((level) => marks.get(level) ?? ZERO).reduce(minOffset);
      everywhere[epoch] = least.toString(10);
    }
    return { finalMarks, everywhere };
  }

  reached({ epoch, level, offset }: WaitTarget): boolean {
    const mark = this.of(epoch, level);
    return mark !== undefined && mark >= offset;
  }

  /** The strongest of the levels at which a mark has reached the place; null: none. */
  strongest({ epoch, offset }: Omit<WaitTarget, "level">, levels: readonly string[]): string | null {
    return levels.findLast((level) => this.reached({ epoch, level, offset })) ?? null;
  }

  /** Takes marks in. An older view than one received before changes nothing. */
  advance(marks: Marks): void {
    const levels = this.#levelsOf(marks.epoch);
    for (const [level, text] of Object.entries(marks.levels)) {
      const offset = parseOffset(text);
      if (offset !== undefined) this.#raise({ epoch: marks.epoch, level, offset });
    }
    const current = this.#newest;
    if (current !== null && current.epoch !== marks.epoch) {
      const ancestry = this.#options.epochs().ancestry(marks.epoch as EpochId);
      if (!this.#mayFollow(ancestry.toReversed())) return;
    }
    this.#newest = { epoch: marks.epoch, seq: marks.seq, levels: toWire(levels) };
  }

  /** Raises the levels to a commit whose answer has met them. */
  meet({ epoch, offset }: Omit<WaitTarget, "level">, levels: readonly string[]): void {
    for (const level of levels) this.#raise({ epoch, level, offset });
    if (this.#newest?.epoch === epoch)
      this.#newest = { ...this.#newest, levels: toWire(this.#levelsOf(epoch)) };
  }

  #raise({ epoch, level, offset }: WaitTarget): void {
    if (this.reached({ epoch, level, offset })) return;
    this.#levelsOf(epoch).set(level, offset);
    this.#settleUpTo(epoch, level, offset);
    this.#options.onMark?.(epoch, level, offset);
  }

  /**
   * Takes in the ancestry of an epoch that a service regards as current, oldest first. The epoch
   * ends the previous one only if its history outranks that one's: a stream of another history must
   * not end the current epoch.
   */
  beginEpoch(ancestry: readonly EpochRecord[]): void {
    const current = ancestry.at(-1);
    const previous = this.#newest?.epoch;
    if (current === undefined || !this.#mayFollow(ancestry)) return;
    this.#ended.delete(current.id);
    for (const record of ancestry.slice(0, -1)) this.endEpoch(record.id);
    // An operator's choice can end an epoch that is no ancestor of the next.
    if (previous !== undefined && previous !== current.id) this.endEpoch(previous);
    if (previous === current.id) return;
    this.#newest = { epoch: current.id, seq: current.seq, levels: toWire(this.#levelsOf(current.id)) };
  }

  /** While this gateway knows the primary, its own authority decides. Otherwise the stream does. */
  #mayFollow(ancestry: readonly EpochRecord[]): boolean {
    const next = ancestry.at(-1)?.id;
    const { epochs, currentEpoch } = this.#options;
    const own = currentEpoch();
    if (next === undefined || own !== null) return next === own;
    if (this.#ended.has(next)) return false;
    const newest = this.#newest?.epoch;
    return newest === undefined || newest === next || outranks(ancestry, newest as EpochId, epochs());
  }

  endEpoch(epoch: string): void {
    if (this.#ended.has(epoch)) return;
    this.#ended.add(epoch);
    const waits = this.#waits.get(epoch);
    this.#waits.delete(epoch);
    for (const waiters of waits?.values() ?? []) for (const waiter of waiters) waiter.settle("ended");
  }

  /** Waits for the mark. The signal ends the wait as if its time were over. */
  wait(target: WaitTarget, limitMs: number, signal?: AbortSignal): Promise<WaitEnd> {
    if (this.reached(target)) return Promise.resolve("reached");
    if (this.#ended.has(target.epoch)) return Promise.resolve("ended");
    if (limitMs <= 0 || this.#stopped || signal?.aborted === true) return Promise.resolve("timeout");
    return new Promise((resolve) => {
      const waiters = this.#waitersOf(target);
      const settle = (end: WaitEnd): void => {
        cancel();
        signal?.removeEventListener("abort", giveUp);
        this.#waiting--;
        resolve(end);
      };
      const waiter: Waiter = { offset: target.offset, settle };
      const giveUp = (): void => {
        const at = waiters.indexOf(waiter, firstNotBelow(waiters, target.offset));
        if (at < 0) return;
        waiters.splice(at, 1);
        settle("timeout");
      };
      const cancel = this.#options.clock.after(limitMs, giveUp);
      signal?.addEventListener("abort", giveUp, { once: true });
      this.#waiting++;
      waiters.splice(firstAbove(waiters, target.offset), 0, waiter);
    });
  }

  /**
   * Ends every wait as if its time were over: the service shuts down, and a timeout is never a
   * loss.
   */
  stop(): void {
    this.#stopped = true;
    for (const levels of this.#waits.values())
      for (const waiters of levels.values()) for (const waiter of waiters.splice(0)) waiter.settle("timeout");
  }

  #settleUpTo(epoch: string, level: string, mark: Offset): void {
    const waiters = this.#waits.get(epoch)?.get(level);
    if (waiters === undefined) return;
    for (const waiter of waiters.splice(0, firstAbove(waiters, mark))) waiter.settle("reached");
  }

  #waitersOf({ epoch, level }: WaitTarget): Waiter[] {
    let levels = this.#waits.get(epoch);
    if (levels === undefined) this.#waits.set(epoch, (levels = new Map<string, Waiter[]>()));
    let waiters = levels.get(level);
    if (waiters === undefined) levels.set(level, (waiters = []));
    return waiters;
  }

  #levelsOf(epoch: string): Map<string, Offset> {
    let levels = this.#marks.get(epoch);
    if (levels !== undefined) return levels;
    this.#marks.set(epoch, (levels = new Map<string, Offset>()));
    for (const oldest of this.#marks.keys()) {
      if (this.#marks.size <= EPOCHS_KEPT) break;
      this.#marks.delete(oldest);
    }
    return levels;
  }
}

function toWire(levels: ReadonlyMap<string, Offset>): Record<string, string> {
  return Object.fromEntries([...levels].map(([level, offset]) => [level, offset.toString(10)]));
}

function firstAbove(waiters: readonly Waiter[], offset: Offset): number {
  return lowerBound(waiters, (waiter) => waiter.offset > offset);
}

function firstNotBelow(waiters: readonly Waiter[], offset: Offset): number {
  return lowerBound(waiters, (waiter) => waiter.offset >= offset);
}

/**
 * Returns the index of the first waiter for which `holds` is true. It must be true for all later
 * ones, too.
 */
function lowerBound(waiters: readonly Waiter[], holds: (waiter: Waiter) => boolean): number {
  let low = 0;
  let high = waiters.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const waiter = waiters[middle];
    if (waiter !== undefined && holds(waiter)) high = middle;
    else low = middle + 1;
  }
  return low;
}
