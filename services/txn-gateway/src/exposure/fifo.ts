// A queue in an array: the head moves, and what it has left behind is cut off when it is the larger
// half, so that every element costs a constant.

/** Below that nothing is cut off. */
const CUT_MIN = 1_024;

export class Fifo<T> {
  #items: T[] = [];
  #head = 0;

  get length(): number {
    return this.#items.length - this.#head;
  }

  get first(): T | undefined {
    return this.#items[this.#head];
  }

  get last(): T | undefined {
    return this.#items[this.#items.length - 1];
  }

  push(item: T): void {
    this.#items.push(item);
  }

  /**
   * Puts it before all those at the end for which `isBehind` holds. Costs as many steps as there
   * are of them.
   */
  insert(item: T, isBehind: (other: T) => boolean): void {
    let at = this.#items.length;
    while (at > this.#head) {
      const other = this.#items[at - 1];
      if (other === undefined || !isBehind(other)) break;
      at--;
    }
    if (at === this.#items.length) this.#items.push(item);
    else this.#items.splice(at, 0, item);
  }

  shift(): T | undefined {
    const item = this.#items[this.#head];
    if (item === undefined) return undefined;
    this.#head++;
    if (this.#head === this.#items.length) this.clear();
    else if (this.#head >= CUT_MIN && 2 * this.#head >= this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }

  clear(): void {
    this.#items = [];
    this.#head = 0;
  }
}
