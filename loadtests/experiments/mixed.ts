// Experiment 2, mixed workload (thesis figures 4.2 and 4.3): inserts at a fixed rate; a share of
// them is fast. Do fast ones stay as fast beside safe ones, and does the mean fall with their
// share?
import type { Measurement, Sample } from "./bench.ts";
import { type Experiment, LINKS_MS, measureInRounds, NEAR_MS, sized } from "./experiment.ts";
import { pointsOf, ratioOf, type Result } from "./figures.ts";
import type { Subject } from "./load/target.ts";
import type { Group } from "./load/worker.ts";
import { insertTable } from "./load/workload.ts";

const TABLE = "mixed_test";

interface Sizes {
  readonly rounds: number;
  readonly seconds: number;
  readonly perSecond: number;
  readonly clients: number;
  readonly shares: readonly number[];
  readonly linksMs: readonly number[];
}

export const mixed: Experiment = {
  name: "mixed",
  async run(context) {
    const both = { perSecond: 1_000, clients: 96 };
    const sizes: Sizes = sized(context.mode, {
      quick: { ...both, rounds: 1, seconds: 3, shares: [0, 0.5, 1], linksMs: [NEAR_MS] },
      full: {
        ...both,
        rounds: 2,
        seconds: 4,
        shares: [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1],
        linksMs: [...LINKS_MS],
      },
    });
    await context.bench.system.createTables(insertTable(TABLE), [TABLE]);
    const samples = await measureInRounds(context, sizes.rounds, measurements(sizes));
    const fast = (share: number) => ({
      subject: "fast",
      labels: { system: "highwater", share_fast: share, link_ms: NEAR_MS },
    });
    const mean = ({ meanMs }: Sample): number | null => meanMs;
    const result: Result = {
      experiment: mixed.name,
      mode: context.mode,
      settings: { ...sizes },
      points: [...pointsOf(samples), ...overall(samples)],
      ratios: {
        "mean of fast in a mix of halves to fast alone, 16 ms": ratioOf(
          samples,
          { of: fast(0.5), to: fast(1) },
          mean,
        ),
      },
      bars: [],
    };
    return result;
  },
};

function measurements(sizes: Sizes): Omit<Measurement, "round">[] {
  const { clients, perSecond, seconds } = sizes;
  const group = (subject: Subject, share: number): Group => ({
    name: subject,
    subject,
    workload: { kind: "insert", table: TABLE },
    isolation: "serializable",
    clients,
    perSecond: perSecond * share,
    retries: 100,
  });
  const systems = { highwater: ["fast", "safe"], postgresql: ["direct_off", "direct_on"] } as const;
  return sizes.linksMs.flatMap((linkMs) =>
    sizes.shares.flatMap((share) =>
      Object.entries(systems).map(([system, [fast, safe]]) => ({
        labels: { system, share_fast: share, link_ms: linkMs },
        linkMs,
        groups: [group(fast, share), group(safe, 1 - share)].filter((each) => each.perSecond !== 0),
        warmUpMs: 1_000,
        durationMs: 1_000 * seconds,
      })),
    ),
  );
}

/** Fast and safe ones together: the average for the application. */
function overall(samples: readonly Sample[]): Result["points"] {
  const mixes = new Map<string, Sample[]>();
  for (const sample of samples) {
    const key = JSON.stringify([sample.labels, sample.round]);
    mixes.set(key, [...(mixes.get(key) ?? []), sample]);
  }
  const joined = [...mixes.values()].flatMap((parts): Sample[] => {
    const [first] = parts;
    if (first === undefined) return [];
    const done = parts.reduce((sum, part) => sum + part.done, 0);
    const total = parts.reduce((sum, part) => sum + part.done * (part.meanMs ?? 0), 0);
    return [
      {
        ...first,
        subject: "all",
        group: "all",
        done,
        meanMs: total / done,
        // Quantiles of two groups are not those of their union.
        p50Ms: null,
        p95Ms: null,
        p99Ms: null,
        perSecond: parts.reduce((sum, part) => sum + part.perSecond, 0),
      },
    ];
  });
  return pointsOf(joined);
}
