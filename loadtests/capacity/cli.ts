// `make bench-capacity`: the points that the model of docs/capacity.md is made of, and those at
// which it is checked, in turns: one gateway and two, one tracker and three, and thousands of
// streams of one tracker. Each turn has gateways of its own, so that no other one reads the marks
// meanwhile.
// Options: --quick (seconds, no bars), --rounds N, --seconds S (of a window), --page (only writes
// the page again).
// Exit codes: 0 when the bars are met or --quick ran through, 1 when one is missed or the benchmark
// failed.
import type { ServiceProcess } from "@highwater/lab-system";
import { readOptions } from "@highwater/lab-tools/process";
import { Generator } from "../gateway/generator.ts";
import type { Segment } from "../gateway/segment.ts";
import { ELSEWHERE, record } from "../record.ts";
import { reportOf } from "../rounds/bars.ts";
import { cpuOf, cpuOfServer, type Spent } from "../rounds/cpu.ts";
import { cellsOf } from "../rounds/figures.ts";
import { measured } from "../rounds/machine.ts";
import { readTimes, TIME_OPTIONS } from "../rounds/times.ts";
import { REFUSALS_MAX, type Subject, takeTurns } from "../rounds/turns.ts";
import { BenchSystem, PRIMARY, REPLICAS } from "../tracker/bench-system.ts";
import type { CommitOrders } from "../tracker/commits-process.ts";
import { Helper } from "../tracker/helper.ts";
import { measureStreams } from "../tracker/streams.ts";
import {
  ALONE,
  barsOf,
  BASE,
  BUSY,
  type Bytes,
  checksOf,
  type Layout,
  LAYOUTS,
  layoutRow,
  type Part,
  PARTS,
  STREAMING,
  type StreamPoints,
  streamsRow,
  TRACKERS,
} from "./model.ts";
import { writePage } from "./page.ts";
import { Tally } from "./tally.ts";

const FULL = { rounds: 3, firstWarmUpS: 5, warmUpS: 0, windowS: 8 };
const POINTS: Record<"full" | "quick", StreamPoints> = {
  full: { fitted: [500, 2_000], checked: [1_000, 5_000] },
  quick: { fitted: [20, 80], checked: [40, 200] },
};
/** One row is added, so serializable transactions do not meet. */
const TRANSACTION = { statements: ["INSERT INTO bench VALUES ($1)"], ack: "commit" } as const;
const CLIENTS = { [BUSY]: 64, [ALONE]: 1 };
const STREAMS_RATE = 200;
const COLUMNS = {
  figures: ["per_second", "p50_ms", "p99_ms", "marks_per_second", "kib"],
  parts: PARTS,
};

const { values } = readOptions(import.meta.filename, {
  options: { ...TIME_OPTIONS, page: { type: "boolean", default: false } },
});
if (values.page) {
  writePage();
  process.exit(0);
}
const times = readTimes(values, FULL);
const points = POINTS[values.quick ? "quick" : "full"];

type Measured = ReturnType<Subject["measure"]>;

/** Starts gateways with these trackers, and stops them behind the work. */
async function withGateways<T>(
  system: BenchSystem,
  { count, trackers }: { readonly count: number; readonly trackers: readonly string[] },
  work: (gateways: readonly ServiceProcess[]) => Promise<T>,
): Promise<T> {
  const gateways: ServiceProcess[] = [];
  try {
    for (let at = 1; at <= count; at++)
      gateways.push(await system.startGateway(trackers, `gateway-${String(at)}`));
    return await work(gateways);
  } finally {
    for (const gateway of gateways) await system.stop(gateway);
  }
}

/** Clients that each have one transaction under way, shared out among the gateways. */
async function openGenerators(
  gateways: readonly ServiceProcess[],
  clients: number,
): Promise<{ readonly generators: readonly Generator[]; readonly committed: number }> {
  const generators = gateways.map(() => new Generator());
  let committed = 0;
  for (const [at, generator] of generators.entries()) {
    const target = { kind: "gateway", url: gateways[at]?.url ?? "", ...TRANSACTION } as const;
    committed += await generator.open(target, clients / generators.length);
  }
  return { generators, committed };
}

