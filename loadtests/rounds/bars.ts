// What a benchmark is judged by, and how a terminal shows it; `make verify` reads these lines.

export interface Bar {
  readonly what: string;
  readonly measured: number;
  readonly met: boolean;
}

/** What is not a number meets no bar. */
export function bar(what: string, measured: number, { min, max }: { min?: number; max?: number }): Bar {
  const met = (min === undefined || measured >= min) && (max === undefined || measured <= max);
  return { what, measured: Number(measured.toFixed(3)), met: met && !Number.isNaN(measured) };
}

export function verdictOf({ what, measured, met }: Bar): string {
  return `${met ? "met   " : "MISSED"} ${what}: ${String(measured)}`;
}
