// Chance that can be repeated: every client of a load generator draws from a sequence of its own
// that one number begins.

/** Numbers from 0 up to, and without, 1. */
export type Random = () => number;

/**
 * Mulberry32: 32 bits of state, which is plenty for choosing rows, and a few nanoseconds a number.
 */
export function seeded(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** A whole number from the lowest to the highest, both included. */
export function whole(random: Random, lowest: number, highest: number): number {
  return lowest + Math.floor(random() * (highest - lowest + 1));
}
