// A binary heap of things at offsets, lowest first. Bounded by what the ledger holds.
import { type Offset } from "@highwater/protocol";

interface Item<T> {
  readonly offset: Offset;
  readonly value: T;
}

/** For readers. */
export type HeapView<T> = Pick<OffsetHeap<T>, "size" | "peek">;

export class OffsetHeap<T> {
  #items: Item<T>[] = [];

  get size(): number {
    return this.#items.length;
  }

  push(offset: Offset, value: T): void {
    const items = this.#items;
    let at = items.length;
    const item = { offset, value };
    items.push(item);
    while (at > 0) {
      const parentAt = (at - 1) >> 1;
      const parent = items[parentAt];
      if (parent === undefined || parent.offset <= offset) break;
      items[at] = parent;
      at = parentAt;
    }
    items[at] = item;
  }

  peek(): Item<T> | undefined {
    return this.#items[0];
  }

  /** Removes and returns the lowest one if it is at or below the mark. */
  popUpTo(mark: Offset): T | undefined {
    const top = this.#items[0];
    if (top === undefined || top.offset > mark) return undefined;
    const last = this.#items.pop();
    if (last !== undefined && this.#items.length > 0) this.#sink(last);
    return top.value;
  }

  #sink(item: Item<T>): void {
    const items = this.#items;
    let at = 0;
    for (;;) {
      const left = items[2 * at + 1];
      const right = items[2 * at + 2];
      if (left === undefined) break;
      const [child, childAt] =
        right !== undefined && right.offset < left.offset ? [right, 2 * at + 2] : [left, 2 * at + 1];
      if (child.offset >= item.offset) break;
      items[at] = child;
      at = childAt;
    }
    items[at] = item;
  }

  /** Drops the items that do not pass. */
  retain(passes: (offset: Offset, value: T) => boolean): void {
    const items = this.#items.filter(({ offset, value }) => passes(offset, value));
    // A sorted array is a heap.
    this.#items = items.sort((a, b) => (a.offset < b.offset ? -1 : a.offset > b.offset ? 1 : 0));
  }

  clear(): void {
    this.#items = [];
  }
}
