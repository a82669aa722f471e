// The arithmetic of the experiments: what a window counts, when a transaction is given up, ratios within rounds, and the tables.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Turn } from "../rounds/turns.ts";
import { workloadOf } from "./bench.ts";
import { decisionTable, NOT_RUN } from "./decision.ts";
import { HEADLINES_MAX, plannedSeconds, RUN_S_MAX } from "./experiment.ts";
import { EXPERIMENTS } from "./experiments.ts";
import { bar } from "../rounds/bars.ts";
import { figuresOf } from "./figures.ts";
import { seeded } from "./load/random.ts";
import { Arrivals, runLoop } from "./load/run-group.ts";
import { type KindStats, Window } from "./load/window.ts";
import type { Attempt } from "./load/job.ts";
import { countOf, pickRow, statementOf } from "./load/workload.ts";

const STATS: KindStats = {
  ...{ done: 100, aborts: 300, givenUp: 25, perSecond: 10, meanMs: 4, p50Ms: 3, p95Ms: 8, p99Ms: 9 },
};
const KINDS = ["new_order", "payment", "order_status", "delivery", "stock_level"];
const PARTS = ["fast", "safe", "fast updates", "fast reads", "safe reads", "read at the replica", ...KINDS];
const machine = { seconds: 1, cores: { gateway: 0.001 }, foreign_cores: 0, steal: 0 };

/** As if everything had the same figures, and its parts had them, too. */
function turnsOf(experiment: (typeof EXPERIMENTS)[number]): Turn[] {
  const figures = { per_second: 10, mean_ms: 4, p50_ms: 4, failed_tries: 0.5, given_up: 0, flushes: 1 };
  const parts = PARTS.flatMap((part) =>
    Object.entries(figures).map(([name, value]) => [`${part} ${name}`, value] as const),
  );
  return experiment.measurements("full").map(({ conditions, row }) => ({
    ...{ workload: workloadOf(conditions), row, round: 1, refused: false, disturbed: false, machine },
    figures: { ...figures, ...Object.fromEntries(parts) },
  }));
}

test("the same seed draws the same rows, and the hot ones as often as the contention says", () => {
  const rows = { table: "t", rows: 250, hot: { share: 0.95, rows: 12 } };
  const draws = (seed: number): number[] => {
    const random = seeded(seed);
    return Array.from({ length: 20_000 }, () => pickRow(rows, random));
  };
  assert.deepEqual(draws(7), draws(7));
  assert.notDeepEqual(draws(7), draws(8));
  const hot = draws(7).filter((row) => row <= 12).length / 20_000;
  assert.ok(Math.abs(hot - 0.95) < 0.01, `hot: ${String(hot)}`);
  const uniform = new Set(
    Array.from(
      { length: 20_000 },
      (
        (random) => () =>
          pickRow({ table: "t", rows: 256 }, random)
      )(seeded(1)),
    ),
  );
  assert.deepEqual([Math.min(...uniform), Math.max(...uniform), uniform.size], [1, 256, 256]);
  assert.match(
    statementOf({ kind: "update", ...rows }, seeded(1)).sql,
    /^UPDATE t SET value = value \+ 1 WHERE key = \$1$/,
  );
  assert.equal(countOf({ kind: "read", ...rows }), null);
});

test("a window counts what ends in it, and nothing else", () => {
  const window = new Window(1_000, 2_000);
  for (const [atMs, tookMs] of [
    [999, 50],
    [1_000, 10],
    [1_500, 30],
    [2_000, 70],
  ] as const)
    window.done("update", atMs, tookMs);
  window.aborted("update", 1_200);
  window.aborted("update", 2_200);
  window.gaveUp("update", 500);
  const { update } = window.stats();
  assert.deepEqual(
    { done: update?.done, aborts: update?.aborts, givenUp: update?.givenUp, mean: update?.meanMs },
    { done: 2, aborts: 1, givenUp: 0, mean: 20 },
  );
  assert.equal(update?.perSecond, 2);
});

test("a transaction that conflicts runs again up to the limit, and then fails", async () => {
  for (const [conflicts, expected] of [
    [5, { done: 1, aborts: 5, givenUp: 0, committed: 1 }],
    [6, { done: 0, aborts: 6, givenUp: 1, committed: 0 }],
  ] as const) {
    const startedMs = performance.now();
    const window = new Window(startedMs, startedMs + 60_000);
    let untilMs = startedMs + 60_000;
    let attempts = 0;
    const attempt = (): Promise<Attempt> => {
      attempts++;
      // One transaction, and then the time is over.
      untilMs = 0;
      return Promise.resolve(attempts <= conflicts ? "conflict" : "committed");
    };
    const worker = { next: () => ({ kind: "update", attempt }), close: () => Promise.resolve() };
    const loop = {
      ...{ workers: [worker], window, retries: 5, perSecond: undefined, random: seeded(1) },
      get untilMs() {
        return untilMs;
      },
    };
    const committed = await runLoop(loop);
    const { done, aborts, givenUp } = window.stats()["update"] ?? { done: 0, aborts: 0, givenUp: 0 };
    assert.deepEqual({ done, aborts, givenUp, committed }, expected);
  }
});

