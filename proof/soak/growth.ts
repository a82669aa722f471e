// Judges whether one measured line is flat or growing. Pure.
import { median } from "../../loadtests/rounds/figures.ts";

export interface Point {
  readonly atS: number;
  readonly value: number;
  /** How often the measured process has started; 0 where nothing can restart. */
  readonly life: number;
}

/** How much a line may rise from the middle third of the run to the last: the larger of the two. */
export interface Allowance {
  /** In the metric's unit: the noise that was observed. */
  readonly absolute: number;
  /** As a share of the middle third's median. */
  readonly relative: number;
}

export interface Growth {
  readonly middle: number;
  readonly last: number;
  readonly allowed: number;
  /**
   * The median slope of all pairs of points, in the metric's unit. Only for readers: the judgement
   * does not use it.
   */
  readonly perHour: number;
  readonly isGrowing: boolean;
}

/** A third with fewer points is not judged. */
const MIN_POINTS = 3;
/** Groups of points for the slopes: 30 groups make 435 pairs. */
const BUCKETS = 30;
const HOUR_S = 3_600;

/**
 * The first third is for what fills up once and then stays: pools, caches, young generations. After
 * it the run does the same all the time, so the medians of the second and the last third must be
 * equal, too. Medians, because a fault may double any value for seconds. Null: too few points, or
 * the process restarted within the two thirds.
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

/** Theil–Sen estimator: it finds the trend even if almost a third of the points are outliers. */
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
