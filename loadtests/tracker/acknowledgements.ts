// When which part of the log was acknowledged: what the relay has seen go by.

/** Flush positions in ascending order, each with the time at which it was handed to the primary. */
export interface Acknowledgements {
  readonly atMs: readonly number[];
  readonly flushed: readonly number[];
}

/** When the first acknowledgement at or above the offset arrived; null when none has. */
export function acknowledgedAtMs({ atMs, flushed }: Acknowledgements, offset: number): number | null {
  let low = 0;
  let high = flushed.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((flushed[middle] ?? 0) >= offset) high = middle;
    else low = middle + 1;
  }
  return atMs[low] ?? null;
}
