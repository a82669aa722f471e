// The model of docs/capacity.md: what a transaction and a stream cost, by the turns of
// `make bench-capacity`, and what follows for other rates and other numbers of processes. No I/O.
import { type Bar, bar } from "../rounds/bars.ts";
import { figureOf, median, middleOf } from "../rounds/figures.ts";
import type { Turn } from "../rounds/turns.ts";

/** Workloads. With so many clients all processes are busy, and work on groups of transactions. */
export const BUSY = "64 clients";
/** With one client every group is of one transaction. */
export const ALONE = "1 client";
export const STREAMING = "streams";

/** What takes part in a transaction; all trackers are one part, and both replicas are. */
export const PARTS = ["gateway", "tracker", "primary", "replica", "client"] as const;
export type Part = (typeof PARTS)[number];
const SERVERS = PARTS.filter((part) => part !== "client");
const REPLICAS = 2;

export interface Layout {
  readonly gateways: number;
  readonly trackers: number;
}

export const BASE: Layout = { gateways: 1, trackers: 1 };
/** Of three regions. Tables are for this number. */
export const TRACKERS = 3;
/** Shows what further trackers add. */
const PLANNED_LAYOUT: Layout = { gateways: 1, trackers: TRACKERS };
const CHECKED: readonly Layout[] = [
  { gateways: 1, trackers: 2 },
  { gateways: 2, trackers: 1 },
  { gateways: 2, trackers: TRACKERS },
];
export const LAYOUTS: readonly Layout[] = [BASE, PLANNED_LAYOUT, ...CHECKED];

/** Numbers of streams. */
export interface StreamPoints {
  readonly fitted: readonly [number, number];
  readonly checked: readonly number[];
}

export function layoutRow({ gateways, trackers }: Layout): string {
  return `${counted(gateways, "gateway")}, ${counted(trackers, "tracker")}`;
}

export function streamsRow(streams: number): string {
  return counted(streams, "stream");
}

function counted(count: number, what: string): string {
  return `${count.toLocaleString("en-US")} ${what}${count === 1 ? "" : "s"}`;
}

/** Processor microseconds of a transaction. */
interface PartCost {
  /** With one tracker. */
  readonly us: number;
  /** For each further tracker. */
  readonly moreUs: number;
}

export interface StreamCost {
  /** Cores of the tracker with one stream. */
  readonly aloneCores: number;
  /** Processor microseconds of one mark on one stream. */
  readonly writeUs: number;
  /** From one mark of a stream to its next: so long, and so long for each stream. */
  readonly pauseMs: number;
  readonly perStreamUs: number;
  /** The p99 of a promise, as a number of these intervals. */
  readonly p99Intervals: number;
}

export interface Costs {
  readonly parts: Readonly<Record<Part, PartCost>>;
  /** Of the machine, in turns of the base. */
  readonly busyCores: number;
  readonly streams: StreamCost;
}

/** Of one transaction, and of one mark. */
export interface Bytes {
  readonly log: number;
  /** To each tracker. */
  readonly announced: number;
  readonly mark: number;
}

/** Medians over the rounds; NaN where nothing was measured. */
export function costsOf(turns: readonly Turn[], { fitted }: StreamPoints): Costs {
  const usOf = (part: Part, layout: Layout): number =>
    middleOf(turns, { workload: BUSY, row: layoutRow(layout) }, (turn) => figureOf(turn, `${part} µs`));
  const fittedPart = (part: Part): PartCost => {
    const us = usOf(part, BASE);
    // No tracker makes a transaction cheaper; less than nothing is what measurements vary by.
    return { us, moreUs: Math.max(0, (usOf(part, PLANNED_LAYOUT) - us) / (TRACKERS - 1)) };
  };
  const tracker = usOf("tracker", BASE);
  return {
    parts: {
      gateway: fittedPart("gateway"),
      // Every tracker receives every transaction, so each costs the same.
      tracker: { us: tracker, moreUs: tracker },
      primary: fittedPart("primary"),
      replica: { us: usOf("replica", BASE), moreUs: 0 },
      client: { us: usOf("client", BASE), moreUs: 0 },
    },
    busyCores: middleOf(turns, { workload: BUSY, row: layoutRow(BASE) }, ({ machine }) =>
      PARTS.reduce((sum, part) => sum + (machine.cores[part] ?? Number.NaN), 0),
    ),
    streams: streamCostOf(turns, fitted),
  };
}

