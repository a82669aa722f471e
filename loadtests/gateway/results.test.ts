// What the benchmark compares, and which bar is missed.
import assert from "node:assert/strict";
import { test } from "node:test";
import { reportOf, verdictOf } from "../rounds/bars.ts";
import type { Turn } from "../rounds/turns.ts";
import {
  COLUMNS,
  FAST,
  KEPT,
  MANY,
  MANY_UPDATES,
  ONE,
  ONE_UPDATE,
  PREPARED,
  SAFE,
  SDK_ROWS,
  summarize,
  UNPREPARED,
} from "./results.ts";

interface Speeds {
  readonly fast?: number;
  readonly fastMs?: number;
  readonly cores?: number;
  readonly keptCores?: number;
}

function turn(workload: string, row: string, rate: number, { fastMs = 1, cores = 0.05 }: Speeds): Turn {
  return {
    workload,
    row,
    round: 1,
    refused: false,
    disturbed: false,
    figures: { per_second: rate, p50_ms: row === FAST ? fastMs : 0.65, p99_ms: 9, failed_tries: 0 },
    machine: {
      seconds: 1,
      // The client's time is in no bar.
      cores: { gateway: cores, tracker: 0.04, primary: 0.07, replica: 0.005, client: 9 },
      foreign_cores: 0,
      steal: 0,
    },
  };
}

function turns(speeds: Speeds = {}): Turn[] {
  const { fast = 1_300 } = speeds;
  return [
    ...[ONE, MANY].flatMap((workload) => [
      turn(workload, FAST, fast, speeds),
      turn(workload, PREPARED, 1_000, speeds),
      turn(workload, UNPREPARED, 650, speeds),
    ]),
    ...[FAST, PREPARED].map((row) => turn(ONE_UPDATE, row, 1_000, speeds)),
    ...[FAST, SAFE].map((row) => turn(MANY_UPDATES, row, 1_000, speeds)),
    turn(MANY_UPDATES, KEPT, 1_000, { cores: speeds.keptCores ?? 0.06 }),
  ];
}

const sdks = (rate: number): Turn[] => Object.values(SDK_ROWS).map((row) => turn(MANY, row, rate, {}));

test("every bar can be met, and an SDK that is not here has none", () => {
  const { bars, ratios } = summarize(turns());
  assert.deepEqual(
    bars.map(({ measured, met }) => [measured, met]),
    [
      [1.3, true],
      [0.35, true],
      [165, true],
      [165, true],
      [1.061, true],
    ],
  );
  assert.equal(ratios["64 clients, fast to unprepared"], 2);
  assert.deepEqual(
    summarize([...turns(), ...sdks(1_800)])
      .bars.slice(5)
      .map(verdictOf),
    [
      "MISSED 64 clients: TypeScript SDK at least 3500 a second: 1800",
      "met    64 clients: Python SDK async at least 1800 a second: 1800",
      "met    64 clients: Python SDK sync at least 900 a second: 1800",
    ],
  );
});

test("every bar can be missed", () => {
  const { bars } = summarize([
    ...turns({ fast: 1_299, fastMs: 1.01, cores: 0.101, keptCores: 0.2 }),
    ...sdks(899),
  ]);
  assert.deepEqual(new Set(bars.map(({ met }) => met)), new Set([false]));
});

test("what was not measured meets no bar", () => {
  const { bars } = summarize([]);
  assert.deepEqual(
    bars.map(({ met }) => met),
    [false, false, false, false, false],
  );
});

test("the report has a line for every row, ratio and bar", () => {
  const result = summarize(turns());
  const lines = reportOf(result, COLUMNS).split("\n");
  assert.equal(lines.length, 1 + turns().length + Object.keys(result.ratios).length + result.bars.length);
  assert.match(lines[4] ?? "", /^64 clients +fast +1300 +1 +9 +0 +38 +31 +54 +4 +6923 +1 +0 +0$/);
});
