// The time by which data in the store expires. No single clock is trusted, because any of them may
// jump.
import { type Clock } from "@highwater/runtime";
import { type Log } from "@highwater/service";
import { type Store } from "@highwater/store";

/**
 * Clocks that are kept by NTP differ by far less; beyond it one of them was set, and it is unknown
 * which.
 */
export const CLOCK_SPREAD_MAX_MS = 60_000;

/**
 * The earliest of all clocks, and never faster than this process's own monotonic clock since it
 * first saw them agree. A clock that is set ahead expires nothing; one that is set back, or a
 * process that slept, only keeps more.
 */
export class ExpiryClock {
  #anchor: { readonly timeMs: number; readonly atMs: number } | null = null;

  /** Null while the clocks disagree. */
  read(atMs: number, clocksMs: readonly number[]): number | null {
    const earliestMs = Math.min(...clocksMs);
    if (Math.max(...clocksMs) - earliestMs > CLOCK_SPREAD_MAX_MS) return null;
    this.#anchor ??= { timeMs: earliestMs, atMs };
    return Math.min(earliestMs, this.#anchor.timeMs + (atMs - this.#anchor.atMs));
  }
}

/** Milliseconds since 1970; null while the clocks disagree. */
export type ReadExpiryTime = () => Promise<number | null>;

export interface ExpiryTimeDeps {
  readonly store: Pick<Store, "nodes" | "probe">;
  readonly clock: Clock;
  readonly log: Log;
}

/** By the clocks of every node that answers, and this host's. */
export function makeExpiryTime({ store, clock, log }: ExpiryTimeDeps): ReadExpiryTime {
  const expiry = new ExpiryClock();
  return async () => {
    const answers = await Promise.allSettled(store.nodes.map(({ id }) => store.probe(id)));
    const clocks: Record<string, number> = { tracker: clock.wallMs() };
    for (const each of answers)
      if (each.status === "fulfilled") clocks[each.value.node] = each.value.serverTimeMs;
    const timeMs = expiry.read(clock.monotonicMs(), Object.values(clocks));
    if (timeMs === null) log.warn("clocks_disagree", { maxMs: CLOCK_SPREAD_MAX_MS, clocks });
    return timeMs;
  };
}