test("an open loop starts transactions at its rate, and ends when its time is over even if more are due", async () => {
  const arrivals = new Arrivals(200, seeded(3), 0);
  const dues = Array.from({ length: 10_000 }, () => arrivals.due());
  const meanMs = (dues.at(-1) ?? 0) / 9_999;
  // Exponential distances: the mean of ten thousand is off by a hundredth of 5 ms, give or take.
  assert.ok(Math.abs(meanMs - 5) < 0.25, `mean: ${String(meanMs)}`);
  assert.ok(dues.every((due, at) => due >= (dues[at - 1] ?? 0)));
  const late = new Arrivals(1e6, seeded(3), 0);
  const untilMs = performance.now();
  assert.ok((await late.next(untilMs)) >= untilMs);
  assert.equal(await new Arrivals(1, seeded(3), 12).next(Infinity), 12);
});

test("what was not measured meets no bar", () => {
  assert.deepEqual(
    [bar("a", 8, { min: 8 }), bar("b", 7.9, { min: 8 }), bar("c", Number.NaN, { max: 1 })].map(
      ({ met }) => met,
    ),
    [true, false, false],
  );
});

test("a turn has the share of its tries that failed, and of its transactions that were given up", () => {
  const figures = figuresOf(
    { safe: { kinds: { update: STATS }, committedInAll: 0 } },
    { row: "safe", whole: undefined },
  );
  assert.deepEqual(figures, {
    ...{ per_second: 10, mean_ms: 4, p50_ms: 3, p95_ms: 8, p99_ms: 9, failed_tries: 0.75, given_up: 0.2 },
  });
});

test("several groups have figures of their own, and one of all together", () => {
  const slow = { ...STATS, done: 300, aborts: 0, givenUp: 0, meanMs: 8 };
  const groups = {
    fast: { kinds: { insert: STATS }, committedInAll: 0 },
    safe: { kinds: { insert: slow }, committedInAll: 0 },
  };
  const figures = figuresOf(groups, { row: "a mix", whole: undefined });
  assert.deepEqual([figures["per_second"], figures["mean_ms"], figures["p50_ms"]], [20, 7, undefined]);
  assert.deepEqual([figures["fast mean_ms"], figures["safe mean_ms"]], [4, 8]);
});

test("of a job with steps the job is counted, and each step beside it", () => {
  const kinds = { page: STATS, new_bid: { ...STATS, perSecond: 40, meanMs: 1 } };
  const figures = figuresOf({ designed: { kinds, committedInAll: 0 } }, { row: "designed", whole: "page" });
  assert.deepEqual([figures["per_second"], figures["new_bid per_second"]], [10, 40]);
});

test("a whole run fits into its time, and few rows have long windows", () => {
  const seconds = EXPERIMENTS.reduce((sum, each) => sum + plannedSeconds(each, "full"), 0);
  assert.ok(seconds <= RUN_S_MAX, `${String(seconds / 60)} minutes`);
  const headlines = EXPERIMENTS.flatMap((each) =>
    each.measurements("full").filter(({ isHeadline }) => isHeadline === true),
  );
  assert.ok(headlines.length > 0 && headlines.length <= HEADLINES_MAX, String(headlines.length));
});

for (const experiment of EXPERIMENTS)
  test(`${experiment.name}: rows have names of their own, and every ratio, bar and peak is of rows that are measured`, () => {
    const turns = turnsOf(experiment);
    assert.equal(new Set(turns.map(({ workload, row }) => `${workload}: ${row}`)).size, turns.length);
    const { ratios, bars, peaks = [] } = experiment.judge(turns);
    for (const [what, value] of Object.entries(ratios)) assert.ok(Number.isFinite(value), what);
    for (const { what, measured } of bars) assert.ok(Number.isFinite(measured), what);
    for (const { way, per_second } of peaks) assert.equal(per_second, 10, way);
    assert.ok(bars.length > 0);
    assert.deepEqual(
      experiment.judge([]).bars.map(({ met }) => met),
      bars.map(() => false),
      "without turns",
    );
  });

test("the page decides by results of one commit, and only by those", () => {
  const found = EXPERIMENTS.map((experiment) => ({
    ...{ experiment: experiment.name, commit: "abc" },
    ratios: experiment.judge(turnsOf(experiment)).ratios,
  }));
  const table = decisionTable(found);
  assert.doesNotMatch(table, /not measured/);
  assert.match(table, /\| one client, 16 ms \| p50 of a commit \| 1 \| no difference \|/);
  const slow = found.map(({ ratios, ...each }) => ({
    ...each,
    ratios: { ...ratios, "p50 of safe to a synchronous commit, 16 ms": 1.2 },
  }));
  assert.match(decisionTable(slow), /\| one client, 16 ms .* \| `synchronous_commit=on` \|/);
  assert.equal(decisionTable(found.map((each, at) => ({ ...each, commit: String(at) }))), NOT_RUN);
  assert.equal(decisionTable(found.slice(1)), NOT_RUN);
});