function streamCostOf(turns: readonly Turn[], fitted: StreamPoints["fitted"]): StreamCost {
  const at = (streams: number, figure: string): number =>
    middleOf(turns, { workload: STREAMING, row: streamsRow(streams) }, (turn) => valueOf(turn, figure));
  const aloneCores = at(1, "tracker cores");
  const intervalMs = (streams: number): number => 1_000 / at(streams, "marks_per_second");
  const mean = (of: (streams: number) => number): number => (of(fitted[0]) + of(fitted[1])) / 2;
  const perStreamMs = (intervalMs(fitted[1]) - intervalMs(fitted[0])) / (fitted[1] - fitted[0]);
  return {
    aloneCores,
    writeUs: mean(
      (streams) =>
        (1e6 * (at(streams, "tracker cores") - aloneCores)) / (streams * at(streams, "marks_per_second")),
    ),
    pauseMs: intervalMs(fitted[0]) - fitted[0] * perStreamMs,
    perStreamUs: 1_000 * perStreamMs,
    p99Intervals: mean((streams) => at(streams, "p99_ms") / intervalMs(streams)),
  };
}

/** By its name; `tracker cores`: those that the part kept busy. */
function valueOf(turn: Turn, figure: string): number {
  const [, part] = /^(.+) cores$/.exec(figure) ?? [];
  return part === undefined ? figureOf(turn, figure) : (turn.machine.cores[part] ?? Number.NaN);
}

/** Of a transaction in all processes of a part, however many gateways share the work. */
function microseconds({ parts }: Costs, part: Part, trackers: number): number {
  return parts[part].us + (trackers - 1) * parts[part].moreUs;
}

/** A machine that is as busy as with the base, at the costs of another layout. */
function perSecond(costs: Costs, trackers: number): number {
  const us = PARTS.reduce((sum, part) => sum + microseconds(costs, part, trackers), 0);
  return (1e6 * costs.busyCores) / us;
}

export interface StreamLoad {
  readonly cores: number;
  readonly marksPerSecond: number;
  readonly p99Ms: number;
}

export function streamLoad(cost: StreamCost, streams: number): StreamLoad {
  const intervalMs = cost.pauseMs + (streams * cost.perStreamUs) / 1_000;
  const marksPerSecond = 1_000 / intervalMs;
  return {
    cores: cost.aloneCores + (streams * marksPerSecond * cost.writeUs) / 1e6,
    marksPerSecond,
    p99Ms: cost.p99Intervals * intervalMs,
  };
}

/** The most streams with which a process keeps to both limits. */
export function streamsMax(
  cost: StreamCost,
  { coresMax, p99MsMax }: { readonly coresMax: number; readonly p99MsMax: number },
): number {
  const spareCores = coresMax - cost.aloneCores;
  // A mark on every stream takes writeUs of each perStreamUs, so the processor may be no limit.
  const overUs = cost.writeUs - spareCores * cost.perStreamUs;
  const byCores = overUs <= 0 ? Infinity : (1_000 * spareCores * cost.pauseMs) / overUs;
  const byP99 = (1_000 * (p99MsMax / cost.p99Intervals - cost.pauseMs)) / cost.perStreamUs;
  return Math.max(0, Math.floor(Math.min(byCores, byP99)));
}

/** Of a process that sends a stream only so many marks a second. */
export function pacedLoad(
  cost: StreamCost,
  { streams, marksPerSecond }: { readonly streams: number; readonly marksPerSecond: number },
): StreamLoad {
  return {
    cores: (streams * marksPerSecond * cost.writeUs) / 1e6,
    marksPerSecond,
    // A mark waits for its turn, and then until all streams have it.
    p99Ms: 1_000 / marksPerSecond + (streams * cost.writeUs) / 1_000,
  };
}

