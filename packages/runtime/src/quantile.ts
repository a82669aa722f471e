// Quantiles of what a histogram counted between two readings.

/** Upper bounds, each with the number of values at or below it. */
export type Buckets = readonly { readonly bound: number; readonly count: number }[];

/**
 * The quantile of the values that came between two readings, in milliseconds (bounds are seconds).
 * Within a bucket the values count as evenly spread. Null: none came, or the service has started
 * again.
 */
export function quantileBetween(before: Buckets, after: Buckets, quantile: number): number | null {
  const countBefore = new Map(before.map(({ bound, count }) => [bound, count]));
  const added = after.map(({ bound, count }) => ({ bound, count: count - (countBefore.get(bound) ?? 0) }));
  const total = added.at(-1)?.count ?? 0;
  if (before.length === 0 || total <= 0) return null;
  const wanted = quantile * total;
  let [lowerBound, below] = [0, 0];
  for (const { bound, count } of added) {
    if (count >= wanted && count > below) {
      // Above the highest bound nothing more is known.
      if (bound === Infinity) return lowerBound * 1_000;
      const share = (wanted - below) / (count - below);
      return (lowerBound + (bound - lowerBound) * share) * 1_000;
    }
    [lowerBound, below] = [bound === Infinity ? lowerBound : bound, count];
  }
  return null;
}
