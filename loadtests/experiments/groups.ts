// Experiment 6, group durability (Tashkent, section 9): the order of commits is fixed first, and
// one flush then makes many of them durable. It is compared with one flush for each commit, with
// PostgreSQL's own grouping, and with that when it waits for more (`commit_delay`).
import { setTimeout as sleep } from "node:timers/promises";
import { cellsOf, compared } from "../rounds/figures.ts";
import type { Turn } from "../rounds/turns.ts";
import { type Bench, type Measurement, type Times, workloadOf } from "./bench.ts";
import { type Experiment, type Findings, NEAR_MS, rowOf } from "./experiment.ts";
import { bar } from "../rounds/bars.ts";
import { peakOf } from "./figures.ts";
import type { Way } from "./load/target.ts";
import { insertTable } from "./load/workload.ts";
import { DISK, type ExperimentSystem, LEVEL } from "./system.ts";

const TABLE = "groups_test";
const CLIENTS = [1, 32, 128] as const;
const RETRIES = 100;
const COMMIT_DELAY_US = 500;
/** An idle session reports its counters after 10 s at the latest (PGSTAT_IDLE_INTERVAL). */
const COUNTERS_S = 11;

/**
 * Level `disk` compares flushes of one disk; level `region` and a synchronous replica also wait for
 * a near region.
 */
const PLACES = {
  disk: { direct: "direct_local", linkMs: 0, level: DISK },
  region: { direct: "direct_on", linkMs: NEAR_MS, level: LEVEL },
} as const;

const [ONE, POSTGRES, DELAY, HIGHWATER] = [
  "one by one",
  "PostgreSQL groups",
  "PostgreSQL groups with commit_delay",
  "Highwater groups",
] as const;
const WAYS = [ONE, POSTGRES, DELAY, HIGHWATER] as const;

const rowAt = (name: string, clients: number): string => `${name}, ${String(clients)} clients`;

export const groups: Experiment = {
  name: "groups",
  settings: { clients: CLIENTS, retries: RETRIES, commitDelayUs: COMMIT_DELAY_US },
  prepare: (system) => system.createTables(insertTable(TABLE), [TABLE]),
  measurements: () =>
    (["disk", "region"] as const).flatMap((place) =>
      CLIENTS.flatMap((clients) =>
        // Below `commit_siblings` nothing is delayed.
        WAYS.filter((name) => name !== DELAY || clients > 1).map((name) => measurement(name, place, clients)),
      ),
    ),
  measure: countingFlushes,
  judge,
};

function measurement(name: (typeof WAYS)[number], place: keyof typeof PLACES, clients: number): Measurement {
  const { direct, linkMs, level } = PLACES[place];
  /** A middleware that has to keep the order of commits has one connection, and waits for each. */
  const way: Way = name === HIGHWATER ? "safe" : direct;
  return rowOf(
    rowAt(name, clients),
    {
      way,
      workload: { kind: "insert", table: TABLE },
      isolation: "read committed",
      clients,
      retries: RETRIES,
      ...(name === ONE && { connections: 1 }),
    },
    {
      conditions: { place },
      labels: { name: `${name}, ${place}`, clients },
      linkMs,
      level,
      ...(name === DELAY && { commitDelayUs: COMMIT_DELAY_US }),
      ...(name === HIGHWATER && { behindS: COUNTERS_S }),
    },
  );
}

/** Without a warm-up: flushes are counted for everything that ran. */
async function countingFlushes(
  bench: Bench,
  measured: Measurement,
  times: Times,
): ReturnType<Bench["measure"]> {
  const [flushesBefore, commitsBefore] = [await flushCount(bench.system), await rowCount(bench.system)];
  const { figures, machine } = await bench.measure(measured, times);
  const commits = (await rowCount(bench.system)) - commitsBefore;
  // Sessions that end report their counters; those of the gateway go on.
  await sleep(1_000 * (measured.behindS ?? 0));
  const flushes = (await flushCount(bench.system)) - flushesBefore;
  return { figures: { ...figures, flushes: flushes / commits }, machine };
}

/** Calls of fsync (or what stands for it) on the log, by all processes of the primary. */
async function flushCount(system: ExperimentSystem): Promise<number> {
  const sql = "SELECT coalesce(sum(fsyncs), 0)::text AS flushes FROM pg_stat_io WHERE object = 'wal'";
  return Number((await system.query(sql))[0]?.["flushes"]);
}

async function rowCount(system: ExperimentSystem): Promise<number> {
  return Number((await system.query(`SELECT count(*)::text AS total FROM ${TABLE}`))[0]?.["total"]);
}

/** Each way at the number of clients at which it does most. */
function judge(turns: readonly Turn[]): Findings {
  const cells = cellsOf(turns);
  const found = (["disk", "region"] as const).map((place) => {
    const workload = workloadOf({ place });
    const rows = (...names: readonly string[]): string[] =>
      names.flatMap((name) => CLIENTS.map((clients) => rowAt(name, clients)));
    const peak = (way: string, ...names: readonly string[]) =>
      peakOf(cells, workload, { way, rows: rows(...names) });
    const peaks = [...WAYS.map((name) => peak(name, name)), peak("PostgreSQL's best", POSTGRES, DELAY)];
    const times = (of: string, to: string): number => {
      const [one, other] = [of, to].map((name) => peaks.find(({ way }) => way === name)?.row ?? "");
      return compared(turns, { workload, of: one ?? "", to: other ?? "", figure: "per_second" });
    };
    const ratios = [
      [HIGHWATER, ONE],
      [POSTGRES, ONE],
      [HIGHWATER, "PostgreSQL's best"],
    ].map(([of = "", to = ""]) => [`peak of "${of}" to "${to}", ${place}`, times(of, to)] as const);
    return { place, peaks, ratios, toBest: times(HIGHWATER, "PostgreSQL's best") };
  });
  return {
    peaks: found.flatMap(({ peaks }) => peaks),
    ratios: Object.fromEntries(found.flatMap(({ ratios }) => ratios)),
    bars: found.map(({ place, toBest }) =>
      bar(`${place}: peak of Highwater's groups at least that of PostgreSQL's own`, toBest, { min: 1 }),
    ),
  };
}
