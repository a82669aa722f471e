// Goal: a line is judged flat or growing correctly. Method: series whose growth is known.
import assert from "node:assert/strict";
import { test } from "node:test";
import { judgeGrowth, type Point } from "./growth.ts";

const DURATION_S = 300;
const ALLOWANCE = { absolute: 4, relative: 0.05 };

/** The same noise in every run of the test. */
function noise(seed: number): () => number {
  let state = seed;
  return () => {
    state = (1_103_515_245 * state + 12_345) % 2_147_483_648;
    return state / 2_147_483_648 - 0.5;
  };
}

function series(value: (atS: number, chance: () => number) => number, seed = 1): Point[] {
  const chance = noise(seed);
  return Array.from({ length: DURATION_S }, (_, atS) => ({ atS, value: value(atS, chance), life: 0 }));
}

const isGrowing = (points: readonly Point[]): boolean | undefined =>
  judgeGrowth(points, DURATION_S, ALLOWANCE)?.isGrowing;

test("a slow leak under much noise is growing, whatever the noise", () => {
  for (let seed = 1; seed <= 200; seed++)
    assert.equal(isGrowing(series((atS, chance) => 100 + 0.15 * atS + 25 * chance(), seed)), true);
});

test("noise alone is flat, whatever the noise", () => {
  for (let seed = 1; seed <= 200; seed++)
    assert.equal(isGrowing(series((_, chance) => 100 + 12 * chance(), seed)), false);
});

test("a leak of a few bytes per transaction is growing on a line without noise, and its slope is reported", () => {
  // 200 transactions a second of 256 bytes, in MiB.
  const points = series((atS) => 20 + (200 * 256 * atS) / 1_048_576);
  const judged = judgeGrowth(points, DURATION_S, { absolute: 2, relative: 0.05 });
  assert.equal(judged?.isGrowing, true);
  assert.ok(Math.abs((judged?.perHour ?? 0) - 175.8) < 0.1, String(judged?.perHour));
});

test("what fills up in the first third and then stays is flat", () => {
  assert.equal(isGrowing(series((atS) => Math.min(atS, 90))), false);
});

test("what grows in steps is growing", () => {
  assert.equal(isGrowing(series((atS) => 100 + 10 * Math.floor(atS / 60))), true);
});

test("a saw that drops again and again is flat", () => {
  assert.equal(isGrowing(series((atS) => 100 + (atS % 20))), false);
});

test("peaks of some seconds, as faults make them, are flat", () => {
  assert.equal(isGrowing(series((atS) => (atS % 30 < 8 && atS > 200 ? 400 : 100))), false);
});

test("what shrinks is flat", () => {
  assert.equal(isGrowing(series((atS) => 400 - atS)), false);
});

test("the allowance is the larger of the two", () => {
  const points = series((atS) => (atS < 200 ? 1_000 : 1_040));
  assert.equal(judgeGrowth(points, DURATION_S, { absolute: 4, relative: 0.05 })?.isGrowing, false);
  assert.equal(judgeGrowth(points, DURATION_S, { absolute: 4, relative: 0.03 })?.isGrowing, true);
});

test("a process that was started anew in between is not judged, nor is a line with holes for a third", () => {
  const restarted = series(() => 100).map((point) => ({ ...point, life: point.atS < 250 ? 0 : 1 }));
  assert.equal(isGrowing(restarted), undefined);
  assert.equal(isGrowing(series(() => 100).filter(({ atS }) => atS < 200)), undefined);
});
