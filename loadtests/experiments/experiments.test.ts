// The arithmetic of the experiments: what a window counts, when a transaction is given up, ratios within rounds, and the tables.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Sample } from "./bench.ts";
import { bar, pointsOf, ratioOf, tableOf } from "./figures.ts";
import { seeded } from "./load/random.ts";
import { Arrivals, runLoop } from "./load/run-group.ts";
import { Window } from "./load/window.ts";
import type { Attempt } from "./load/job.ts";
import { countOf, pickRow, statementOf } from "./load/workload.ts";
import { barsTable, coresTable, ratiosTable, replaced } from "./page.ts";

function sample(subject: string, round: number, perSecond: number, own: Partial<Sample> = {}): Sample {
  return {
    ...{ labels: { link_ms: 16 }, subject, round, group: subject, kind: "update", perSecond },
    ...{ done: 100, aborts: 0, givenUp: 0, meanMs: 2, p50Ms: 1, p95Ms: 3, p99Ms: 4, cores: { primary: 0.5 } },
    ...own,
  };
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

test("ratios are taken within a round, so that a slow minute slows both sides", () => {
  const samples = [
    ...[sample("safe", 1, 800), sample("direct_on", 1, 100)],
    ...[sample("safe", 2, 80), sample("direct_on", 2, 10)],
    ...[sample("safe", 3, 900), sample("direct_on", 3, 100)],
  ];
  const labels = { link_ms: 16 };
  const of = { subject: "safe", labels };
  assert.equal(
    ratioOf(samples, { of, to: { subject: "direct_on", labels } }, (each) => each.perSecond),
    8,
  );
  const nobody = { subject: "fast", labels };
  assert.ok(Number.isNaN(ratioOf(samples, { of: nobody, to: of }, (each) => each.perSecond)));
});

test("what was not measured meets no bar", () => {
  assert.deepEqual(
    [bar("a", 8, { min: 8 }), bar("b", 7.9, { min: 8 }), bar("c", Number.NaN, { max: 1 })].map(
      ({ met }) => met,
    ),
    [true, false, false],
  );
});

test("a point has the medians of its rounds, and aborts for each transaction that came to an end", () => {
  const [point] = pointsOf([
    sample("safe", 1, 10, { aborts: 30, givenUp: 20, done: 100 }),
    sample("safe", 2, 30, { aborts: 30, givenUp: 20, done: 100 }),
    sample("safe", 3, 20, { aborts: 30, givenUp: 20, done: 100 }),
  ]);
  assert.equal(point?.per_second, 20);
  assert.equal(point?.aborts_per_transaction, 0.25);
  assert.equal(point?.given_up.toFixed(4), (20 / 120).toFixed(4));
  assert.match(tableOf({ points: point === undefined ? [] : [point] }), /16\s+safe\s+update\s+20/);
});

test("the page keeps what people wrote, and says which bar is missed", () => {
  const page = "before\n<!-- latency: measured -->\nold\n<!-- latency: end -->\nafter\n";
  const renewed = "before\n<!-- latency: measured -->\nnew\n<!-- latency: end -->\nafter\n";
  assert.equal(replaced(page, "latency", "new"), renewed);
  assert.throws(() => replaced(page, "tpcc", "new"), /no place for tpcc/);
  const table = barsTable({ bars: [bar("one", 2, { min: 1 }), bar("two", 0, { min: 1 })] });
  assert.match(table, /\| one \| 2 \| met \|\n\| two \| 0 \| \*\*missed\*\* \|$/);
  assert.match(
    ratiosTable({ ratios: { "throughput of safe to fast, uniform": 0.951 } }),
    /\| 0.951 \| 0.52: /,
  );
  assert.match(coresTable(pointsOf([sample("safe", 1, 10)])), /\| safe, link_ms 16 \| 10 \| 0.50 \|$/);
});
