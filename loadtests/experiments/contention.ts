// Experiment 3, contention (thesis figures 4.4 to 4.6, paper figure 8): many clients on a few rows.
// A commit that waits for a replica with its locks held makes all others that want the row wait,
// and then aborts them; here nothing is held behind the commit point. Each way is compared at the
// load at which it does most: a synchronous commit is offered less, too, and gets pools.
import type { Isolation } from "@highwater/protocol";
import { cellsOf, compared, middleOf } from "../rounds/figures.ts";
import type { Turn } from "../rounds/turns.ts";
import { type Labels, type Measurement, workloadOf } from "./bench.ts";
import { type Experiment, type Findings, NEAR_MS, rowOf, ZONE_MS } from "./experiment.ts";
import { bar } from "../rounds/bars.ts";
import { type Peak, peakOf } from "./figures.ts";
import type { Way } from "./load/target.ts";
import { keyValueTable, type Rows } from "./load/workload.ts";

const CLIENTS = 128;
/** As in the papers: pgbench's --max-tries of six. */
const RETRIES = 5;
const SKEWED: Rows = { table: "contention_skewed", rows: 250 };
const UNIFORM: Rows = { table: "contention_uniform", rows: 256 };
/** A twentieth of 250: at a contention of 0.95, 95% of the updates are of 12 rows. */
const HOT_ROWS = 12;
const WORST = 0.95;
const LEVELS = [0.5, 0.8, WORST] as const;
const ISOLATIONS = ["serializable", "repeatable read"] as const;
/** As fast as they are answered. */
const ALL = 0;
/** The gateway has a pool of 16 sessions, and lets quick transactions share two of them. */
const POOLS = [2, 16] as const;
const PGBOUNCER_POOLS = [8, 64] as const;

const BARS = {
  skewedMin: 10,
  uniformMin: 2,
  zoneMin: 1,
  safeToFastMin: 0.9,
  fastToOffMin: 0.8,
  failedShareMax: 0.05,
  fastCpuUsMax: 165,
  safeCpuUsMax: 215,
};

/** A way under a load: transactions offered in a second, and the connections of its pool. */
interface Load {
  readonly way: Way;
  readonly offered: number;
  readonly connections?: number;
}

type Pattern = "uniform" | number;

/** The pattern is a contention level, or uniform. */
const at = (pattern: Pattern, linkMs: number, isolation: Isolation = "serializable") => ({
  pattern: pattern === "uniform" ? pattern : `contention ${pattern.toFixed(2)}`,
  isolation,
  link_ms: linkMs,
});

function nameOf({ way, offered, connections }: Load): string {
  const pool = connections === undefined ? "" : ` of ${String(connections)}`;
  return `${way}${pool}, ${offered === ALL ? "all" : `${String(offered)}/s`}`;
}

const open = (way: Way, ...rates: readonly number[]): Load[] => rates.map((offered) => ({ way, offered }));
const pooled: readonly Load[] = [
  ...POOLS.map((connections): Load => ({ way: "pooled_on", offered: ALL, connections })),
  ...PGBOUNCER_POOLS.map((connections): Load => ({ way: "pgbouncer_on", offered: ALL, connections })),
];
const NEAR_LOADS: readonly Load[] = [
  ...open("fast", 4_000, ALL),
  ...open("safe", 2_000, ALL),
  ...open("sdk_fast", ALL),
  ...open("sdk_safe", ALL),
  ...open("direct_off", ALL),
  ...open("direct_on", 500, 1_000, 2_000, 4_000, ALL),
  ...pooled,
];
const ZONE_LOADS: readonly Load[] = [
  ...open("fast", ALL),
  ...open("safe", 4_000, ALL),
  ...open("direct_off", ALL),
  ...open("direct_on", 1_000, 2_000, 4_000, ALL),
  ...pooled,
];
/** Abort rates; the worst level is among the peaks. */
const CURVE_LOADS: readonly Load[] = [
  ...open("safe", ALL),
  ...open("direct_on", ALL),
  { way: "pooled_on", offered: ALL, connections: 16 },
];
const [PEAKS, CURVE] = [
  [
    { pattern: WORST, linkMs: NEAR_MS, loads: NEAR_LOADS },
    { pattern: "uniform", linkMs: NEAR_MS, loads: NEAR_LOADS },
    { pattern: WORST, linkMs: ZONE_MS, loads: ZONE_LOADS },
    { pattern: "uniform", linkMs: ZONE_MS, loads: ZONE_LOADS },
  ] as const,
  ISOLATIONS.flatMap((isolation) =>
    LEVELS.filter((level) => level !== WORST || isolation !== "serializable").map((level) => ({
      level,
      isolation,
    })),
  ),
];
/** At the near link, by the pattern. */
const HEADLINES = new Map<Pattern, readonly string[]>([
  [WORST, [...open("safe", ALL), ...open("direct_on", 1_000)].map(nameOf)],
  ["uniform", [...open("safe", ALL), ...open("direct_on", ALL)].map(nameOf)],
]);

