// The common case of the ledger, made small: attempts that a gateway has announced, that committed
// in the current epoch or the last one, and that wait only for its marks. They are in the order of
// their offsets, so that a mark settles a prefix. Any other attempt is a LedgerEntry.
// (docs/decisions/0018-most-of-the-ledger-is-a-queue.md)
import { type EpochId, type Offset, type OwnedId } from "@highwater/protocol";
import { type OwnerAccount, type Source } from "./accounts.ts";
import { type Waiting, WaitingTable } from "./waiting-table.ts";

/** Three arguments instead of an object: a mark may pass a million attempts at once. */
type Visit = (owner: OwnerAccount, source: Source | null, atRisk: string | null) => void;

interface Cursor {
  mark: Offset | null;
  /** Index of the first attempt that the mark has not passed. */
  at: number;
}

const MIN_ROOM = 1_024;

/** The backlog for readers. exposure.ts owns its accounts. */
export type BacklogView = Omit<
  Backlog,
  "begin" | "relevel" | "add" | "learn" | "advance" | "settle" | "retire"
>;

export class Backlog {
  #epoch: EpochId | null = null;
  #table = new WaitingTable();
  /** Slots, lowest offset first, from #head to #end. */
  #order = new Uint32Array(MIN_ROOM);
  #head = 0;
  #end = 0;
  readonly #cursors = new Map<string, Cursor>();

  get epoch(): EpochId | null {
    return this.#epoch;
  }

  get size(): number {
    return this.#end - this.#head;
  }

  get highest(): Offset | null {
    return this.size === 0 ? null : this.#offsetAt(this.#end - 1);
  }

  has(of: OwnedId): boolean {
    return this.#table.find(of) !== undefined;
  }

  get(of: OwnedId): Waiting | undefined {
    const slot = this.#table.find(of);
    return slot === undefined ? undefined : this.#table.get(slot);
  }

  /** Returns how many attempts wait at the level. */
  pendingAt(level: string): number {
    const cursor = this.#cursors.get(level);
    return cursor === undefined ? 0 : this.#end - cursor.at;
  }

  /** Returns the lowest attempt that waits at the level. */
  firstAt(level: string): Waiting | undefined {
    const cursor = this.#cursors.get(level);
    return cursor === undefined || cursor.at === this.#end ? undefined : this.#itemAt(cursor.at);
  }

  /** True when the level's mark has passed the attempt. */
  hasReached({ offset }: Pick<Waiting, "offset">, level: string): boolean {
    const mark = this.#cursors.get(level)?.mark ?? null;
    return mark !== null && offset <= mark;
  }

  /** Begins anew, empty. The caller has moved its attempts elsewhere. */
  begin(epoch: EpochId | null, levels: readonly string[]): void {
    this.#epoch = epoch;
    this.#table = new WaitingTable();
    this.#order = new Uint32Array(MIN_ROOM);
    this.#head = 0;
    this.#end = 0;
    this.#cursors.clear();
    for (const level of levels) this.#cursors.set(level, { mark: null, at: 0 });
  }

