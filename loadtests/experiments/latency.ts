// Experiment 1, latency by placement (thesis figures 1.1 and 4.1, paper figures 5 and 6): what a
// commit costs with its replica in another zone, in a near region and in a far one.
import type { Measurement, Sample } from "./bench.ts";
import { type Context, type Experiment, LINKS_MS, measureInRounds, NEAR_MS, sized } from "./experiment.ts";
import { bar, pointsOf, ratioOf, type Result } from "./figures.ts";
import { SUBJECTS, type Subject } from "./load/target.ts";
import type { Group } from "./load/worker.ts";
import { keyValueTable } from "./load/workload.ts";

const TABLE = "latency_test";
const FAST_SHARE_MAX = 1 / 15;
const SAFE_RATIO_MAX = 1.1;

/** `alone`: one client, as in paper figure 5. `together`: four at once, as in paper figure 6. */
type Part = "alone" | "together";

export const latency: Experiment = {
  name: "latency",
  async run(context) {
    const sizes = sized(context.mode, {
      quick: { rounds: 1, seconds: 4, rows: 100_000 },
      full: { rounds: 3, seconds: 5, rows: 1_000_000 },
    });
    await context.bench.system.createTables(keyValueTable(TABLE, sizes.rows), [TABLE]);
    const samples = await measureInRounds(context, sizes.rounds, measurements(sizes));
    return resultOf(context, sizes, samples);
  },
};

interface Sizes {
  readonly rounds: number;
  readonly seconds: number;
  readonly rows: number;
}

function measurements(sizes: Sizes): Omit<Measurement, "round">[] {
  const durations = { warmUpMs: 1_000, durationMs: 1_000 * sizes.seconds };
  const group = (subject: Subject, kind: "update" | "read", name: string = subject): Group => ({
    name,
    subject,
    workload: { kind, table: TABLE, rows: sizes.rows },
    isolation: "serializable",
    clients: 1,
    retries: 100,
  });
  const labels = (part: Part, linkMs: number): Record<string, string | number> => ({ part, link_ms: linkMs });
  return LINKS_MS.flatMap((linkMs) => [
    ...SUBJECTS.map((subject) => ({
      ...durations,
      labels: labels("alone", linkMs),
      linkMs,
      groups: [group(subject, "update")],
    })),
    {
      ...durations,
      labels: labels("together", linkMs),
      linkMs,
      groups: (["fast", "safe"] as const).flatMap((subject) => [
        group(subject, "update", `${subject} updates`),
        group(subject, "read", `${subject} reads`),
      ]),
    },
    {
      ...durations,
      labels: labels("together", linkMs),
      linkMs,
      // As many clients as on the other side: two that update and two that read.
      groups: [
        { ...group("direct_on", "update", "updates"), clients: 2 },
        { ...group("direct_on", "read", "reads"), clients: 2 },
      ],
    },
  ]);
}

function resultOf({ mode }: Context, settings: Sizes, samples: readonly Sample[]): Result {
  const p50 = ({ p50Ms }: Sample): number | null => p50Ms;
  const mean = ({ meanMs }: Sample): number | null => meanMs;
  const alone = (subject: Subject, linkMs: number) => ({
    subject,
    kind: "update",
    labels: { part: "alone", link_ms: linkMs },
  });
  const against = (of: Subject, to: Subject, linkMs: number, value = p50): number =>
    ratioOf(samples, { of: alone(of, linkMs), to: alone(to, linkMs) }, value);
  const reads = (subject: Subject) => ({
    subject,
    kind: "read",
    labels: { part: "together", link_ms: NEAR_MS },
  });
  const fast = against("fast", "direct_on", NEAR_MS);
  const safe = against("safe", "direct_on", NEAR_MS);
  const ratios = Object.fromEntries(
    LINKS_MS.flatMap((linkMs) => [
      [
        `mean of a synchronous commit to one that waits for nothing, ${String(linkMs)} ms`,
        against("direct_on", "direct_off", linkMs, mean),
      ],
      [`p50 of safe to a synchronous commit, ${String(linkMs)} ms`, against("safe", "direct_on", linkMs)],
      [`p50 of a synchronous commit to fast, ${String(linkMs)} ms`, against("direct_on", "fast", linkMs)],
    ]),
  );
  return {
    experiment: latency.name,
    mode,
    settings: { ...settings },
    points: pointsOf(samples),
    ratios: {
      ...ratios,
      "mean of safe to fast reads beside updates, 16 ms": ratioOf(
        samples,
        { of: reads("safe"), to: reads("fast") },
        mean,
      ),
    },
    bars: [
      bar("fast commit p50 at 16 ms at most a fifteenth of a synchronous commit's", fast, {
        max: FAST_SHARE_MAX,
      }),
      bar("safe commit p50 at 16 ms at most 1.1 times a synchronous commit's", safe, { max: SAFE_RATIO_MAX }),
    ],
  };
}
