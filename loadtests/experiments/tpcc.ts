// Experiment 4, TPC-C (thesis figures 4.7 and 4.8, paper figure 9): all transactions safe, then new
// orders fast. It measures the gain of an application that decides for each transaction whether it
// can afford to lose it.
import { compared } from "../rounds/figures.ts";
import type { Turn } from "../rounds/turns.ts";
import { type Measurement, workloadOf } from "./bench.ts";
import { type Experiment, type Findings, LINKS_MS, type Mode, NEAR_MS, rowOf } from "./experiment.ts";
import { bar } from "../rounds/bars.ts";
import type { Way } from "./load/target.ts";
import type { ExperimentSystem } from "./system.ts";
import { CONDITIONS, loadedCondition, type Condition } from "./tpcc/consistency.ts";
import { loadDatabase } from "./tpcc/load.ts";
import { FULL_SCALE, type Scale, UNDELIVERED_SHARE } from "./tpcc/random.ts";
import { TABLES } from "./tpcc/schema.ts";
import { KINDS } from "./tpcc/transactions.ts";

const SEED = 20_261_121;
const RETRIES = 20;
const TERMINALS = 16;
const SCALES: Readonly<Record<Mode, Scale>> = {
  quick: { warehouses: 4, items: 10_000, customersPerDistrict: 150 },
  full: { warehouses: 4, ...FULL_SCALE },
};
/** Transactions offered in a second; 0: as fast as they are answered. */
export const STEADY = 50;
const ALL = 0;
const BARS = { newOrderMax: 0.25, throughputMin: 1.2, baselineMin: 1 };

interface Configuration {
  readonly way: Way;
  readonly newOrderFast: boolean;
  readonly pipelined?: boolean;
}

const [SAFE, FAST, ON, PIPELINED] = [
  "all safe",
  "new orders fast",
  "PostgreSQL, on",
  "PostgreSQL, on, pipelined",
] as const;
const CONFIGURATIONS: Readonly<Record<string, Configuration>> = {
  [SAFE]: { way: "safe", newOrderFast: false },
  [FAST]: { way: "safe", newOrderFast: true },
  [ON]: { way: "direct_on", newOrderFast: false },
  [PIPELINED]: { way: "direct_on", newOrderFast: false, pipelined: true },
  "PostgreSQL, off": { way: "direct_off", newOrderFast: false },
};
const HEADLINES: ReadonlySet<string> = new Set([SAFE, FAST]);

const at = (linkMs: number, offered: number) => ({ offered, link_ms: linkMs });

export const tpcc: Experiment = {
  name: "tpcc",
  // Interactive transactions hold a session each.
  gatewayEnv: { GATEWAY_POOL_SIZE: "32", GATEWAY_MAX_OPEN_PER_KEY: "64" },
  settings: { scales: SCALES, terminals: TERMINALS, seed: SEED, retries: RETRIES },
  async prepare(system, mode) {
    const scale = SCALES[mode];
    await loadDatabase(await system.adminUrl(), scale, SEED);
    await system.createTables([], TABLES);
    const delivered = scale.customersPerDistrict * (1 - UNDELIVERED_SHARE);
    await checkConsistency(system, [...CONDITIONS, loadedCondition(Math.round(delivered))]);
  },
  measurements: (mode) => [
    ...[STEADY, ALL].flatMap((offered) =>
      Object.keys(CONFIGURATIONS).map((name) => measurement(name, mode, { linkMs: NEAR_MS, offered })),
    ),
    ...LINKS_MS.filter((linkMs) => linkMs !== NEAR_MS).flatMap((linkMs) =>
      [SAFE, FAST, PIPELINED].map((name) => measurement(name, mode, { linkMs, offered: STEADY })),
    ),
  ],
  check: (system) => checkConsistency(system, CONDITIONS),
  judge,
};

function measurement(
  configuration: string,
  mode: Mode,
  { linkMs, offered }: { readonly linkMs: number; readonly offered: number },
): Measurement {
  const { way, ...how } = CONFIGURATIONS[configuration] ?? { way: "safe", newOrderFast: false };
  return rowOf(
    configuration,
    {
      way,
      workload: { kind: "tpcc", scale: SCALES[mode], ...how },
      clients: TERMINALS,
      retries: RETRIES,
      ...(offered !== ALL && { perSecond: offered }),
    },
    {
      conditions: at(linkMs, offered),
      linkMs,
      labels: { configuration },
      isHeadline: offered === ALL && HEADLINES.has(configuration),
    },
  );
}

/** Errors: one that names the condition and the number of its violations. */
export async function checkConsistency(
  system: ExperimentSystem,
  conditions: readonly Condition[],
): Promise<void> {
  for (const { clause, violations } of conditions) {
    const [row] = await system.query(violations);
    const count = Number(Object.values(row ?? {})[0]);
    if (count !== 0) throw new Error(`TPC-C 3.3.2.${String(clause)} is violated ${String(count)} times`);
  }
}

function judge(turns: readonly Turn[]): Findings {
  const times = (of: string, to: string, figure: string, { linkMs = NEAR_MS, offered = ALL } = {}): number =>
    compared(turns, { workload: workloadOf(at(linkMs, offered)), of, to, figure });
  const steady = { offered: STEADY };
  const newOrder = (linkMs: number): number => times(FAST, SAFE, "new_order mean_ms", { linkMs, ...steady });
  const throughput = times(FAST, SAFE, "per_second");
  const perKind = KINDS.flatMap((kind) => [
    [
      `mean latency of ${kind} with new orders fast to all safe`,
      times(FAST, SAFE, `${kind} mean_ms`, steady),
    ] as const,
    [
      `throughput of ${kind} with new orders fast to all safe`,
      times(FAST, SAFE, `${kind} per_second`),
    ] as const,
  ]);
  return {
    ratios: {
      ...Object.fromEntries(
        LINKS_MS.map((linkMs) => [
          `mean latency of new_order, fast to safe, ${String(linkMs)} ms`,
          newOrder(linkMs),
        ]),
      ),
      ...Object.fromEntries(perKind),
      "throughput with new orders fast to all safe": throughput,
      ...Object.fromEntries(
        [ON, PIPELINED].flatMap((name) => [
          [`throughput of all safe to ${name}`, times(SAFE, name, "per_second")],
          [`throughput with new orders fast to ${name}`, times(FAST, name, "per_second")],
          [`mean latency of all safe to ${name}`, times(SAFE, name, "mean_ms", steady)],
          [
            `mean latency of new_order with new orders fast to ${name}`,
            times(FAST, name, "new_order mean_ms", steady),
          ],
        ]),
      ),
    },
    bars: [
      bar(
        `16 ms: mean latency of new orders when fast at most ${String(BARS.newOrderMax)} of all safe`,
        newOrder(NEAR_MS),
        { max: BARS.newOrderMax },
      ),
      bar(
        `16 ms: throughput with new orders fast at least ${String(BARS.throughputMin)} times all safe`,
        throughput,
        { min: BARS.throughputMin },
      ),
      bar(
        "16 ms: throughput with new orders fast at least that of PostgreSQL, on, pipelined",
        times(FAST, PIPELINED, "per_second"),
        { min: BARS.baselineMin },
      ),
    ],
  };
}