  /** Changes the levels. A level that stays keeps its mark. */
  relevel(levels: readonly string[]): void {
    for (const level of [...this.#cursors.keys()]) if (!levels.includes(level)) this.#cursors.delete(level);
    for (const level of levels)
      if (!this.#cursors.has(level)) this.#cursors.set(level, { mark: null, at: this.#head });
  }

  /** Adds an attempt that it does not hold. Most arrive in order. */
  add(item: Waiting): void {
    if (this.#end === this.#order.length) this.#makeRoom();
    const slot = this.#table.add(item);
    const isLast = this.size === 0 || this.#offsetAt(this.#end - 1) <= item.offset;
    const at = isLast ? this.#end : this.#firstAbove(item.offset, this.#head);
    if (!isLast) this.#order.copyWithin(at + 1, at, this.#end);
    this.#order[at] = slot;
    this.#end++;
    for (const cursor of this.#cursors.values())
      if (cursor.mark !== null && item.offset <= cursor.mark) cursor.at++;
  }

  learn(of: OwnedId, { metadata, atRisk }: Pick<Waiting, "metadata" | "atRisk">): void {
    const slot = this.#table.find(of);
    if (slot === undefined) return;
    if (metadata !== null) this.#table.setMetadata(slot, metadata);
    if (atRisk !== null) this.#table.setAtRisk(slot, atRisk);
  }

  /**
   * Advances a level's mark, and visits the attempts that it passes now, lowest first. Returns
   * their number.
   */
  advance(level: string, mark: Offset, visit?: Visit): number {
    const cursor = this.#cursors.get(level);
    if (cursor === undefined || (cursor.mark !== null && mark <= cursor.mark)) return 0;
    const from = cursor.at;
    cursor.mark = mark;
    cursor.at = this.#firstAbove(mark, from);
    if (visit === undefined) return cursor.at - from;
    for (let at = from; at < cursor.at; at++) {
      const slot = this.#order[at] ?? 0;
      visit(this.#table.owner(slot), this.#table.source(slot), this.#table.atRisk(slot));
    }
    return cursor.at - from;
  }

  /**
   * Returns since when some of the last `count` attempts that the level's mark has passed were
   * waiting. They are evenly chosen.
   */
  timesPassed(level: string, count: number, samples: number): number[] {
    const end = this.#cursors.get(level)?.at ?? this.#head;
    const first = Math.max(this.#head, end - count);
    return Array.from({ length: samples }, (_, n) => {
      const at = first + Math.floor(((n + 0.5) * (end - first)) / samples);
      return this.#table.time(this.#order[at] ?? 0);
    });
  }

  /** Returns the attempts between the level's mark and a higher one. */
  upTo(level: string, mark: Offset): Waiting[] {
    const from = this.#cursors.get(level)?.at ?? this.#end;
    const items: Waiting[] = [];
    for (let at = from; at < this.#end && this.#offsetAt(at) <= mark; at++) items.push(this.#itemAt(at));
    return items;
  }

  /**
   * Removes the attempts that every level has passed. Returns their highest offset, or null if
   * there is none.
   */
  settle(): Offset | null {
    let to = this.#end;
    for (const { at } of this.#cursors.values()) to = Math.min(to, at);
    return to > this.#head ? this.#dropTo(to) : null;
  }

  /**
   * Removes the oldest attempts that `passes` accepts and that at least one of the levels has
   * passed. Those at the same offset go together, so that the last offset shows what has left.
   */
  retire(levels: readonly string[], passes: (item: Waiting, left: number) => boolean): readonly Waiting[] {
    let durable = this.#head;
    for (const level of levels) durable = Math.max(durable, this.#cursors.get(level)?.at ?? 0);
    const left: Waiting[] = [];
    for (let at = this.#head; at < durable; at++) {
      const item = this.#itemAt(at);
      if (item.offset !== left.at(-1)?.offset && !passes(item, this.#end - at)) break;
      left.push(item);
    }
    if (left.length > 0) this.#dropTo(this.#head + left.length);
    return left;
  }

  *[Symbol.iterator](): IterableIterator<Waiting> {
    for (let at = this.#head; at < this.#end; at++) yield this.#itemAt(at);
  }

  replaceAccounts(owner: (account: OwnerAccount) => OwnerAccount, source: (account: Source) => Source): void {
    this.#table.replaceAccounts(owner, source);
  }

  #itemAt(at: number): Waiting {
    return this.#table.get(this.#order[at] ?? 0);
  }

  #offsetAt(at: number): Offset {
    return this.#table.offset(this.#order[at] ?? 0);
  }

  #dropTo(to: number): Offset {
    const through = this.#offsetAt(to - 1);
    for (let at = this.#head; at < to; at++) this.#table.remove(this.#order[at] ?? 0);
    this.#head = to;
    for (const cursor of this.#cursors.values()) cursor.at = Math.max(cursor.at, to);
    return through;
  }

  /** Moves everything to the front, and into larger arrays if these are nearly full. */
  #makeRoom(): void {
    const { size } = this;
    const isFull = 2 * size > this.#order.length;
    const next = isFull ? new Uint32Array(2 * this.#order.length) : this.#order;
    next.set(this.#order.subarray(this.#head, this.#end));
    for (const cursor of this.#cursors.values()) cursor.at -= this.#head;
    this.#order = next;
    this.#head = 0;
    this.#end = size;
  }

  #firstAbove(offset: Offset, from: number): number {
    let low = from;
    let high = this.#end;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#offsetAt(middle) <= offset) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
