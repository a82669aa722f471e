// docs/benchmarks.md: what people wrote stays as it is, and between the marks of each experiment
// stands what was measured: the figures, the ratios beside those of the papers, the bars, and who
// used the processors.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { verdictOf } from "../gateway/results.ts";
import { type Machine, RESULTS } from "../record.ts";
import type { Mode } from "./experiment.ts";
import type { Point, Result } from "./figures.ts";
import { PAPERS } from "./papers.ts";
import { draw, figuresOf } from "./plots.ts";

export const PAGE = new URL("../../docs/benchmarks.md", import.meta.url);
const PICTURES = new URL("../../docs/benchmarks/", import.meta.url);
const NAMES = ["latency", "mixed", "contention", "tpcc", "auction", "groups"] as const;
/** A figure that is bigger is not looked at more. */
const PICTURE_BYTES_MAX = 60_000;

export interface Recorded extends Result {
  readonly recorded: string;
  readonly commit: string | null;
  readonly machine: Machine;
  readonly seconds: number;
}

export function readRecorded(mode: Mode, name: string): Recorded | null {
  try {
    return JSON.parse(readFileSync(new URL(`experiments/${mode}/${name}.json`, RESULTS), "utf8")) as Recorded;
  } catch (cause) {
    if ((cause as { code?: unknown }).code === "ENOENT") return null;
    throw cause;
  }
}

/** Of each experiment its full run, or, where there is none yet, the quick one. */
export async function writePage(): Promise<void> {
  let page = readFileSync(PAGE, "utf8");
  for (const name of NAMES) {
    const recorded = readRecorded("full", name) ?? readRecorded("quick", name);
    if (recorded !== null) page = replaced(page, name, await sectionOf(recorded));
  }
  writeFileSync(PAGE, page);
}

export function replaced(page: string, name: string, section: string): string {
  const [begin, end] = [`<!-- ${name}: measured -->`, `<!-- ${name}: end -->`];
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`docs/benchmarks.md has no place for ${name}`);
  return `${page.slice(0, from + begin.length)}\n${section}\n${page.slice(to)}`;
}

async function sectionOf(recorded: Recorded): Promise<string> {
  const { machine, mode, seconds, commit } = recorded;
  const when = recorded.recorded.slice(0, 10);
  const where = `${machine.processor}, ${String(machine.cores)} cores, ${String(machine.memory_gib)} GiB, Linux ${machine.kernel}`;
  const pictures: string[] = [];
  mkdirSync(PICTURES, { recursive: true });
  for (const { name, title, spec } of figuresOf(recorded)) {
    const svg = await draw(spec);
    if (Buffer.byteLength(svg) > PICTURE_BYTES_MAX) throw new Error(`the figure ${name} is too big`);
    writeFileSync(new URL(`${name}.svg`, PICTURES), svg);
    pictures.push(`![${title}](benchmarks/${name}.svg)\n\n${title}.`);
  }
  return [
    `*${mode === "full" ? "Full" : "Quick"} run of ${when}, ${String(seconds)} s, commit ${commit ?? "unknown"}. ${where}; load average ${machine.load_average.toFixed(1)} at its end.*`,
    ...pictures,
    ratiosTable(recorded),
    ...(recorded.bars.length === 0 ? [] : [barsTable(recorded)]),
    coresTable(recorded.points),
  ].join("\n\n");
}

/** Beside those of the papers, where these have any. */
export function ratiosTable({ ratios }: Pick<Result, "ratios">): string {
  const beside = Object.keys(ratios).some((what) => what in PAPERS);
  const rows = Object.entries(ratios).map(([what, value]) => [
    what,
    number(value),
    ...(beside ? [PAPERS[what] ?? ""] : []),
  ]);
  const head = ["ratio", "here", ...(beside ? ["papers"] : [])];
  return [head, head.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`).join("\n");
}

export function barsTable({ bars }: Pick<Result, "bars">): string {
  const rows = bars.map((bar) => {
    const verdict = verdictOf(bar).slice(0, "MISSED".length).trim();
    return `| ${bar.what} | ${number(bar.measured)} | ${verdict === "met" ? "met" : "**missed**"} |`;
  });
  return ["| bar | measured | |", "| --- | --- | --- |", ...rows].join("\n");
}

/**
 * Rows of the table of processors: the points at which most was done, for these show what the limit
 * was.
 */
const BUSIEST = 6;

/**
 * A profile of the machine: where two cores are the limit and not the design, this is where it
 * shows.
 */
export function coresTable(points: readonly Point[]): string {
  // What ran together shares its cores. A page of the auction is made of the transactions that are
  // counted beside it.
  const together = new Map<string, Point[]>();
  for (const point of points.filter(({ group, kind }) => group !== "all" && kind !== "page")) {
    const key = JSON.stringify([point.labels, point.cores]);
    together.set(key, [...(together.get(key) ?? []), point]);
  }
  const rate = (all: readonly Point[]): number => all.reduce((sum, each) => sum + each.per_second, 0);
  const busiest = [...together.values()].sort((a, b) => rate(b) - rate(a)).slice(0, BUSIEST);
  const parts = [...new Set(busiest.flatMap(([first]) => Object.keys(first?.cores ?? {})))];
  const rows = busiest.map((all) => {
    const { labels = {}, cores = {} } = all[0] ?? {};
    const names = new Set([
      ...all.map(({ group }) => group),
      ...Object.entries(labels).map(([name, value]) => `${name} ${String(value)}`),
    ]);
    const spent = parts.map((part) => (cores[part] ?? 0).toFixed(2));
    return `| ${[...names].join(", ")} | ${rate(all).toFixed(0)} | ${spent.join(" | ")} |`;
  });
  return [
    "Cores that were busy where most transactions ended in a second (`rest`: all else on the machine, with the link's relay):",
    "",
    `| | per s | ${parts.join(" | ")} |`,
    `| --- | --- | ${parts.map(() => "---").join(" | ")} |`,
    ...rows,
  ].join("\n");
}

function number(value: number | null): string {
  if (value === null || !Number.isFinite(value)) return "–";
  return Math.abs(value) >= 100 ? value.toFixed(0) : Number(value.toPrecision(3)).toString();
}