function cpuOfAll(processes: readonly { readonly pid: number | undefined }[]): Spent {
  return new Map(processes.flatMap(({ pid }) => [...cpuOf(pid)]));
}

function measureTransactions(
  system: BenchSystem,
  { layout, clients }: { readonly layout: Layout; readonly clients: number },
  all: readonly ServiceProcess[],
): Measured {
  const trackers = all.slice(0, layout.trackers);
  const urls = trackers.map(({ url }) => url);
  return withGateways(system, { count: layout.gateways, trackers: urls }, async (gateways) => {
    const before = await rowsOf(system);
    const { generators, committed: first } = await openGenerators(gateways, clients);
    try {
      const run = (seconds: number): Promise<Segment[]> =>
        Promise.all(generators.map((generator) => generator.run(1_000 * seconds)));
      // Gateways and generators are new: their code is not compiled yet.
      const warmed = await run(times.firstWarmUpS);
      const parts: Record<Part, () => Spent> = {
        gateway: () => cpuOfAll(gateways),
        tracker: () => cpuOfAll(trackers),
        primary: () => cpuOfServer(system.postmasterOf(PRIMARY)),
        replica: () => new Map(REPLICAS.flatMap((id) => [...cpuOfServer(system.postmasterOf(id))])),
        client: () => cpuOfAll(generators),
      };
      const { result, machine } = await measured(parts, () => run(times.windowS));
      const committed = [...warmed, ...result].reduce((sum, each) => sum + each.committed, first);
      const there = (await rowsOf(system)) - before;
      if (there !== committed)
        throw new Error(`${String(committed)} have committed, and ${String(there)} are there`);
      return { figures: figuresOf(result), machine };
    } finally {
      for (const generator of generators) generator.end();
    }
  });
}

/** Latencies are those of the slowest gateway. */
function figuresOf(segments: readonly Segment[]): Record<string, number> {
  return {
    per_second: segments.reduce((sum, each) => sum + (1_000 * each.committed) / each.elapsedMs, 0),
    p50_ms: Math.max(...segments.map(({ p50Ms }) => p50Ms)),
    p99_ms: Math.max(...segments.map(({ p99Ms }) => p99Ms)),
  };
}

function measureStreaming(system: BenchSystem, streams: number, tracker: ServiceProcess): Measured {
  return withGateways(system, { count: 1, trackers: [tracker.url] }, async ([gateway]) => {
    using commits = new Helper<CommitOrders>(new URL("../tracker/commits-process.ts", import.meta.url));
    await commits.ask("open", { gateway: gateway?.url ?? "", tracker: tracker.url });
    const warmUpMs = 1_000 * times.firstWarmUpS;
    await commits.ask("run", { rate: STREAMS_RATE, durationMs: warmUpMs, level: null }, warmUpMs);
    const options = { streams, rate: STREAMS_RATE, durationMs: 1_000 * times.windowS };
    const { result, machine } = await measured({}, () =>
      measureStreams({ system, commits, tracker }, options),
    );
    return {
      figures: {
        per_second: result.commits_per_second,
        marks_per_second: result.marks_per_second,
        p50_ms: result.promise_p50_ms,
        p99_ms: result.promise_p99_ms,
        kib: result.tracker_kib_per_stream ?? Number.NaN,
      },
      // Of the window alone: the machine's reading begins before the streams are opened.
      machine: {
        ...machine,
        cores: {
          tracker: result.tracker_cpu_core ?? Number.NaN,
          client: result.clients_cpu_core ?? Number.NaN,
        },
      },
    };
  });
}

