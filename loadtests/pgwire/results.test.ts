// What is read from pgbench's log, and which bar is missed.
import assert from "node:assert/strict";
import { test } from "node:test";
import { reportOf, verdictOf } from "../rounds/bars.ts";
import type { Turn } from "../rounds/turns.ts";
import { endedOf, figuresOf } from "./pgbench.ts";
import { COLUMNS, summarize } from "./results.ts";
import { WORKLOADS } from "./workloads.ts";

test("a line of pgbench's log", () => {
  assert.deepEqual(endedOf("0 199 2241 0 1175850568 995598 2"), {
    latencyMs: 2.241,
    atMs: 1_175_850_568_995.598,
    retries: 2,
  });
  assert.deepEqual(endedOf("3 0 failed 0 1499414498 84905 5"), {
    latencyMs: null,
    atMs: 1_499_414_498_084.905,
    retries: 5,
  });
  assert.equal(endedOf("0 1 184 0 1645173745 7").retries, 0, "with one try the column is absent");
});

test("abandoned transactions count in no latency and no rate", () => {
  const ended = [
    { latencyMs: 3, atMs: 0, retries: 1 },
    { latencyMs: 1, atMs: 0, retries: 0 },
    { latencyMs: 2, atMs: 0, retries: 0 },
    { latencyMs: null, atMs: 0, retries: 5 },
  ];
  assert.deepEqual(figuresOf(ended, 2), {
    per_second: 1.5,
    p50_ms: 2,
    p99_ms: 3,
    given_up: 0.25,
    failed_tries: 0.7,
  });
  const nothing = figuresOf([], 2);
  assert.deepEqual([nothing["per_second"], nothing["given_up"]], [0, 1]);
});

const RATES: Readonly<Record<string, number>> = { "direct on": 100, "pgbouncer 32": 120, "wire safe": 960 };

function turns(rates = RATES, givenUp = 0): Turn[] {
  return WORKLOADS.flatMap(({ name, ways }) =>
    ways.map(({ row }): Turn => {
      const [rate = 90, isSafe] = [rates[row], row === "wire safe"];
      return {
        workload: name,
        row,
        round: 1,
        refused: false,
        disturbed: false,
        figures: {
          per_second: name.includes("reader") ? 100 : rate,
          p50_ms: isSafe ? 1.08 : 1,
          p99_ms: 9,
          given_up: isSafe ? givenUp : 0.5,
          failed_tries: 0.1,
        },
        machine: { seconds: 1, cores: { gateway: 0.0768 }, foreign_cores: 0, steal: 0 },
      };
    }),
  );
}

const MEMORY = { connections: 1_000, gateway_mib: 40 };

test("bars compare with the best synchronous row, and each can be met", () => {
  const { bars, ratios } = summarize(turns(), MEMORY);
  assert.equal(ratios["hot, safe to the best synchronous row"], 8);
  assert.deepEqual(bars.filter(({ met }) => !met).map(verdictOf), []);
});

test("each bar can be missed", () => {
  const { bars } = summarize(turns({ "direct on": 640, "wire safe": 959 }, 0.001), {
    ...MEMORY,
    gateway_mib: 41,
  });
  assert.deepEqual(
    bars.map(({ met }) => met),
    [false, false, false, true, true, true, false, false],
  );
  const [slow] = summarize(
    turns().map((turn) =>
      turn.row === "wire safe"
        ? { ...turn, figures: { ...turn.figures, per_second: 54, p50_ms: 1.13 } }
        : turn,
    ),
    MEMORY,
  ).bars.slice(3, 4);
  assert.equal(slow?.met, false);
});

test("what was not measured meets no bar", () => {
  const { bars } = summarize([], null);
  assert.deepEqual(new Set(bars.map(({ met }) => met)), new Set([false]));
});

test("the table has every way of every workload, and refused turns are in no median", () => {
  const [first] = turns();
  assert.ok(first !== undefined);
  const refused = { ...first, refused: true, figures: { ...first.figures, per_second: 1 } };
  const result = summarize([refused, ...turns()], MEMORY);
  const lines = reportOf({ ...result, ratios: {}, bars: [] }, COLUMNS).split("\n");
  assert.equal(lines.length, 1 + WORKLOADS.reduce((sum, { ways }) => sum + ways.length, 0));
  assert.match(lines[1] ?? "", /^one client +direct on +100 .* 1 +0 +1$/);
});
