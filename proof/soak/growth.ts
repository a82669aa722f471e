// Flat or growing: judges one measured line. Pure.
import { median } from "../../loadtests/gateway/results.ts";

export interface Point {
  readonly atS: number;
  readonly value: number;
  /** Counts the starts of the process that it is about; 0 where nothing can start anew. */
  readonly life: number;
}

/** How much a line may rise from the middle third of the run to the last; the larger of the two. */
export interface Allowance {
  /** In the metric's unit: what noise alone has shown. */
  readonly absolute: number;
  /** Share of the middle third's median. */
  readonly relative: number;
}

export interface Growth {
  readonly middle: number;
  readonly last: number;
  readonly allowed: number;
  /**
   * By the median of the slopes of all pairs, in the metric's unit. For the reader: nothing is
   * judged by it.
   */
  readonly perHour: number;
  readonly isGrowing: boolean;
}

/** A third with fewer measurements says nothing. */
const MIN_POINTS = 3;
/** Of the slopes: so many buckets make 435 pairs. */
const BUCKETS = 30;
const HOUR_S = 3_600;

/**
 * The first third is for whatever fills up once and then stays: pools, caches, young generations.
 * From then on what the run does is the same throughout, so the medians of the second and the last
 * third must be, too. Medians, because a fault may double anything for some seconds. Null: too
 * little was measured, or the process did not live through both thirds.
 */
export function judgeGrowth(
  points: readonly Point[],
  durationS: number,
  allowance: Allowance,
): Growth | null {
  const third = (from: number): Point[] =>
    points.filter(({ atS }) => atS >= (from * durationS) / 3 && atS < ((from + 1) * durationS) / 3);
  const [middle, last] = [third(1), third(2)];
  if (middle.length < MIN_POINTS || last.length < MIN_POINTS) return null;
  if (new Set([...middle, ...last].map(({ life }) => life)).size > 1) return null;
  const [before, after] = [medianOf(middle), medianOf(last)];
  const allowed = Math.max(allowance.absolute, allowance.relative * before);
  const perHour = HOUR_S * slopeOf([...middle, ...last]);
  return { middle: before, last: after, allowed, perHour, isGrowing: after - before > allowed };
}

const medianOf = (points: readonly Point[]): number => median(points.map(({ value }) => value));

/** Theil and Sen's: half of all measurements may be anything, and it is still the trend. */
function slopeOf(points: readonly Point[]): number {
  const size = Math.ceil(points.length / BUCKETS);
  const buckets = Array.from({ length: Math.ceil(points.length / size) }, (_, at) => {
    const some = points.slice(at * size, (at + 1) * size);
    return { atS: median(some.map(({ atS }) => atS)), value: medianOf(some) };
  });
  const slopes = buckets.flatMap((from, at) =>
    buckets.slice(at + 1).map((to) => (to.value - from.value) / (to.atS - from.atS)),
  );
  return median(slopes);
}
