// Chance that can be repeated: a small generator (mulberry32), fast and good enough to choose faults by.

export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** 32 bits. */
  bits(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (t ^ (t >>> 14)) >>> 0;
  }

  /** From 0 to `n` - 1. */
  below(n: number): number {
    return n <= 1 ? 0 : this.bits() % n;
  }

  /** True `percent` times in a hundred. */
  chance(percent: number): boolean {
    return this.bits() % 100 < percent;
  }

  pick<T>(from: readonly T[]): T | undefined {
    return from[this.below(from.length)];
  }
}
