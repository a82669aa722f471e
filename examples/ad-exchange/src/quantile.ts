/** The value below which the given part of the numbers lies; NaN of none. */
export function quantile(values: readonly number[], part: number): number {
  const sorted = values.filter((value) => !Number.isNaN(value)).sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? Number.NaN;
}

export function round(value: number, digits = 0): number {
  return Number(value.toFixed(digits));
}