/** What a transaction and a mark take of links. */
async function measureBytes(system: BenchSystem, tracker: ServiceProcess): Promise<Bytes> {
  using tally = await Tally.open(tracker.url);
  const logBefore = await logOf(system);
  const work = async (gateways: readonly ServiceProcess[]): Promise<{ committed: number; mark: number }> => {
    const { generators, committed: first } = await openGenerators(gateways, CLIENTS[BUSY]);
    const over = new AbortController();
    try {
      const mark = bytesOfMark(tracker.url, over.signal);
      let committed = first;
      for (const generator of generators) committed += (await generator.run(1_000 * times.windowS)).committed;
      over.abort();
      return { committed, mark: await mark };
    } finally {
      over.abort();
      for (const generator of generators) generator.end();
    }
  };
  // A gateway announces everything before it ends.
  const { committed, mark } = await withGateways(system, { count: 1, trackers: [tally.url] }, work);
  const log = (await logOf(system)) - logBefore;
  return { announced: tally.announced / committed, log: log / committed, mark };
}

/** The mean of what a stream carries for each mark, until the signal ends it. */
async function bytesOfMark(tracker: string, signal: AbortSignal): Promise<number> {
  let text = "";
  try {
    const answer = await fetch(`${tracker}/v1/durability/stream`, { signal });
    for await (const part of answer.body ?? []) text += Buffer.from(part).toString("latin1");
  } catch (cause) {
    if (!signal.aborted) throw cause;
  }
  const marks = text.match(/id: .+\nevent: mark\ndata: .+\n\n/g) ?? [];
  return marks.join("").length / marks.length;
}

async function rowsOf(system: BenchSystem): Promise<number> {
  return Number((await system.query("SELECT count(*) AS rows FROM bench"))[0]?.["rows"]);
}

async function logOf(system: BenchSystem): Promise<number> {
  return Number((await system.query("SELECT pg_current_wal_insert_lsn() - '0/0' AS bytes"))[0]?.["bytes"]);
}

function subjectsOf(
  system: BenchSystem,
  trackers: readonly [ServiceProcess, ...ServiceProcess[]],
): Subject[] {
  const transactions = (workload: keyof typeof CLIENTS, layout: Layout): Subject => ({
    workload,
    row: layoutRow(layout),
    measure: () => measureTransactions(system, { layout, clients: CLIENTS[workload] }, trackers),
  });
  return [
    ...LAYOUTS.map((layout) => transactions(BUSY, layout)),
    transactions(ALONE, BASE),
    ...[1, ...points.fitted, ...points.checked]
      .sort((one, other) => one - other)
      .map((streams) => ({
        workload: STREAMING,
        row: streamsRow(streams),
        measure: () => measureStreaming(system, streams, trackers[0]),
      })),
  ];
}

async function run(system: BenchSystem): Promise<boolean> {
  const trackers: [ServiceProcess, ...ServiceProcess[]] = [await system.startTracker("tracker-1")];
  for (let at = 2; at <= TRACKERS; at++) trackers.push(await system.startTracker(`tracker-${String(at)}`));
  // Also compiles the code of the first tracker and of the servers' statements.
  const bytes = await measureBytes(system, trackers[0]);
  const turns = await takeTurns(subjectsOf(system, trackers), {
    rounds: times.rounds,
    refusalsMax: values.quick ? 0 : REFUSALS_MAX,
    say: (what) => console.error(`… ${what}`),
  });
  const checks = checksOf(turns, points);
  const bars = values.quick ? [] : barsOf(turns, checks);
  const ratios = Object.fromEntries(
    checks.map(({ point, figure, ratio }) => [`${point}: ${figure}, predicted to measured`, ratio]),
  );
  const result = { cells: cellsOf(turns), ratios, bars, turns };
  if (!values.quick) {
    record("capacity", { settings: { ...times, points }, bytes, ...result });
    if (ELSEWHERE === undefined) writePage();
  }
  console.log(`bytes: ${JSON.stringify(bytes)}`);
  console.log(reportOf(result, COLUMNS));
  return bars.every(({ met }) => met);
}

let met: boolean;
{
  await using system = await BenchSystem.start();
  met = await run(system);
}
process.exit(met ? 0 : 1);
