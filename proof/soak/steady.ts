// Steady load with light faults: nothing may grow that should not, everything must expire that
// should, and every transaction must get its verdict.
import { Helper } from "../../loadtests/tracker/helper.ts";
import type { Bar } from "../../loadtests/rounds/bars.ts";
import { type FaultLine, harass } from "./faults.ts";
import { type Growth, judgeGrowth } from "./growth.ts";
import type { LoadOrders, Tally } from "./load-process.ts";
import { type Metric, METRIC_NAMES, type MetricName, METRICS } from "./metrics.ts";
import type { Recorder } from "./recorder.ts";
import { Sampler } from "./sampler.ts";
import { SoakSystem } from "./soak-system.ts";

export interface SteadyOptions {
  readonly dir: string;
  readonly durationS: number;
  readonly rate: number;
  readonly retentionMs: number;
  /** Null: no faults. */
  readonly faultEveryMs: number | null;
}

interface Judged extends Growth {
  readonly metric: MetricName;
  readonly line: string;
}

export interface Steady {
  readonly durationS: number;
  readonly rate: number;
  readonly tally: Tally;
  /** `applied`: according to the table. `expected`: according to the answers. */
  readonly applied: number;
  readonly expected: number;
  readonly faults: readonly FaultLine[];
  readonly partitionsDropped: number;
  readonly eventsExpired: boolean;
  readonly webhooksReceived: number;
  readonly judged: readonly Judged[];
  readonly bars: readonly Bar[];
}

/** Time after the load for transactions that are still running. */
const TAIL_MS = 120_000;

export interface SteadyRun {
  readonly steady: Steady;
  readonly recorder: Recorder;
}

export async function runSteady(options: SteadyOptions): Promise<SteadyRun> {
  await using soak = await SoakSystem.start(options.dir, { retentionMs: options.retentionMs });
  // Awaited, because the system would be closed at once otherwise.
  return await measureSteady(soak, options);
}

export async function measureSteady(
  soak: SoakSystem,
  options: Omit<SteadyOptions, "dir" | "retentionMs">,
): Promise<SteadyRun> {
  const { durationS, rate } = options;
  using load = new Helper<LoadOrders>(new URL("./load-process.ts", import.meta.url));
  await load.ask("open", await Promise.all(soak.system.regions.map((each) => soak.system.endpoints(each))));
  await soak.subscribe();
  const sampler = new Sampler(soak);
  const { recorder } = sampler;
  sampler.start();
  const over = new AbortController();
  const harassing = beginFaults(soak, options, { recorder, signal: over.signal });
  const durationMs = 1_000 * durationS;
  const loading = load.ask("run", { rate, durationMs }, durationMs + TAIL_MS);
  await Promise.race([loading, new Promise((resolve) => setTimeout(resolve, durationMs))]);
  await sampler.stop();
  over.abort();
  const faults = await harassing;
  const tally = await loading;
  await load.ask("close", undefined);
  const applied = await soak.total(await primaryOf(soak));
  const measured = {
    durationS,
    rate,
    tally,
    applied,
    expected: tally.committed - tally.lost,
    faults,
    partitionsDropped: sampler.partitionsDropped,
    eventsExpired: sampler.eventsExpired,
    webhooksReceived: soak.delivered,
    judged: judgeAll(recorder, durationS),
  };
  return { steady: { ...measured, bars: barsOf(measured) }, recorder };
}

function beginFaults(
  soak: SoakSystem,
  { faultEveryMs: everyMs }: Pick<SteadyOptions, "faultEveryMs">,
  { recorder, signal }: { readonly recorder: Recorder; readonly signal: AbortSignal },
): Promise<FaultLine[]> {
  if (everyMs === null) return Promise.resolve([]);
  return harass(soak, { everyMs, signal, elapsedS: () => recorder.elapsedS });
}

async function primaryOf(soak: SoakSystem): Promise<string> {
  const status = await soak.cluster.status();
  return status.find(({ state }) => state === "primary")?.id ?? soak.home;
}

function judgeAll(recorder: Recorder, durationS: number): Judged[] {
  return METRIC_NAMES.flatMap((metric) => {
    const { allowance }: Metric = METRICS[metric];
    if (allowance === null) return [];
    return [...recorder.of(metric)].flatMap(([line, points]) => {
      const growth = judgeGrowth(points, durationS, allowance);
      return growth === null ? [] : [{ metric, line, ...growth }];
    });
  });
}

function barsOf(measured: Omit<Steady, "bars">): Bar[] {
  const { tally, applied, expected, judged } = measured;
  const growing = judged.filter(({ isGrowing }) => isGrowing);
  const unjudged = METRIC_NAMES.filter(
    (name) => METRICS[name].allowance !== null && !judged.some(({ metric }) => metric === name),
  );
  const total = (counts: Readonly<Record<string, number>>): number =>
    Object.values(counts).reduce((sum, each) => sum + each, 0);
  return [
    bar(`growing lines (${namesOf(growing)})`, growing.length, growing.length === 0),
    bar(`metrics that could not be judged (${unjudged.join(", ")})`, unjudged.length, unjudged.length === 0),
    bar("transactions without a verdict", total(tally.unresolved), total(tally.unresolved) === 0),
    bar("broken promises", tally.broken, tally.broken === 0),
    bar(`applied, of ${String(expected)} by the answers`, applied, applied === expected),
    bar(
      "partitions of receipts dropped, at least 1",
      measured.partitionsDropped,
      measured.partitionsDropped > 0,
    ),
    bar("events expired, 1 for yes", Number(measured.eventsExpired), measured.eventsExpired),
    bar("webhooks received, at least 1", measured.webhooksReceived, measured.webhooksReceived > 0),
    ...faultBars(measured.faults),
  ];
}

function faultBars(faults: readonly FaultLine[]): Bar[] {
  const failed = faults.filter(({ error }) => error !== null);
  return [bar(`faults that did not heal, of ${String(faults.length)}`, failed.length, failed.length === 0)];
}

function namesOf(growing: readonly Judged[]): string {
  return growing.map(({ metric, line }) => `${metric} of ${line}`).join(", ");
}

export function bar(what: string, measured: number, met: boolean): Bar {
  return { what: what.replace(" ()", ""), measured, met };
}
