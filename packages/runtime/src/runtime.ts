// The real clock and chance: the only file of this package that touches them.
import { type Clock } from "./clock.ts";

export const realClock: Clock = {
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
  after: (delayMs, callback) => {
    const timer = setTimeout(callback, delayMs);
    return () => {
      clearTimeout(timer);
    };
  },
};

/** Evenly distributed in [0, 1). */
export const realRandom = (): number => Math.random();
