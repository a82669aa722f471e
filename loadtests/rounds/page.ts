// Sections of docs/benchmarks.md and docs/capacity.md: what people wrote stays as it is, and
// between two marks stands what the result of a run says.
import { readFileSync, writeFileSync } from "node:fs";
import { wrapText } from "@highwater/runtime";
import { type Result, verdictOf } from "./bars.ts";
import type { Machine } from "../record.ts";
import { type Cell, type Spread, spreadText } from "./figures.ts";
import { FOREIGN_CORES_MAX, STEAL_MAX } from "./machine.ts";

const BENCHMARKS = new URL("../../docs/benchmarks.md", import.meta.url);
const UNKNOWN = "–";
/** Of prose; a table's row stays on its line. */
const COLUMNS = 100;

export interface Recorded extends Result {
  readonly recorded: string;
  readonly commit: string | null;
  readonly machine: Machine;
}

/** Replaces sections by their names. */
export function writeSections(sections: Readonly<Record<string, string>>, page = BENCHMARKS): void {
  const written = Object.entries(sections).reduce(
    (text, [name, section]) => replaced(text, name, section),
    readFileSync(page, "utf8"),
  );
  writeFileSync(page, written);
}

export function replaced(page: string, name: string, section: string): string {
  const [begin, end] = [`<!-- ${name}: measured -->`, `<!-- ${name}: end -->`];
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`the page has no place for ${name}`);
  const lines = section
    .split("\n")
    .flatMap((line) => (line.startsWith("|") ? [line] : wrapText(line, COLUMNS)));
  return `${page.slice(0, from + begin.length)}\n${lines.join("\n")}\n${page.slice(to)}`;
}

/** When, on what and how it was measured, and what was disturbed. */
export function runText({ recorded, commit, machine, cells }: Recorded, how: string): string {
  const sum = (value: (cell: Cell) => number): string =>
    String(cells.reduce((all, cell) => all + value(cell), 0));
  const where = `${machine.processor}, ${String(machine.cores)} cores, ${String(machine.memory_gib)} GiB, Linux ${machine.kernel}`;
  return `*Run of ${recorded.slice(0, 10)}, commit ${commit ?? "unknown"}: ${how}. ${where}. Of ${sum(({ rounds }) => rounds)} turns that count, ${sum(({ disturbed }) => disturbed)} were disturbed (foreign load above ${String(FOREIGN_CORES_MAX)} cores or steal above ${String(100 * STEAL_MAX)}%); ${sum(({ refused }) => refused)} others were refused and taken again.*`;
}

/** `parts`: the processes that the table shows. */
export function cellsTable(cells: readonly Cell[], parts: readonly string[]): string {
  const rows = cells.map((cell) => {
    const { per_second: rate, p50_ms: p50, given_up: givenUp, failed_tries: failed } = cell.figures;
    const texts = [rate, p50].map((spread) => (isKnown(spread) ? spreadText(spread) : UNKNOWN));
    const shares = [givenUp, failed].map((spread) =>
      isKnown(spread) ? `${(100 * spread.median).toFixed(1)}%` : UNKNOWN,
    );
    const cpu = parts.map((part) => {
      const spread = cell.cpu_us[part];
      return isKnown(spread) ? spread.median.toFixed(0) : "";
    });
    return [`${cell.workload}, ${cell.row}${cell.disturbed > 0 ? " †" : ""}`, ...texts, ...shares, ...cpu];
  });
  const head = ["", "per s", "p50 ms", "given up", "failed tries", ...parts.map((part) => `${part} µs`)];
  return [
    markdownTable(head, rows),
    "`†`: at least one of the row's turns was disturbed. Processor time is in microseconds for each transaction that committed.",
  ].join("\n\n");
}

/** JSON has null where a turn had nothing to divide by. */
function isKnown(spread: Spread | undefined): spread is Spread {
  return spread !== undefined && Number.isFinite(spread.median);
}

/** Beside those of `papers`, where these have any. */
export function ratiosTable(
  { ratios }: Pick<Recorded, "ratios">,
  papers: Readonly<Record<string, string>> = {},
): string {
  const beside = Object.keys(ratios).some((what) => what in papers);
  const rows = Object.entries(ratios).map(([what, value]) => [
    what,
    numberText(value),
    ...(beside ? [papers[what] ?? ""] : []),
  ]);
  return markdownTable(["ratio", "here", ...(beside ? ["papers"] : [])], rows);
}

export function barsTable({ bars }: Pick<Recorded, "bars">): string {
  const rows = bars.map((bar) => {
    const verdict = verdictOf(bar).slice(0, "MISSED".length).trim();
    return [bar.what, numberText(bar.measured), verdict === "met" ? "met" : "**missed**"];
  });
  return markdownTable(["bar", "measured", ""], rows);
}

export function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`).join("\n");
}

/** JSON has null for what is not a number. */
export function numberText(value: number | null): string {
  if (value === null || !Number.isFinite(value)) return UNKNOWN;
  return Math.abs(value) >= 100 ? value.toFixed(0) : Number(value.toPrecision(3)).toString();
}