export interface Check {
  readonly point: string;
  readonly figure: string;
  /** Medians over the rounds. */
  readonly predicted: number;
  readonly measured: number;
  /** Of predicted to measured within a round, and then the median over the rounds. */
  readonly ratio: number;
}

interface Prediction {
  readonly workload: string;
  readonly row: string;
  readonly figure: string;
  readonly of: (costs: Costs) => number;
}

function predictionsOf({ checked }: StreamPoints): Prediction[] {
  const busy = CHECKED.flatMap((layout) => {
    const at = { workload: BUSY, row: layoutRow(layout) };
    const { trackers } = layout;
    return [
      { ...at, figure: "per_second", of: (costs: Costs) => perSecond(costs, trackers) },
      ...SERVERS.map((part) => ({
        ...at,
        figure: `${part} µs`,
        of: (costs: Costs) => microseconds(costs, part, trackers),
      })),
    ];
  });
  const streaming = checked.flatMap((streams) => {
    const at = { workload: STREAMING, row: streamsRow(streams) };
    const load = (costs: Costs): StreamLoad => streamLoad(costs.streams, streams);
    return [
      { ...at, figure: "tracker cores", of: (costs: Costs) => load(costs).cores },
      { ...at, figure: "marks_per_second", of: (costs: Costs) => load(costs).marksPerSecond },
      { ...at, figure: "p99_ms", of: (costs: Costs) => load(costs).p99Ms },
    ];
  });
  return [...busy, ...streaming];
}

/** What the model says about points that it was not made of, beside what was measured there. */
export function checksOf(turns: readonly Turn[], points: StreamPoints): Check[] {
  const rounds = [...Map.groupBy(turns, ({ round }) => round).values()];
  return predictionsOf(points).map(({ workload, row, figure, of }) => {
    const predicted = (some: readonly Turn[]): number => of(costsOf(some, points));
    const measured = (some: readonly Turn[]): number =>
      middleOf(some, { workload, row }, (turn) => valueOf(turn, figure));
    return {
      point: row,
      figure,
      predicted: predicted(turns),
      measured: measured(turns),
      ratio: median(rounds.map((round) => predicted(round) / measured(round))),
    };
  });
}

/** Of predicted to measured. */
const RATIO = { min: 0.75, max: 1.33 };
const STREAMS_BAR = { streams: 5_000, coresMax: 0.8, p99MsMax: 100 };
/** What a process with streams is planned for: the limits of its bar. */
export const STREAMS_LIMITS = STREAMS_BAR;

export function barsOf(turns: readonly Turn[], checks: readonly Check[]): Bar[] {
  const ratios = checks.map(({ ratio }) => ratio);
  const { streams, coresMax, p99MsMax } = STREAMS_BAR;
  const many = (figure: string): number =>
    middleOf(turns, { workload: STREAMING, row: streamsRow(streams) }, (turn) => valueOf(turn, figure));
  const name = `${streamsRow(streams)}, 200 commits a second`;
  return [
    bar(`ratio of predicted to measured at least ${String(RATIO.min)}`, Math.min(...ratios), {
      min: RATIO.min,
    }),
    bar(`ratio of predicted to measured at most ${String(RATIO.max)}`, Math.max(...ratios), {
      max: RATIO.max,
    }),
    bar(`${name}: tracker in cores at most ${String(coresMax)}`, many("tracker cores"), { max: coresMax }),
    bar(`${name}: p99 in ms at most ${String(p99MsMax)}`, many("p99_ms"), { max: p99MsMax }),
  ];
}

/** The share of a core up to which a process is planned, and of a link. */
export const PLANNED = 0.6;
const GIGABIT_BYTES = 125e6;
const PRIMARY_CORES = [4, 16, 64];

/** From what the model says to what it says with the margin of the part. */
export type Range = readonly [number, number];

export type Margins = Readonly<Record<Part, number>>;

/** The largest factor by which a part cost more at a compared point than the model says. */
export function marginsOf(checks: readonly Check[]): Margins {
  const of = (part: Part): number =>
    checks
      .filter(({ figure }) => figure === `${part} µs`)
      .reduce((largest, { ratio }) => Math.max(largest, 1 / ratio), 1);
  return {
    gateway: of("gateway"),
    tracker: of("tracker"),
    primary: of("primary"),
    replica: of("replica"),
    client: 1,
  };
}

