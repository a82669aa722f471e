// The sections of docs/capacity.md: the model, computed from the recorded turns alone, and how far
// it is from what was measured.
import { readFileSync } from "node:fs";
import { RESULTS } from "../record.ts";
import { middleOf } from "../rounds/figures.ts";
import {
  barsTable,
  markdownTable,
  numberText,
  type Recorded as RecordedRun,
  runText,
  writeSections,
} from "../rounds/page.ts";
import {
  ALONE,
  barsOf,
  BASE,
  type Bytes,
  type Check,
  checksOf,
  type Costs,
  costsOf,
  layoutRow,
  limitsOf,
  type Margins,
  marginsOf,
  PARTS,
  planFor,
  PLANNED,
  type Range,
  STREAMING,
  streamLoad,
  type StreamPoints,
  STREAMS_LIMITS,
  streamsMax,
  streamsRow,
  waysToServe,
} from "./model.ts";

const PAGE = new URL("../../docs/capacity.md", import.meta.url);
const RATES = [1_000, 10_000, 100_000];
const CLIENTS = [1_000, 100_000, 1_000_000];
const MEGABYTE = 1e6;
const BITS_PER_GIGABIT = 1e9;
const SECONDS_PER_MONTH = 730 * 3_600;

export interface Recorded extends RecordedRun {
  readonly bytes: Bytes;
  readonly settings: { readonly rounds: number; readonly windowS: number; readonly points: StreamPoints };
}

/** Errors: there is no result yet. */
export function writePage(): void {
  writeSections(sectionsOf(readRecorded() ?? fail()), PAGE);
}

function fail(): never {
  throw new Error("there is no result yet: run make bench-capacity");
}

/** Null: there is no result yet. */
export function readRecorded(folder = RESULTS): Recorded | null {
  try {
    return JSON.parse(readFileSync(new URL("capacity.json", folder), "utf8")) as Recorded;
  } catch (cause) {
    if ((cause as { code?: unknown }).code === "ENOENT") return null;
    throw cause;
  }
}

/** By the name of the section. */
export function sectionsOf(recorded: Recorded): Record<string, string> {
  const { turns, settings, bytes } = recorded;
  const costs = costsOf(turns, settings.points);
  const checks = checksOf(turns, settings.points);
  const margins = marginsOf(checks);
  const windows = `${String(settings.rounds)} rounds, windows of ${String(settings.windowS)} s`;
  return {
    costs: [runText(recorded, windows), costsTable(recorded, costs), bytesText(bytes)].join("\n\n"),
    transactions: planTable(costs, margins),
    limits: limitsTable(costs, margins, bytes),
    streams: streamsText(recorded, costs),
    bandwidth: bandwidthTable(bytes),
    checks: [checksTable(checks), barsTable({ bars: barsOf(turns, checks) })].join("\n\n"),
  };
}

function counted(count: number): string {
  return Math.round(count).toLocaleString("en-US");
}

function costsTable({ turns }: Recorded, costs: Costs): string {
  const alone = (part: string): number =>
    middleOf(
      turns,
      { workload: ALONE, row: layoutRow(BASE) },
      ({ machine }) => machine.cores[part] ?? Number.NaN,
    );
  const head = [
    "all processes of",
    "µs, one tracker",
    "µs more, each further tracker",
    "cores with one client",
  ];
  const rows = PARTS.map((part) => [
    part,
    ...[costs.parts[part].us, costs.parts[part].moreUs, alone(part)].map(numberText),
  ]);
  return markdownTable(head, rows);
}

function bytesText({ log, announced, mark }: Bytes): string {
  return `A transaction adds ${numberText(log)} bytes to the log and announces ${numberText(announced)} bytes to each tracker. A mark has ${numberText(mark)} bytes.`;
}

function rangeText([from, to]: Range, textOf: (value: number) => string): string {
  const [least, most] = [textOf(from), textOf(to)];
  return least === most ? least : `${least} to ${most}`;
}

function planTable(costs: Costs, margins: Margins): string {
  const head = [
    "transactions a second",
    "gateways",
    "cores of each tracker",
    "cores of the primary",
    "cores of each replica",
  ];
  const rows = RATES.map((rate) => {
    const { gateways, trackerCores, primaryCores, replicaCores } = planFor(costs, margins, rate);
    const tracker = rangeText(trackerCores, numberText);
    return [
      ...[counted(rate), rangeText(gateways, counted)],
      trackerCores[1] > PLANNED ? `**${tracker}**` : tracker,
      ...[primaryCores, replicaCores].map((range) => rangeText(range, numberText)),
    ];
  });
  return markdownTable(head, rows);
}

function limitsTable(costs: Costs, margins: Margins, bytes: Bytes): string {
  return markdownTable(
    ["part", `at ${String(100 * PLANNED)}% of what it can do, transactions a second`],
    limitsOf(costs, margins, bytes).map(({ part, rate }) => [part, rangeText(rate, counted)]),
  );
}

function streamsText({ turns, bytes, settings }: Recorded, costs: Costs): string {
  const cost = costs.streams;
  const most = streamsMax(cost, STREAMS_LIMITS);
  const full = streamLoad(cost, most);
  const row = streamsRow(settings.points.fitted[1]);
  const kib = middleOf(turns, { workload: STREAMING, row }, ({ figures }) => figures["kib"] ?? Number.NaN);
  const { coresMax, p99MsMax } = STREAMS_LIMITS;
  const head = ["clients", "served by", "processes", "their cores", "p99 ms", "Gbit/s"];
  const rows = CLIENTS.flatMap((clients) =>
    waysToServe(costs, clients).map(({ way, processes, cores, p99Ms, marksPerSecond }) => {
      const gigabits = (8 * clients * marksPerSecond * bytes.mark) / BITS_PER_GIGABIT;
      const figures = [cores, p99Ms, gigabits].map(numberText);
      return [counted(clients), way, counted(processes), ...figures];
    }),
  );
  return [
    `One mark on one stream takes ${numberText(cost.writeUs)} µs of the processor. From one mark of a stream to its next pass ${numberText(cost.pauseMs)} ms, and ${numberText(cost.perStreamUs)} µs for each stream of the process. The p99 of a promise is ${numberText(cost.p99Intervals)} times that. A stream takes ${numberText(kib)} KiB of memory. So one process serves ${counted(most)} streams with at most ${String(coresMax)} of a core and a p99 of at most ${String(p99MsMax)} ms; each receives ${numberText(full.marksPerSecond)} marks a second.`,
    markdownTable(head, rows),
  ].join("\n\n");
}

function bandwidthTable({ log, announced }: Bytes): string {
  const head = [
    "transactions a second",
    "announcements, MB/s to each tracker",
    "log, MB/s to each replica",
    "both, TB a month to each region",
  ];
  const rows = RATES.map((rate) => [
    counted(rate),
    numberText((rate * announced) / MEGABYTE),
    numberText((rate * log) / MEGABYTE),
    numberText((rate * (announced + log) * SECONDS_PER_MONTH) / 1e12),
  ]);
  return markdownTable(head, rows);
}

function checksTable(checks: readonly Check[]): string {
  const rows = checks.map(({ point, figure, predicted, measured, ratio }) => [
    point,
    figure.replaceAll("_", " "),
    ...[predicted, measured, ratio].map(numberText),
  ]);
  return markdownTable(["point", "figure", "predicted", "measured", "ratio"], rows);
}
