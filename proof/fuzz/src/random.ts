// Repeatable random numbers: everything random in a run comes from its seed.

export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** A whole number from 0 to below `limit` (mulberry32). */
  below(limit: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296) * limit);
  }

  chance(probability: number): boolean {
    return this.below(1_000_000) < probability * 1_000_000;
  }

  pick<T>(from: readonly T[]): T {
    const found = from[this.below(from.length)];
    if (found === undefined && from.length === 0) throw new Error("nothing to pick from");
    return found as T;
  }
}

/**
 * A seed from a text. A target takes its random choices from its input, so that an input always
 * behaves the same.
 */
export function seedOf(bytes: Uint8Array | string): number {
  let hash = 0x811c9dc5;
  const all = typeof bytes === "string" ? Buffer.from(bytes) : bytes;
  for (const byte of all) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash;
}