export interface Plan {
  readonly gateways: Range;
  /** Of each. */
  readonly trackerCores: Range;
  readonly primaryCores: Range;
  readonly replicaCores: Range;
}

export function planFor(costs: Costs, margins: Margins, rate: number): Plan {
  const cores = (part: Part, processes = 1): Range => {
    const least = (rate * microseconds(costs, part, TRACKERS)) / 1e6 / processes;
    return [least, least * margins[part]];
  };
  const [least, most] = cores("gateway");
  return {
    gateways: [Math.ceil(least / PLANNED), Math.ceil(most / PLANNED)],
    trackerCores: cores("tracker", TRACKERS),
    primaryCores: cores("primary"),
    replicaCores: cores("replica", REPLICAS),
  };
}

/**
 * From which rate with the margin to which without it each part is as full as it is planned for;
 * the first one to fill comes first.
 */
export function limitsOf(
  costs: Costs,
  margins: Margins,
  bytes: Bytes,
): { readonly part: string; readonly rate: Range }[] {
  const rateOf = (part: Part, { cores = 1, processes = 1 } = {}): Range => {
    const most = (1e6 * PLANNED * cores * processes) / microseconds(costs, part, TRACKERS);
    return [most / margins[part], most];
  };
  const ofLink = (PLANNED * GIGABIT_BYTES) / (bytes.log + bytes.announced);
  const limits: { readonly part: string; readonly rate: Range }[] = [
    { part: "one gateway", rate: rateOf("gateway") },
    { part: "each tracker", rate: rateOf("tracker", { processes: TRACKERS }) },
    { part: "a replica that has one core", rate: rateOf("replica", { processes: REPLICAS }) },
    ...PRIMARY_CORES.map((cores) => ({
      part: `a primary of ${String(cores)} cores`,
      rate: rateOf("primary", { cores }),
    })),
    { part: "1 Gbit/s to another region", rate: [ofLink, ofLink] },
  ];
  return limits.sort(({ rate: [one] }, { rate: [other] }) => one - other);
}

export interface Way extends StreamLoad {
  readonly way: string;
  readonly processes: number;
}

/** Of relays that leave marks out. */
const PACED_PER_SECOND = 2;

/**
 * How so many clients can follow the marks. Cores are of all processes together. Relays only where
 * a tracker in each region is not enough.
 */
export function waysToServe(costs: Costs, clients: number): Way[] {
  const cost = costs.streams;
  const shared = (processes: number): StreamLoad => streamLoad(cost, clients / processes);
  const needed = Math.ceil(clients / streamsMax(cost, STREAMS_LIMITS));
  const trackers = Math.max(TRACKERS, needed);
  const ofTrackers = shared(trackers);
  const byTrackers: Way = {
    ...ofTrackers,
    way: "trackers",
    processes: trackers,
    cores: trackers * ofTrackers.cores,
  };
  if (trackers === TRACKERS) return [byTrackers];
  const ofRelays = shared(needed);
  const pacedWith = (streams: number): StreamLoad =>
    pacedLoad(cost, { streams, marksPerSecond: PACED_PER_SECOND });
  const pacedRelays = Math.ceil(pacedWith(clients).cores / STREAMS_LIMITS.coresMax);
  const paced = pacedWith(clients / pacedRelays);
  /** A mark reaches the relays like clients of the trackers. */
  const p99MsToRelays = (relays: number): number => streamLoad(cost, relays / TRACKERS).p99Ms;
  return [
    byTrackers,
    {
      ...ofRelays,
      way: "relays",
      processes: needed,
      cores: needed * ofRelays.cores,
      p99Ms: p99MsToRelays(needed) + ofRelays.p99Ms,
    },
    {
      ...paced,
      way: `relays, ${String(PACED_PER_SECOND)} marks a second`,
      processes: pacedRelays,
      cores: pacedRelays * paced.cores,
      p99Ms: p99MsToRelays(pacedRelays) + paced.p99Ms,
    },
  ];
}
