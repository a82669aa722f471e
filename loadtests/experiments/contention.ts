// Experiment 3, contention (thesis figures 4.4 to 4.6, paper figure 8): many clients on a few rows.
// A commit that waits for a replica with its locks held makes all others that want the row wait,
// and then aborts them; here nothing is held behind the commit point.
import type { Isolation } from "@highwater/protocol";
import type { Measurement, Sample } from "./bench.ts";
import { type Context, type Experiment, LINKS_MS, measureInRounds, NEAR_MS, sized } from "./experiment.ts";
import { abortsPerTransaction, bar, givenUpShare, pointsOf, ratioOf, type Result } from "./figures.ts";
import type { Subject } from "./load/target.ts";
import { type Rows, keyValueTable } from "./load/workload.ts";

const CLIENTS = 128;
/** As in the papers: pgbench's --max-tries of six. */
const RETRIES = 5;
/**
 * `direct_local` holds its locks while it waits for its own disk, and says nothing about replicas;
 * the figures leave it out, too.
 */
const COMPARED = ["fast", "safe", "direct_off", "direct_on"] as const satisfies readonly Subject[];

const SKEWED: Rows = { table: "contention_skewed", rows: 250 };
const UNIFORM: Rows = { table: "contention_uniform", rows: 256 };
/** A twentieth of 250: at a contention of 0.95, 95% of the updates are of 12 rows. */
const HOT_ROWS = 12;
const WORST = 0.95;

const BARS = { skewedMin: 8, safeToFastMin: 0.9, uniformMin: 2, abortsShareMax: 0.05 };

interface Sizes {
  readonly rounds: number;
  readonly seconds: number;
  readonly levels: readonly number[];
  readonly isolations: readonly Isolation[];
  readonly linksMs: readonly number[];
  /** Transactions offered in a second. */
  readonly offered: readonly number[];
}

const rowsAt = (level: number): Rows => ({ ...SKEWED, hot: { share: level, rows: HOT_ROWS } });

export const contention: Experiment = {
  name: "contention",
  async run(context) {
    const isolations = ["serializable", "repeatable read"] as const;
    const sizes: Sizes = sized(context.mode, {
      quick: {
        rounds: 1,
        seconds: 3,
        levels: [0.5, WORST],
        isolations,
        linksMs: [NEAR_MS],
        offered: [2_000],
      },
      full: {
        rounds: 3,
        seconds: 3,
        levels: [0.5, 0.6, 0.7, 0.8, 0.9, WORST],
        isolations,
        linksMs: [...LINKS_MS],
        offered: [500, 1_000, 2_000, 3_000, 4_000, 6_000, 8_000],
      },
    });
    const { system } = context.bench;
    await system.createTables(keyValueTable(SKEWED.table, SKEWED.rows), [SKEWED.table]);
    await system.createTables(keyValueTable(UNIFORM.table, UNIFORM.rows), [UNIFORM.table]);
    const closed = await measureInRounds(context, sizes.rounds, closedLoop(sizes));
    // A curve over many rates needs no rounds: what disturbs one of its points shows beside its
    // neighbours.
    const offered = await measureInRounds(context, 1, offeredRates(sizes));
    const samples = [...closed, ...offered];
    return resultOf(context, sizes, samples);
  },
};

type Case = {
  readonly pattern: "skewed" | "uniform";
  readonly contention: number;
  readonly isolation: Isolation;
  readonly linkMs: number;
  /** 0: as fast as they are answered. */
  readonly offered: number;
};

function measurementsOf(sizes: Sizes, { pattern, contention: level, isolation, linkMs, offered }: Case) {
  const rows = pattern === "uniform" ? UNIFORM : rowsAt(level);
  return COMPARED.map((subject): Omit<Measurement, "round"> => ({
    labels: { pattern, contention: level, isolation, link_ms: linkMs, offered },
    linkMs,
    groups: [
      {
        name: subject,
        subject,
        workload: { kind: "update", ...rows },
        isolation,
        clients: CLIENTS,
        retries: RETRIES,
        ...(offered > 0 && { perSecond: offered }),
      },
    ],
    warmUpMs: 1_000,
    durationMs: 1_000 * sizes.seconds,
  }));
}

