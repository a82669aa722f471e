// The sections of docs/benchmarks.md about the experiments, from the results of full runs: what was
// measured, the ratios beside those of the papers, the bars; and the table at its top.
import { mkdirSync, writeFileSync } from "node:fs";
import type { Cell } from "../rounds/figures.ts";
import {
  barsTable,
  cellsTable,
  markdownTable,
  numberText,
  ratiosTable,
  runText,
  writeSections,
} from "../rounds/page.ts";
import { decisionTable } from "./decision.ts";
import type { Findings } from "./experiment.ts";
import { EXPERIMENTS } from "./experiments.ts";
import { PAPERS } from "./papers.ts";
import { draw, figuresOf } from "./plots.ts";
import { readRecorded, type Recorded } from "./recorded.ts";

/** Made with the first picture. */
const PICTURES = new URL("benchmarks/", new URL("../../docs/", import.meta.url));
/** A figure that is bigger is not looked at more. */
const PICTURE_BYTES_MAX = 60_000;
const PARTS = ["gateway", "far_gateway", "tracker", "pgbouncer", "primary", "replica", "generator"];

/** The processes that some cell has a time for. */
export function partsOf(cells: readonly Cell[]): string[] {
  return PARTS.filter((part) => cells.some(({ cpu_us }) => part in cpu_us));
}

export async function writePage(): Promise<void> {
  const found = EXPERIMENTS.flatMap(({ name }) => readRecorded("full", name) ?? []);
  const sections: Record<string, string> = { decision: decisionTable(found) };
  for (const recorded of found) sections[recorded.experiment] = await sectionOf(recorded);
  writeSections(sections);
}

async function sectionOf(recorded: Recorded): Promise<string> {
  const { settings, cells, seconds, peaks } = recorded;
  const pictures: string[] = [];
  mkdirSync(PICTURES, { recursive: true });
  for (const { name, title, spec } of figuresOf(recorded)) {
    const svg = await draw(spec);
    if (Buffer.byteLength(svg) > PICTURE_BYTES_MAX) throw new Error(`the figure ${name} is too big`);
    writeFileSync(new URL(`${name}.svg`, PICTURES), svg);
    pictures.push(`![${title}](benchmarks/${name}.svg)\n\n${title}.`);
  }
  const { rounds, windowS, headlineS } = settings;
  const windows = `${String(rounds)} rounds, windows of ${String(windowS)} s (headline rows ${String(headlineS)} s), ${String(seconds)} s in all`;
  return [
    runText(recorded, windows),
    ...pictures,
    ...(peaks === undefined ? [] : [peaksTable(peaks)]),
    ratiosTable(recorded, PAPERS),
    barsTable(recorded),
    cellsTable(cells, partsOf(cells)),
  ].join("\n\n");
}

function peaksTable(peaks: NonNullable<Findings["peaks"]>): string {
  return markdownTable(
    ["peak of", "under", "per s", "reached by"],
    peaks.map(({ way, workload, per_second, row }) => [way, workload, numberText(per_second), row]),
  );
}
