// The section of docs/benchmarks.md about the PostgreSQL wire, from the result of a whole run.
import { readFileSync } from "node:fs";
import { RESULTS } from "../record.ts";
import {
  barsTable,
  cellsTable,
  ratiosTable,
  type Recorded as RecordedRun,
  runText,
  writeSections,
} from "../rounds/page.ts";
import { COLUMNS, type Memory } from "./results.ts";

export interface Recorded extends RecordedRun {
  readonly memory: Memory | null;
  readonly settings: { readonly rounds: number; readonly windowS: number };
}

/** Errors: there is no result yet. */
export function writePage(): void {
  const recorded = JSON.parse(readFileSync(new URL("pgwire.json", RESULTS), "utf8")) as Recorded;
  writeSections({ pgwire: sectionOf(recorded) });
}

export function sectionOf(recorded: Recorded): string {
  const { settings, cells } = recorded;
  return [
    runText(recorded, `${String(settings.rounds)} rounds, windows of ${String(settings.windowS)} s`),
    cellsTable(cells, COLUMNS.parts),
    ratiosTable(recorded),
    barsTable(recorded),
  ].join("\n\n");
}
