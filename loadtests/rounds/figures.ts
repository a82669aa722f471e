// From turns to what is written down: medians over the rounds with their spread, and ratios, each
// taken within a round, whose turns lie close together.
import type { Turn } from "./turns.ts";

/** Over the rounds. */
export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

export interface Cell {
  readonly workload: string;
  readonly row: string;
  readonly rounds: number;
  /** Of the rounds. */
  readonly disturbed: number;
  /** Turns that were taken again. */
  readonly refused: number;
  readonly figures: Readonly<Record<string, Spread>>;
  /** Processor microseconds that each process took for a transaction. */
  readonly cpu_us: Readonly<Record<string, Spread>>;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return (quantile(sorted, 0.5) + (sorted[Math.ceil(sorted.length / 2) - 1] ?? Number.NaN)) / 2;
}

/** Of values in ascending order. */
export function quantile(sorted: ArrayLike<number>, share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}

/** What a turn counts in a second; processor time is shown for each. */
const RATE = "per_second";

function spreadOf(values: readonly number[]): Spread {
  return { median: median(values), min: Math.min(...values), max: Math.max(...values) };
}

export function cellsOf(turns: readonly Turn[]): Cell[] {
  return [...Map.groupBy(turns, ({ workload, row }) => JSON.stringify([workload, row])).values()].map(
    (all) => {
      const kept = all.filter(({ refused }) => !refused);
      const [first] = kept;
      if (first === undefined) throw new Error("a cell of the table was not measured");
      return {
        workload: first.workload,
        row: first.row,
        rounds: kept.length,
        disturbed: kept.filter(({ disturbed }) => disturbed).length,
        refused: all.length - kept.length,
        figures: spreads(kept, ({ figures }) => figures),
        cpu_us: spreads(kept, cpuOf),
      };
    },
  );
}

function cpuOf({ figures, machine }: Turn): Record<string, number> {
  const rate = figures[RATE] ?? Number.NaN;
  return Object.fromEntries(
    Object.entries(machine.cores).map(([part, cores]) => [part, (1e6 * cores) / rate]),
  );
}

/** By its name; of a process's name with ` µs`, its processor time for each transaction. */
export function figureOf(turn: Turn, name: string): number {
  return turn.figures[name] ?? cpuOf(turn)[name.replace(/ µs$/, "")] ?? Number.NaN;
}

function spreads(
  turns: readonly Turn[],
  of: (turn: Turn) => Readonly<Record<string, number>>,
): Record<string, Spread> {
  const values = turns.map(of);
  return Object.fromEntries(
    Object.keys(values[0] ?? {}).map((name) => [name, spreadOf(values.map((each) => each[name] ?? NaN))]),
  );
}

/** The row with the greatest median throughput; the first of `rows` where none was measured. */
export function bestOf(cells: readonly Cell[], workload: string, rows: readonly string[]): string {
  const rate = (row: string): number =>
    cells.find((cell) => cell.workload === workload && cell.row === row)?.figures[RATE]?.median ?? 0;
  return rows.reduce((best, row) => (rate(row) > rate(best) ? row : best));
}

/** One row's figure against another's within each round, and then the median over the rounds. */
export function compared(
  turns: readonly Turn[],
  { workload, of, to, figure }: Record<"workload" | "of" | "to" | "figure", string>,
  compare: (of: number, to: number) => number = (one, other) => one / other,
): number {
  const kept = turns.filter((turn) => turn.workload === workload && !turn.refused);
  const values = kept.flatMap((turn) => {
    const other = kept.find(({ row, round }) => row === to && round === turn.round);
    return turn.row === of && other !== undefined
      ? [compare(figureOf(turn, figure), figureOf(other, figure))]
      : [];
  });
  return values.length === 0 ? Number.NaN : median(values);
}

/** A figure of each turn of one row that counts, and then the median over the rounds. */
export function middleOf(
  turns: readonly Turn[],
  { workload, row }: Record<"workload" | "row", string>,
  value: (turn: Turn) => number,
): number {
  const kept = turns.filter((turn) => turn.workload === workload && turn.row === row && !turn.refused);
  return kept.length === 0 ? Number.NaN : median(kept.map(value));
}

/** The heads of a table of cells, and a row for each. `parts`: the processes that it shows. */
export function tableOf(
  cells: readonly Cell[],
  { figures, parts }: Record<"figures" | "parts", readonly string[]>,
): string[][] {
  const head = [
    ...["workload", "row"],
    ...figures.map((name) => name.replaceAll("_", " ")),
    ...parts.map((part) => `${part} µs`),
    ...["rounds", "disturbed", "refused"],
  ];
  const rows = cells.map((cell) => [
    ...[cell.workload, cell.row],
    ...figures.map((name) => {
      const spread = cell.figures[name];
      return spread === undefined ? "-" : spreadText(spread);
    }),
    ...parts.map((part) => cell.cpu_us[part]?.median.toFixed(0) ?? "-"),
    ...[cell.rounds, cell.disturbed, cell.refused].map(String),
  ]);
  return [head, ...rows];
}

/** Columns for a terminal, the first two to the left. */
export function linesOf(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
  return rows
    .map((row) =>
      row.map((text, at) => (at < 2 ? text.padEnd(widths[at] ?? 0) : text.padStart(widths[at] ?? 0))),
    )
    .map((row) => row.join("  ").trimEnd())
    .join("\n");
}

/** The median, and from the least to the greatest. */
export function spreadText({ median: middle, min, max }: Spread, digits = 3): string {
  const text = (value: number): string =>
    Math.abs(value) >= 100 ? value.toFixed(0) : Number(value.toPrecision(digits)).toString();
  return min === max ? text(middle) : `${text(middle)} (${text(min)} to ${text(max)})`;
}