export const contention: Experiment = {
  name: "contention",
  settings: { clients: CLIENTS, retries: RETRIES, hotRows: HOT_ROWS, levels: LEVELS, isolations: ISOLATIONS },
  async prepare(system) {
    for (const { table, rows } of [SKEWED, UNIFORM])
      await system.createTables(keyValueTable(table, rows), [table]);
  },
  measurements: () => [
    ...PEAKS.flatMap(({ pattern, linkMs, loads }) =>
      loads.map((load) => measurement(load, at(pattern, linkMs), { pattern, linkMs })),
    ),
    ...CURVE.flatMap(({ level, isolation }) =>
      CURVE_LOADS.map((load) =>
        measurement(load, at(level, NEAR_MS, isolation), { pattern: level, linkMs: NEAR_MS, isolation }),
      ),
    ),
  ],
  judge,
};

function measurement(
  load: Load,
  conditions: Labels,
  {
    pattern,
    linkMs,
    isolation = "serializable",
  }: { readonly pattern: Pattern; readonly linkMs: number; readonly isolation?: Isolation },
): Measurement {
  const { way, offered, connections } = load;
  const rows = pattern === "uniform" ? UNIFORM : { ...SKEWED, hot: { share: pattern, rows: HOT_ROWS } };
  return rowOf(
    nameOf(load),
    {
      way,
      workload: { kind: "update", ...rows },
      isolation,
      clients: CLIENTS,
      retries: RETRIES,
      ...(offered !== ALL && { perSecond: offered }),
      ...(connections !== undefined && { connections }),
    },
    {
      conditions,
      linkMs,
      labels: { offered, ...(pattern !== "uniform" && { contention: pattern }) },
      isHeadline:
        linkMs === NEAR_MS &&
        isolation === "serializable" &&
        HEADLINES.get(pattern)?.includes(nameOf(load)) === true,
    },
  );
}

