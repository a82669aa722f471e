// The section of docs/benchmarks.md about the PostgreSQL wire, from the result of a whole run.
import { readFileSync, writeFileSync } from "node:fs";
import { barsTable, PAGE, ratiosTable, replaced } from "../experiments/page.ts";
import { type Machine, RESULTS } from "../record.ts";
import { type Cell, spreadText } from "../rounds/figures.ts";
import { FOREIGN_CORES_MAX, STEAL_MAX } from "../rounds/machine.ts";
import { type Memory, PARTS, type Result } from "./results.ts";

export interface Recorded extends Result {
  readonly recorded: string;
  readonly commit: string | null;
  readonly machine: Machine;
  readonly memory: Memory | null;
  readonly settings: { readonly rounds: number; readonly windowS: number };
}

/** Errors: there is no result yet. */
export function writePage(): void {
  const recorded = JSON.parse(readFileSync(new URL("pgwire.json", RESULTS), "utf8")) as Recorded;
  writeFileSync(PAGE, replaced(readFileSync(PAGE, "utf8"), "pgwire", sectionOf(recorded)));
}

export function sectionOf(recorded: Recorded): string {
  const { machine, commit, settings, cells } = recorded;
  const sum = (value: (cell: Cell) => number): string =>
    String(cells.reduce((all, cell) => all + value(cell), 0));
  const where = `${machine.processor}, ${String(machine.cores)} cores, ${String(machine.memory_gib)} GiB, Linux ${machine.kernel}`;
  return [
    `*Run of ${recorded.recorded.slice(0, 10)}, commit ${commit ?? "unknown"}: ${String(settings.rounds)} rounds, windows of ${String(settings.windowS)} s. ${where}. Of ${sum(({ rounds }) => rounds)} turns that count, ${sum(({ disturbed }) => disturbed)} were disturbed (foreign load above ${String(FOREIGN_CORES_MAX)} cores or steal above ${String(100 * STEAL_MAX)}%); ${sum(({ refused }) => refused)} others were refused and taken again.*`,
    tableOf(cells),
    "`†`: at least one of the row's turns was disturbed. Processor time is in microseconds for each transaction that committed.",
    ratiosTable(recorded),
    barsTable(recorded),
  ].join("\n\n");
}

function tableOf(cells: readonly Cell[]): string {
  const rows = cells.map((cell) => {
    const { per_second: rate, p50_ms: p50, given_up: givenUp, failed_tries: failed } = cell.figures;
    const texts = [rate, p50].map((spread) => (spread === undefined ? "–" : spreadText(spread)));
    const shares = [givenUp, failed].map((spread) =>
      spread === undefined ? "–" : `${(100 * spread.median).toFixed(1)}%`,
    );
    const cpu = PARTS.map((part) => cell.cpu_us[part]?.median.toFixed(0) ?? "");
    return [`${cell.workload}, ${cell.row}${cell.disturbed > 0 ? " †" : ""}`, ...texts, ...shares, ...cpu];
  });
  const head = ["", "per s", "p50 ms", "given up", "failed tries", ...PARTS.map((part) => `${part} µs`)];
  return [head, head.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`).join("\n");
}
