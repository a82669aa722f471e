// A min-heap of items by offset, from which one mark takes everything it has passed.

export interface HeapItem {
  readonly offset: bigint;
  /** False once the item was settled, moved or given up; the heap drops it when it meets it. */
  live: boolean;
}

/** Dead items are swept out when they are the majority and at least this many. */
const SWEEP_MIN = 64;

export class OffsetHeap<T extends HeapItem> {
  #items: T[] = [];
  #dead = 0;

  /** Items in memory, dead ones included. */
  get size(): number {
    return this.#items.length;
  }

  push(item: T): void {
    const items = this.#items;
    let at = items.push(item) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = items[parent];
      if (above === undefined || above.offset <= item.offset) break;
      items[at] = above;
      at = parent;
    }
    items[at] = item;
  }

  /** Marks an item of this heap as dead. */
  drop(item: T): void {
    if (!item.live) return;
    item.live = false;
    this.#dead += 1;
    if (this.#dead >= SWEEP_MIN && this.#dead * 2 > this.#items.length) this.#sweep();
  }

  /** Takes out every live item at or below the offset. Costs the logarithm of the size for each. */
  takeUpTo(offset: bigint): T[] {
    const taken: T[] = [];
    for (let top = this.#items[0]; top !== undefined && top.offset <= offset; top = this.#items[0]) {
      this.#removeTop();
      if (top.live) {
        top.live = false;
        taken.push(top);
      } else this.#dead -= 1;
    }
    return taken;
  }

  #removeTop(): void {
    const items = this.#items;
    const last = items.pop();
    if (last === undefined || items.length === 0) return;
    let at = 0;
    for (;;) {
      const left = items[2 * at + 1];
      if (left === undefined) break;
      const right = items[2 * at + 2];
      const down = right !== undefined && right.offset < left.offset ? 2 * at + 2 : 2 * at + 1;
      const child = items[down];
      if (child === undefined || child.offset >= last.offset) break;
      items[at] = child;
      at = down;
    }
    items[at] = last;
  }

  #sweep(): void {
    // A sorted array is a heap.
    this.#items = this.#items
      .filter((item) => item.live)
      .sort((a, b) => (a.offset < b.offset ? -1 : a.offset > b.offset ? 1 : 0));
    this.#dead = 0;
  }
}
