// The sections of docs/benchmarks.md about the experiments, from the results of full runs: what was
// measured, the ratios beside those of the papers, the bars; and the table at its top.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { RESULTS } from "../record.ts";
import type { Result as RoundsResult } from "../rounds/bars.ts";
import type { Cell } from "../rounds/figures.ts";
import {
  barsTable,
  cellsTable,
  markdownTable,
  numberText,
  ratiosTable,
  type Recorded as RecordedRun,
  runText,
  writeSections,
} from "../rounds/page.ts";
import type { Labels } from "./bench.ts";
import { decisionTable } from "./decision.ts";
import type { Findings, Mode, Sizes } from "./experiment.ts";
import { EXPERIMENTS } from "./experiments.ts";
import { PAPERS } from "./papers.ts";
import { draw, figuresOf } from "./plots.ts";

const PICTURES = new URL("../../docs/benchmarks/", import.meta.url);
/** A figure that is bigger is not looked at more. */
const PICTURE_BYTES_MAX = 60_000;
const PARTS = ["gateway", "far_gateway", "tracker", "pgbouncer", "primary", "replica", "generator"];

export interface LabelledCell extends Cell {
  /** Its values on the figures' axes. */
  readonly labels: Labels;
}

export interface Result extends RoundsResult, Findings {
  readonly experiment: string;
  readonly mode: Mode;
  readonly settings: Sizes & Readonly<Record<string, unknown>>;
  readonly cells: readonly LabelledCell[];
}

export type Recorded = Result & RecordedRun & { readonly seconds: number };

/** The processes that some cell has a time for. */
export function partsOf(cells: readonly Cell[]): string[] {
  return PARTS.filter((part) => cells.some(({ cpu_us }) => part in cpu_us));
}

export function readRecorded(mode: Mode, name: string): Recorded | null {
  try {
    return JSON.parse(readFileSync(new URL(`experiments/${mode}/${name}.json`, RESULTS), "utf8")) as Recorded;
  } catch (cause) {
    if ((cause as { code?: unknown }).code === "ENOENT") return null;
    throw cause;
  }
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
