// What the benchmark compares: each SDK with the client by hand, within a round.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Turn } from "../rounds/turns.ts";
import { COMMITS, PROMISES, summarize, workloadOf } from "./results.ts";

const US: Readonly<Record<string, number>> = { bare: 100, sdk: 120, unshared: 130 };

function turn(part: string, row: string, round: number, slower: number): Turn {
  const us = slower * (US[row] ?? Number.NaN);
  return {
    workload: workloadOf("typescript", part),
    row,
    round,
    refused: false,
    disturbed: false,
    figures:
      part === PROMISES
        ? { settle_ms: us, settle_cpu_ms: us, bytes: 5 * us, streams: 1, asked: 0 }
        : { per_second: 1e6 / us, cpu_us: us },
    machine: { seconds: 1, cores: { client: 0.5 }, foreign_cores: 0, steal: 0 },
  };
}

/** Three rounds. The second was seven times as slow for all. */
const TURNS = [1, 7, 1].flatMap((slower, at) => [
  ...Object.entries(COMMITS).flatMap(([part, { ways }]) =>
    ways.map((way) => turn(part, way, at + 1, slower)),
  ),
  ...["bare", "sdk"].map((way) => turn(PROMISES, way, at + 1, slower)),
]);

test("every SDK that was measured is compared, and no other", () => {
  const { ratios, bars } = summarize(TURNS);
  assert.deepEqual(ratios, {
    "typescript, one commit at a time: cpu us of sdk to bare": 1.2,
    "typescript, 64 commits at a time: cpu us of sdk to bare": 1.2,
    "typescript, 64 commits at a time: cpu us of unshared to bare": 1.3,
    "typescript, 10,000 promises: settle ms of sdk to bare": 1.2,
    "typescript, 10,000 promises: settle cpu ms of sdk to bare": 1.2,
    "typescript, 10,000 promises: bytes of sdk to bare": 1.2,
  });
  assert.deepEqual(bars, []);
});
