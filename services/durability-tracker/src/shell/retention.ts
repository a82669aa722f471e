// Keeps room for the receipts of the next ids, and lets those go that nobody can need any more.
import { type Log } from "@highwater/service";
import { type Clock, type RetentionReport, sleep, type Store } from "@highwater/store";
import { markIn, type TrackerState } from "../core/index.ts";

export interface RetentionOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly retentionMs: number;
  readonly everyMs: number;
  readonly state: () => TrackerState;
  readonly signal: AbortSignal;
}

const RETRY_MS = 1_000;
/** Clocks that are kept by NTP differ by far less; beyond it one of them was set, and nobody can say which. */
export const CLOCK_SPREAD_MAX_MS = 60_000;

/**
 * The time by which receipts expire: the earliest of all clocks, and never faster than this process's own monotonic clock since it
 * first saw them agree. A clock that is set ahead expires nothing; one that is set back, or a process that slept, only keeps more.
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

interface Noted extends RetentionReport {
  /** By the expiry's clock. */
  readonly timeMs: number;
}

/**
 * Receipts expire only when durable at every level: a round notes where the log ended, and a later one may drop what is a whole
 * retention older than that moment if by then every mark has passed the place, and the clocks agree both times.
 */
export async function runRetention(options: RetentionOptions): Promise<void> {
  const { store, clock, log, retentionMs, everyMs, signal } = options;
  const expiry = new ExpiryClock();
  let noted: Noted | null = null;
  while (!signal.aborted) {
    const { standing } = options.state();
    let pauseMs = RETRY_MS;
    if (standing.kind === "reigning") {
      try {
        const timeMs = await readTime(expiry, options);
        const before: Noted | null =
          timeMs !== null && noted !== null && isDurableEverywhere(options.state(), noted) ? noted : null;
        const expireBeforeMs = before === null ? null : before.timeMs - retentionMs;
        const report = await store.maintain(standing.node, { expireBeforeMs });
        if (timeMs === null) noted = null;
        else if (before !== null || noted === null || noted.position.epoch !== report.position.epoch)
          noted = { ...report, timeMs };
        pauseMs = everyMs;
      } catch (cause) {
        log.warn("receipts could not be maintained", { cause: String(cause) });
      }
    }
    await sleep(clock, pauseMs, signal);
  }
}

/** Of every node that answers, and this host's. */
async function readTime(
  expiry: ExpiryClock,
  { store, clock, log }: RetentionOptions,
): Promise<number | null> {
  const told = await Promise.allSettled(store.nodes.map(({ id }) => store.probe(id)));
  const clocks: Record<string, number> = { tracker: clock.wallMs() };
  for (const each of told) if (each.status === "fulfilled") clocks[each.value.node] = each.value.serverTimeMs;
  const timeMs = expiry.read(clock.monotonicMs(), Object.values(clocks));
  if (timeMs === null)
    log.warn("no receipts expire: clocks disagree", { maxMs: CLOCK_SPREAD_MAX_MS, clocks });
  return timeMs;
}

function isDurableEverywhere(state: TrackerState, noted: RetentionReport): boolean {
  const { epoch, offset } = noted.position;
  if (state.standing.kind !== "reigning" || state.standing.epoch !== epoch) return false;
  return state.config.levels.every(({ name }) => {
    const mark = markIn(state, epoch, name);
    return mark !== null && mark >= offset;
  });
}
