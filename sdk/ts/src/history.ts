// What the client knows of the store's history: the ancestry of the current epoch, and the marks of every epoch it
// has heard of. Pure. Owns the answer to "where does a position stand?"; promises are the business of `book.ts`.
import { type EpochRecord, type Marks, type Position } from "./wire.ts";

/** Epochs whose marks are kept. Older ones matter to nobody: their promises are asked about. */
const EPOCHS_MAX = 64;

/**
 * `open`: its epoch is the current one as far as anybody knows. `doubtful`: its epoch may have ended; its marks
 * still count, but ask. `ended`: its epoch is over and its place is above what the successor certainly contains.
 */
export type Standing = "open" | "doubtful" | "ended";

export interface Place {
  readonly epoch: string;
  readonly offset: bigint;
}

export class History {
  #ancestry: readonly EpochRecord[] = [];
  readonly #successors = new Map<string, EpochRecord>();
  readonly #marks = new Map<string, { seq: number; levels: Map<string, bigint> }>();
  /** Epoch of the newest marks from outside the ancestry: the current epoch may be over. */
  #foreign: string | null = null;
  #lastMarked: string | null = null;

  /** The current epoch as far as this client knows, or null. */
  get head(): string | null {
    return this.#ancestry.at(-1)?.id ?? this.#lastMarked;
  }

  /** The highest known offset of the level in the epoch; undefined when it was never observed, which is not zero. */
  mark(epoch: string, level: string): bigint | undefined {
    return this.#marks.get(epoch)?.levels.get(level);
  }

  /** True when marks of the epoch are known and the level is not among them. */
  lacksLevel(epoch: string, level: string): boolean {
    const known = this.#marks.get(epoch);
    return known !== undefined && !known.levels.has(level);
  }

  /** The newest marks of the current epoch, as the wire writes them. */
  newestMarks(): Marks | null {
    const epoch = [this.head, this.#lastMarked].find(
      (candidate) => candidate !== null && this.#marks.has(candidate),
    );
    const known = epoch == null ? undefined : this.#marks.get(epoch);
    if (epoch == null || known === undefined) return null;
    const levels = [...known.levels].map(([level, offset]) => [level, offset.toString()] as const);
    return { epoch, seq: known.seq, levels: Object.fromEntries(levels) };
  }

  /** Levels whose mark in the place's epoch has reached the place. */
  levelsPassed(place: Place): string[] {
    const levels = this.#marks.get(place.epoch)?.levels ?? [];
    return [...levels].filter(([, offset]) => offset >= place.offset).map(([level]) => level);
  }

  /**
   * Takes marks in; says which levels rose, whether these are the first marks of their epoch, and whether standings
   * may have moved because the epoch is not in the ancestry. Marks of any age stay true in their epoch, so the highest one counts.
   */
  learnMarks(marks: Marks): {
    readonly raised: readonly string[];
    readonly moved: boolean;
    readonly first: boolean;
  } {
    const epoch = marks.epoch.toLowerCase();
    let known = this.#marks.get(epoch);
    const first = known === undefined;
    if (known === undefined) {
      known = { seq: marks.seq, levels: new Map() };
      this.#marks.set(epoch, known);
      this.#forgetOldMarks();
    }
    known.seq = Math.max(known.seq, marks.seq);
    const raised: string[] = [];
    for (const [level, text] of Object.entries(marks.levels)) {
      const offset = BigInt(text);
      const before = known.levels.get(level);
      if (before !== undefined && before >= offset) continue;
      known.levels.set(level, offset);
      raised.push(level);
    }
    return { raised, moved: this.#noticeEpoch(epoch), first };
  }

  #noticeEpoch(epoch: string): boolean {
    const headBefore = this.head;
    this.#lastMarked = epoch;
    if (this.#ancestry.length === 0) return headBefore !== epoch;
    if (this.#ancestry.some((record) => record.id === epoch)) return false;
    const moved = this.#foreign !== epoch;
    this.#foreign = epoch;
    return moved;
  }

  /** Takes in the ancestry of the current epoch, oldest first. False when it says nothing new. */
  learnEpochs(records: readonly EpochRecord[]): boolean {
    const epochs = records.map((record) => ({
      ...record,
      id: record.id.toLowerCase(),
      previous: record.previous?.toLowerCase() ?? null,
    }));
    const head = epochs.at(-1);
    if (head === undefined) return false;
    const known = this.#ancestry.findIndex((record) => record.id === head.id);
    const isHead = known !== -1 && known === this.#ancestry.length - 1;
    // The view of a tracker that has not noticed the newest epoch yet.
    if (known !== -1 && !isHead) return false;
    if (isHead && epochs.length <= this.#ancestry.length && this.#foreign === null) return false;
    if (!isHead || epochs.length > this.#ancestry.length) this.#ancestry = epochs;
    this.#foreign = null;
    this.#successors.clear();
    for (const record of this.#ancestry) {
      if (record.previous !== null) this.#successors.set(record.previous, record);
    }
    return true;
  }

  standing(place: Place): Standing {
    if (this.#successors.has(place.epoch)) return "ended";
    const current = this.#foreign === null ? this.head : null;
    return current === place.epoch || this.head === null ? "open" : "doubtful";
  }

  /**
   * The place in the next epoch that stands for this one, or undefined when nothing proves that there is one.
   * `contained`: the place was itself taken over from an earlier epoch. It precedes its epoch's own record then, and
   * the successor contains that record by being the successor.
   */
  carryOver(place: Place, options: { contained: boolean }): Place | undefined {
    const successor = this.#successors.get(place.epoch);
    if (successor === undefined) return undefined;
    if (!options.contained && place.offset > BigInt(successor.forkOffset)) return undefined;
    return { epoch: successor.id, offset: BigInt(successor.startOffset) };
  }

  /** No position can be carried over more often than this. */
  get epochsKnown(): number {
    return this.#ancestry.length;
  }

  #forgetOldMarks(): void {
    for (const epoch of this.#marks.keys()) {
      if (this.#marks.size <= EPOCHS_MAX) return;
      if (epoch !== this.head && epoch !== this.#foreign) this.#marks.delete(epoch);
    }
  }
}

export function placeOf(position: Position): Place {
  return { epoch: position.epoch.toLowerCase(), offset: BigInt(position.offset) };
}

export function positionOf(place: Place): Position {
  return { epoch: place.epoch, offset: place.offset.toString() };
}