/** Abort rates at each contention level, and the highest throughput. */
function closedLoop(sizes: Sizes): Omit<Measurement, "round">[] {
  const both = { isolation: "serializable", offered: 0 } as const;
  const curve = sizes.isolations.flatMap((isolation) =>
    sizes.levels.map((level): Case => ({
      ...both,
      pattern: "skewed",
      contention: level,
      isolation,
      linkMs: NEAR_MS,
    })),
  );
  const otherLinks = sizes.linksMs
    .filter((linkMs) => linkMs !== NEAR_MS)
    .map((linkMs): Case => ({ ...both, pattern: "skewed", contention: WORST, linkMs }));
  const uniform = sizes.linksMs.map((linkMs): Case => ({
    ...both,
    pattern: "uniform",
    contention: 0,
    linkMs,
  }));
  return [...curve, ...otherLinks, ...uniform].flatMap((each) => measurementsOf(sizes, each));
}

/** Throughput while ever more is offered. */
function offeredRates(sizes: Sizes): Omit<Measurement, "round">[] {
  const both = { isolation: "serializable", linkMs: NEAR_MS } as const;
  return sizes.offered.flatMap((offered) => [
    ...measurementsOf(sizes, { ...both, pattern: "skewed", contention: WORST, offered }),
    ...measurementsOf(sizes, { ...both, pattern: "uniform", contention: 0, offered }),
  ]);
}

function resultOf({ mode }: Context, sizes: Sizes, samples: readonly Sample[]): Result {
  const rate = ({ perSecond }: Sample): number => perSecond;
  const at = (pattern: Case["pattern"], level: number, isolation: Isolation = "serializable") => ({
    labels: { pattern, contention: level, isolation, link_ms: NEAR_MS, offered: 0 },
  });
  const against = (of: Subject, to: Subject, point: ReturnType<typeof at>, value = rate): number =>
    ratioOf(samples, { of: { subject: of, ...point }, to: { subject: to, ...point } }, value);
  const [worst, uniform] = [at("skewed", WORST), at("uniform", 0)];
  const levels = sizes.isolations.flatMap((isolation) => sizes.levels.map((level) => ({ level, isolation })));
  const aborts = levels.map(({ level, isolation }) => ({
    level,
    isolation,
    aborts: against("safe", "direct_on", at("skewed", level, isolation), abortsPerTransaction),
    givenUp: against("safe", "direct_on", at("skewed", level, isolation), givenUpShare),
  }));
  const { skewedMin, safeToFastMin, uniformMin, abortsShareMax } = BARS;
  const text = (value: number): string => value.toFixed(2);
  return {
    experiment: contention.name,
    mode,
    settings: { ...sizes, clients: CLIENTS, retries: RETRIES },
    points: pointsOf(samples),
    ratios: {
      "throughput of safe to a synchronous commit, 0.95": against("safe", "direct_on", worst),
      "throughput of safe to a synchronous commit, uniform": against("safe", "direct_on", uniform),
      "throughput of fast to an asynchronous commit, 0.95": against("fast", "direct_off", worst),
      "throughput of fast to an asynchronous commit, uniform": against("fast", "direct_off", uniform),
      "throughput of safe to fast, 0.95": against("safe", "fast", worst),
      "throughput of safe to fast, uniform": against("safe", "fast", uniform),
      ...Object.fromEntries(
        aborts.flatMap(({ level, isolation, ...found }) => [
          [`aborts of safe to a synchronous commit, ${isolation}, ${text(level)}`, found.aborts],
          [`given up of safe to a synchronous commit, ${isolation}, ${text(level)}`, found.givenUp],
        ]),
      ),
    },
    bars: [
      bar(
        "0.95: safe throughput at least 8 times a synchronous commit's",
        against("safe", "direct_on", worst),
        {
          min: skewedMin,
        },
      ),
      bar(
        "0.95: fast throughput at least 8 times a synchronous commit's",
        against("fast", "direct_on", worst),
        {
          min: skewedMin,
        },
      ),
      bar("0.95: safe throughput at least 0.9 of fast", against("safe", "fast", worst), {
        min: safeToFastMin,
      }),
      bar(
        "uniform: safe throughput at least 2 times a synchronous commit's",
        against("safe", "direct_on", uniform),
        {
          min: uniformMin,
        },
      ),
      ...aborts.map(({ level, isolation, aborts: share }) =>
        bar(
          `${isolation}, ${text(level)}: aborted attempts of safe at most a twentieth of a synchronous commit's`,
          share,
          { max: abortsShareMax },
        ),
      ),
      ...aborts
        // Where neither side gave anything up there is nothing to compare.
        .filter(({ givenUp }) => !Number.isNaN(givenUp))
        .map(({ level, isolation, givenUp: share }) =>
          bar(
            `${isolation}, ${text(level)}: safe given up at most a twentieth of a synchronous commit's`,
            share,
            { max: abortsShareMax },
          ),
        ),
    ],
  };
}
