// Experiment 4, TPC-C (thesis figures 4.7 and 4.8, paper figure 9): all transactions safe, then new
// orders fast. It measures the gain of an application that decides for each transaction whether it
// can afford to lose it.
import type { Measurement, Sample } from "./bench.ts";
import { type Context, type Experiment, LINKS_MS, measureInRounds, NEAR_MS, sized } from "./experiment.ts";
import { bar, pointsOf, ratioOf, type Result } from "./figures.ts";
import type { Subject } from "./load/target.ts";
import type { ExperimentSystem } from "./system.ts";
import { CONDITIONS, loadedCondition, type Condition } from "./tpcc/consistency.ts";
import { loadDatabase } from "./tpcc/load.ts";
import { FULL_SCALE, type Scale, UNDELIVERED_SHARE } from "./tpcc/random.ts";
import { TABLES } from "./tpcc/schema.ts";
import { KINDS } from "./tpcc/transactions.ts";

const SEED = 20_261_121;
const NEW_ORDER_MAX = 0.26;
const RETRIES = 20;

interface Sizes {
  readonly rounds: number;
  readonly seconds: number;
  readonly terminals: number;
  readonly scale: Scale;
  /** Transactions offered per second; 0: as fast as they are answered. */
  readonly offered: readonly number[];
  readonly linksMs: readonly number[];
}

const CONFIGURATIONS = {
  "all safe": { subject: "safe", newOrderFast: false },
  "new orders fast": { subject: "safe", newOrderFast: true },
  "PostgreSQL, on": { subject: "direct_on", newOrderFast: false },
  "PostgreSQL, off": { subject: "direct_off", newOrderFast: false },
} as const satisfies Record<string, { readonly subject: Subject; readonly newOrderFast: boolean }>;
type Configuration = keyof typeof CONFIGURATIONS;

export const tpcc: Experiment = {
  name: "tpcc",
  // Interactive transactions hold a session each.
  gatewayEnv: { GATEWAY_POOL_SIZE: "32", GATEWAY_MAX_OPEN_PER_KEY: "64" },
  async run(context) {
    const sizes: Sizes = sized(context.mode, {
      quick: {
        rounds: 1,
        seconds: 6,
        terminals: 16,
        offered: [50, 0],
        linksMs: [NEAR_MS],
        scale: { warehouses: 4, items: 10_000, customersPerDistrict: 150 },
      },
      full: {
        rounds: 2,
        seconds: 10,
        terminals: 16,
        offered: [50, 0],
        linksMs: [...LINKS_MS],
        scale: { warehouses: 4, ...FULL_SCALE },
      },
    });
    const { system } = context.bench;
    context.say("loading the database");
    await loadDatabase(await system.adminUrl(), sizes.scale, SEED);
    await system.createTables([], TABLES);
    const delivered = sizes.scale.customersPerDistrict * (1 - UNDELIVERED_SHARE);
    await checkConsistency(system, [...CONDITIONS, loadedCondition(Math.round(delivered))]);
    const samples = await measureInRounds(context, sizes.rounds, measurements(sizes), () =>
      checkConsistency(system, CONDITIONS),
    );
    return resultOf(context, sizes, samples);
  },
};

function measurements(sizes: Sizes): Omit<Measurement, "round">[] {
  return sizes.linksMs.flatMap((linkMs) =>
    sizes.offered.flatMap((offered) =>
      Object.entries(CONFIGURATIONS).map(([configuration, { subject, newOrderFast }]) => ({
        labels: { configuration, offered, link_ms: linkMs },
        linkMs,
        groups: [
          {
            name: configuration,
            subject,
            isolation: "serializable" as const,
            workload: { kind: "tpcc" as const, scale: sizes.scale, newOrderFast },
            clients: sizes.terminals,
            retries: RETRIES,
            ...(offered > 0 && { perSecond: offered }),
          },
        ],
        warmUpMs: 2_000,
        durationMs: 1_000 * sizes.seconds,
      })),
    ),
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

function resultOf({ mode }: Context, sizes: Sizes, samples: readonly Sample[]): Result {
  const mean = ({ meanMs }: Sample): number | null => meanMs;
  const rate = ({ perSecond }: Sample): number => perSecond;
  const chosen = (configuration: Configuration, kind: string, offered: number, linkMs: number = NEAR_MS) => ({
    subject: CONFIGURATIONS[configuration].subject,
    kind,
    labels: { configuration, offered, link_ms: linkMs },
  });
  const [steady = 0] = sizes.offered;
  const newOrderAt = (linkMs: number): number =>
    ratioOf(
      samples,
      {
        of: chosen("new orders fast", "new_order", steady, linkMs),
        to: chosen("all safe", "new_order", steady, linkMs),
      },
      mean,
    );
  const perKind = KINDS.flatMap((kind) => {
    const fast = (offered: number) => chosen("new orders fast", kind, offered);
    const safe = (offered: number) => chosen("all safe", kind, offered);
    return [
      [
        `mean latency of ${kind} with new orders fast to all safe`,
        ratioOf(samples, { of: fast(steady), to: safe(steady) }, mean),
      ],
      [
        `throughput of ${kind} with new orders fast to all safe`,
        ratioOf(samples, { of: fast(0), to: safe(0) }, rate),
      ],
      [
        `throughput of ${kind}, all safe, to PostgreSQL with a synchronous commit`,
        ratioOf(samples, { of: safe(0), to: chosen("PostgreSQL, on", kind, 0) }, rate),
      ],
    ] as const;
  });
  return {
    experiment: tpcc.name,
    mode,
    settings: { ...sizes, seed: SEED, retries: RETRIES },
    points: pointsOf(samples),
    ratios: {
      ...Object.fromEntries(
        sizes.linksMs.map((linkMs) => [
          `mean latency of new_order, fast to safe, ${String(linkMs)} ms`,
          newOrderAt(linkMs),
        ]),
      ),
      ...Object.fromEntries(perKind),
    },
    bars: [
      bar("new orders take at most 26% of the time when fast, 16 ms", newOrderAt(NEAR_MS), {
        max: NEW_ORDER_MAX,
      }),
    ],
  };
}
