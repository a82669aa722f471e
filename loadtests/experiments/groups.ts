// Experiment 6, group durability (Tashkent, section 9): the order of commits is fixed first, and
// one flush then makes many of them durable. It is compared with one flush for each commit, and
// with PostgreSQL's own grouping.
import type { Group } from "./load/worker.ts";
import type { Measurement, Sample } from "./bench.ts";
import { type Context, type Experiment, NEAR_MS, sized } from "./experiment.ts";
import { pointsOf, ratioOf, type Result } from "./figures.ts";
import { insertTable } from "./load/workload.ts";
import { DISK, type ExperimentSystem, LEVEL } from "./system.ts";

const TABLE = "groups_test";
/** An idle session reports its counters after 10 s at the latest (PGSTAT_IDLE_INTERVAL). */
const COUNTERS_MS = 11_000;

interface Way {
  readonly way: string;
  readonly subject: Group["subject"];
  readonly linkMs: number;
  readonly level: string;
  readonly oneConnection?: boolean;
}

/**
 * `one by one` is the result of a middleware that has to keep the order of commits and waits for
 * each. Level `disk` compares flushes of one disk; level `region` and a synchronous replica also
 * wait for a near region.
 */
const WAYS: readonly Way[] = [
  { way: "one by one, disk", subject: "direct_local", linkMs: 0, level: DISK, oneConnection: true },
  { way: "PostgreSQL groups, disk", subject: "direct_local", linkMs: 0, level: DISK },
  { way: "Highwater groups, disk", subject: "safe", linkMs: 0, level: DISK },
  { way: "one by one, region", subject: "direct_on", linkMs: NEAR_MS, level: LEVEL, oneConnection: true },
  { way: "PostgreSQL groups, region", subject: "direct_on", linkMs: NEAR_MS, level: LEVEL },
  { way: "Highwater groups, region", subject: "safe", linkMs: NEAR_MS, level: LEVEL },
];

export const groups: Experiment = {
  name: "groups",
  async run(context) {
    const sizes = sized(context.mode, {
      quick: { rounds: 1, seconds: 3, clients: [1, 64] },
      full: { rounds: 2, seconds: 4, clients: [1, 8, 32, 128] },
    });
    await context.bench.system.createTables(insertTable(TABLE), [TABLE]);
    const samples: Sample[] = [];
    const flushes: Flushes[] = [];
    for (let round = 1; round <= sizes.rounds; round++)
      for (const clients of sizes.clients)
        for (const way of WAYS) {
          // Measured whole, without a window: flushes are counted for everything that ran.
          const one = {
            ...measurementOf(way, clients),
            round,
            warmUpMs: 0,
            durationMs: 1_000 * sizes.seconds,
          };
          const { found, perTransaction } = await countingFlushes(context, one);
          samples.push(...found);
          flushes.push({ round, clients, way: way.way, perTransaction });
        }
    return resultOf(context, sizes, samples, flushes);
  },
};

interface Flushes {
  readonly round: number;
  readonly clients: number;
  readonly way: string;
  readonly perTransaction: number;
}

function measurementOf({ way, subject, linkMs, level, oneConnection }: Way, clients: number) {
  const group: Group = {
    name: way,
    subject,
    workload: { kind: "insert", table: TABLE },
    isolation: "read committed",
    clients,
    retries: 100,
    ...(oneConnection === true && { oneConnection }),
  };
  return { labels: { way, clients }, linkMs, level, groups: [group] };
}

async function countingFlushes(
  { bench, say }: Context,
  measurement: Measurement,
): Promise<{ readonly found: Sample[]; readonly perTransaction: number }> {
  const { way, clients } = measurement.labels;
  say(`round ${String(measurement.round)}: ${String(way)}, ${String(clients)} clients`);
  const [flushesBefore, commitsBefore] = [await flushCount(bench.system), await rowCount(bench.system)];
  const found = await bench.measure(measurement);
  const commits = (await rowCount(bench.system)) - commitsBefore;
  await new Promise((resolve) => setTimeout(resolve, COUNTERS_MS));
  const perTransaction = ((await flushCount(bench.system)) - flushesBefore) / commits;
  return { found, perTransaction };
}

/** Calls of fsync (or what stands for it) on the log, by all processes of the primary. */
async function flushCount(system: ExperimentSystem): Promise<number> {
  const sql = "SELECT coalesce(sum(fsyncs), 0)::text AS flushes FROM pg_stat_io WHERE object = 'wal'";
  return Number((await system.query(sql))[0]?.["flushes"]);
}

async function rowCount(system: ExperimentSystem): Promise<number> {
  return Number((await system.query(`SELECT count(*)::text AS total FROM ${TABLE}`))[0]?.["total"]);
}

function resultOf(
  { mode }: Context,
  settings: { readonly rounds: number; readonly seconds: number; readonly clients: readonly number[] },
  samples: readonly Sample[],
  flushes: readonly Flushes[],
): Result & { readonly flushes: readonly Flushes[] } {
  const most = Math.max(...settings.clients);
  const subjectOf = (name: string): string => WAYS.find(({ way }) => way === name)?.subject ?? "";
  const chosen = (way: string) => ({ subject: subjectOf(way), labels: { way, clients: most } });
  const times = (of: string, to: string): number =>
    ratioOf(samples, { of: chosen(of), to: chosen(to) }, ({ perSecond }) => perSecond);
  const comparisons = ["disk", "region"].flatMap((where) => [
    [`Highwater groups, ${where}`, `one by one, ${where}`],
    [`PostgreSQL groups, ${where}`, `one by one, ${where}`],
    [`Highwater groups, ${where}`, `PostgreSQL groups, ${where}`],
  ]);
  return {
    experiment: groups.name,
    mode,
    settings: { ...settings },
    points: pointsOf(samples),
    flushes,
    ratios: Object.fromEntries(
      comparisons.map(([of = "", to = ""]) => [
        `throughput of "${of}" to "${to}", ${String(most)} clients`,
        times(of, to),
      ]),
    ),
    bars: [],
  };
}
