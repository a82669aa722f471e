// Random numbers from a seed, so that a client that is started again chooses the same operations.

export class Random {
  #state: number;

  constructor(seed: string) {
    // FNV-1a: similar seeds give very different states.
    let hash = 0x811c9dc5;
    for (const char of seed) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 0x01000193);
    this.#state = hash >>> 0;
  }

  /** In [0, 1): mulberry32. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number below the bound. */
  below(bound: number): number {
    return Math.floor(this.next() * bound);
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(items: readonly T[]): T {
    const item = items[this.below(items.length)];
    if (item === undefined) throw new Error("there is nothing to pick from");
    return item;
  }

  /** One of the names, with probabilities in proportion to their weights. */
  weighted<T extends string>(weights: Readonly<Record<T, number>>): T {
    const entries = Object.entries<number>(weights) as [T, number][];
    let left = this.next() * entries.reduce((sum, [, weight]) => sum + weight, 0);
    for (const [name, weight] of entries) {
      left -= weight;
      if (left < 0) return name;
    }
    const [last] = entries.at(-1) ?? [];
    if (last === undefined) throw new Error("there is nothing to pick from");
    return last;
  }
}
