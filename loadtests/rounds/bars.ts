// What a run is judged by, and how a terminal shows it; `make verify` reads these lines.
import { type Cell, linesOf, tableOf } from "./figures.ts";
import type { Turn } from "./turns.ts";

export interface Bar {
  readonly what: string;
  readonly measured: number;
  readonly met: boolean;
}

export interface Result {
  readonly cells: readonly Cell[];
  /** Within a round, and then the median over the rounds. */
  readonly ratios: Readonly<Record<string, number>>;
  readonly bars: readonly Bar[];
  /** Every one, also those that count nowhere. */
  readonly turns: readonly Turn[];
}

/** What is not a number meets no bar. */
export function bar(what: string, measured: number, { min, max }: { min?: number; max?: number }): Bar {
  const met = (min === undefined || measured >= min) && (max === undefined || measured <= max);
  return { what, measured: Number(measured.toFixed(3)), met: met && !Number.isNaN(measured) };
}

export function verdictOf({ what, measured, met }: Bar): string {
  return `${met ? "met   " : "MISSED"} ${what}: ${String(measured)}`;
}

/** The table with these columns, then the ratios, then the verdicts. */
export function reportOf(
  { cells, ratios, bars }: Result,
  columns: Record<"figures" | "parts", readonly string[]>,
): string {
  const ratioLines = Object.entries(ratios).map(
    ([what, value]) => `${value.toFixed(3).padStart(10)}  ${what}`,
  );
  return [linesOf(tableOf(cells, columns)), ...ratioLines, ...bars.map(verdictOf)].join("\n");
}
