// The real clock and chance: the only file of this package that touches them.
import { type Clock } from "./clock.ts";

/** Above it a timer of Node ends at once. */
const LONGEST_TIMER_MS = 0x7fffffff;

export const realClock: Clock = {
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
  after: (delayMs, callback) => {
    let timer: NodeJS.Timeout;
    const wait = (leftMs: number): void => {
      const stepMs = Math.min(leftMs, LONGEST_TIMER_MS);
      timer = setTimeout(() => {
        if (leftMs > stepMs) wait(leftMs - stepMs);
        else callback();
      }, stepMs);
    };
    wait(delayMs);
    return () => {
      clearTimeout(timer);
    };
  },
};

/** Evenly distributed in [0, 1). */
export const realRandom = (): number => Math.random();