function judge(turns: readonly Turn[]): Findings {
  const cells = cellsOf(turns);
  const peaksAt = ({ pattern, linkMs, loads }: (typeof PEAKS)[number]): Record<string, Peak> => {
    const workload = workloadOf(at(pattern, linkMs));
    const best = (name: string, isOf: (load: Load) => boolean): [string, Peak] => [
      name,
      peakOf(cells, workload, { way: name, rows: loads.filter(isOf).map(nameOf) }),
    ];
    return Object.fromEntries([
      ...[...new Set(loads.map(({ way }) => way))].map((name) => best(name, ({ way }) => way === name)),
      best("the best of PostgreSQL, on", ({ way }) => /_on$/.test(way)),
    ]);
  };
  const peaks = PEAKS.map(peaksAt);
  /** Peak against peak, within each round. */
  const times = (where: Record<string, Peak> | undefined, of: string, to: string): number => {
    const [one, other] = [where?.[of], where?.[to]];
    if (one === undefined || other === undefined) return Number.NaN;
    return compared(turns, { workload: one.workload, of: one.row, to: other.row, figure: "per_second" });
  };
  const best = "the best of PostgreSQL, on";
  const names = ["0.95, 16 ms", "uniform, 16 ms", "0.95, 1 ms", "uniform, 1 ms"];
  const peakRatios = names.flatMap((name, where) =>
    [
      ["safe", best],
      ["safe", "direct_on"],
      ["safe", "pooled_on"],
      ["safe", "pgbouncer_on"],
      ["fast", "direct_off"],
      ["safe", "fast"],
      ["sdk_safe", "safe"],
      ["sdk_fast", "fast"],
    ].flatMap(([of = "", to = ""]) =>
      peaks[where]?.[of] === undefined || peaks[where][to] === undefined
        ? []
        : [[`peak of ${of} to ${to}, ${name}`, times(peaks[where], of, to)] as const],
    ),
  );
  const failed = [...CURVE, { level: WORST, isolation: "serializable" as const }].map((each) => {
    const { level, isolation } = each;
    const [safe, on, pool] = CURVE_LOADS.map(nameOf) as [string, string, string];
    const share = (to: string): number =>
      compared(turns, {
        workload: workloadOf(at(level, NEAR_MS, isolation)),
        of: safe,
        to,
        figure: "failed_tries",
      });
    return { name: `${isolation}, ${level.toFixed(2)}`, toOn: share(on), toPool: share(pool) };
  });
  const [hot, uniform, , zone] = peaks;
  const cpu = (way: Way): number =>
    middleOf(
      turns,
      { workload: workloadOf(at(WORST, NEAR_MS)), row: nameOf({ way, offered: ALL }) },
      ({ figures, machine: { cores } }) =>
        (1e6 *
          ["gateway", "tracker", "primary", "replica"].reduce((sum, part) => sum + (cores[part] ?? 0), 0)) /
        (figures["per_second"] ?? Number.NaN),
    );
  const { skewedMin, uniformMin, zoneMin, safeToFastMin, fastToOffMin, failedShareMax } = BARS;
  const [fastUs, safeUs] = [cpu("fast"), cpu("safe")];
  const givenUp = middleOf(
    turns,
    { workload: workloadOf(at(WORST, NEAR_MS)), row: nameOf({ way: "safe", offered: ALL }) },
    ({ figures }) => figures["given_up"] ?? Number.NaN,
  );
  return {
    peaks: peaks.flatMap((where) => Object.values(where)),
    ratios: {
      ...Object.fromEntries(peakRatios),
      ...Object.fromEntries(
        failed.flatMap(({ name, toOn, toPool }) => [
          [`failed tries of safe to a synchronous commit, ${name}`, toOn],
          [`failed tries of safe to a synchronous commit behind a pool of 16, ${name}`, toPool],
        ]),
      ),
      "processor of a fast transaction without its client, µs": fastUs,
      "processor of a safe transaction without its client, µs": safeUs,
    },
    bars: [
      bar(
        `0.95, 16 ms: peak of safe at least ${String(skewedMin)} times the best of PostgreSQL, on`,
        times(hot, "safe", best),
        { min: skewedMin },
      ),
      bar(
        `uniform, 16 ms: peak of safe at least ${String(uniformMin)} times the best of PostgreSQL, on`,
        times(uniform, "safe", best),
        { min: uniformMin },
      ),
      bar(
        `uniform, 1 ms: peak of safe at least ${String(zoneMin)} times the best of PostgreSQL, on`,
        times(zone, "safe", best),
        { min: zoneMin },
      ),
      ...(["0.95", "uniform"] as const).flatMap((name, where) => [
        bar(
          `${name}, 16 ms: peak of safe at least ${String(safeToFastMin)} of fast`,
          times(peaks[where], "safe", "fast"),
          { min: safeToFastMin },
        ),
        bar(
          `${name}, 16 ms: peak of fast at least ${String(fastToOffMin)} of an asynchronous commit`,
          times(peaks[where], "fast", "direct_off"),
          { min: fastToOffMin },
        ),
      ]),
      ...failed.map(({ name, toOn }) =>
        bar(`${name}: failed tries of safe at most a twentieth of a synchronous commit's share`, toOn, {
          max: failedShareMax,
        }),
      ),
      bar("0.95, 16 ms: share of safe transactions that are given up at most 0", givenUp, { max: 0 }),
      bar(`fast: at most ${String(BARS.fastCpuUsMax)} µs of processor without the client`, fastUs, {
        max: BARS.fastCpuUsMax,
      }),
      bar(`safe: at most ${String(BARS.safeCpuUsMax)} µs of processor without the client`, safeUs, {
        max: BARS.safeCpuUsMax,
      }),
    ],
  };
}
