// What ended inside the measured window, by kind of work: the figures that every experiment is made
// of.
import { quantile } from "../../rounds/figures.ts";

export interface KindStats {
  /**
   * Of transactions that were done: committed, or rolled back by the application's own decision.
   */
  readonly done: number;
  /** Attempts that were refused for a conflict. */
  readonly aborts: number;
  /** Transactions that conflicted once more than they may be run again. */
  readonly givenUp: number;
  readonly perSecond: number;
  readonly meanMs: number | null;
  readonly p50Ms: number | null;
  readonly p95Ms: number | null;
  readonly p99Ms: number | null;
}

export interface GroupStats {
  readonly kinds: Readonly<Record<string, KindStats>>;
  /** Committed since the group was opened, the window or not: what the table must agree with. */
  readonly committedInAll: number;
}

class Tally {
  readonly latencies: number[] = [];
  aborts = 0;
  givenUp = 0;
}

/**
 * Only what ends in the window counts: an end that is waited for would make a slow side look
 * slower.
 */
export class Window {
  readonly #fromMs: number;
  readonly #untilMs: number;
  readonly #tallies = new Map<string, Tally>();

  constructor(fromMs: number, untilMs: number) {
    this.#fromMs = fromMs;
    this.#untilMs = untilMs;
  }

  done(kind: string, nowMs: number, elapsedMs: number): void {
    this.#of(kind, nowMs)?.latencies.push(elapsedMs);
  }

  aborted(kind: string, nowMs: number): void {
    const tally = this.#of(kind, nowMs);
    if (tally !== null) tally.aborts++;
  }

  gaveUp(kind: string, nowMs: number): void {
    const tally = this.#of(kind, nowMs);
    if (tally !== null) tally.givenUp++;
  }

  #of(kind: string, nowMs: number): Tally | null {
    if (nowMs < this.#fromMs || nowMs >= this.#untilMs) return null;
    let tally = this.#tallies.get(kind);
    if (tally === undefined) this.#tallies.set(kind, (tally = new Tally()));
    return tally;
  }

  stats(): Record<string, KindStats> {
    const seconds = (this.#untilMs - this.#fromMs) / 1_000;
    const kinds = [...this.#tallies].map(([kind, tally]) => [kind, statsOf(tally, seconds)] as const);
    return Object.fromEntries(kinds);
  }
}

function statsOf({ latencies, aborts, givenUp }: Tally, seconds: number): KindStats {
  const sorted = Float64Array.from(latencies).sort();
  const at = (share: number): number | null => (sorted.length === 0 ? null : quantile(sorted, share));
  const sum = sorted.reduce((total, each) => total + each, 0);
  return {
    done: sorted.length,
    aborts,
    givenUp,
    perSecond: sorted.length / seconds,
    meanMs: sorted.length === 0 ? null : sum / sorted.length,
    p50Ms: at(0.5),
    p95Ms: at(0.95),
    p99Ms: at(0.99),
  };
}
