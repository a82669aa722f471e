// The section of the page says what was disturbed and what was refused.
import assert from "node:assert/strict";
import { test } from "node:test";
import { describeMachine } from "../record.ts";
import { type Recorded, sectionOf } from "./page.ts";

const middle = (median: number) => ({ median, min: median, max: median });

test("disturbed rows are marked, and refused turns are counted", () => {
  const cell = {
    workload: "128 hot",
    row: "direct on",
    rounds: 3,
    disturbed: 0,
    refused: 4,
    figures: {
      per_second: middle(430),
      p50_ms: middle(110.4),
      given_up: middle(0.53),
      failed_tries: middle(0.9),
    },
    cpu_us: { primary: middle(300.4) },
  };
  const recorded: Recorded = {
    recorded: "2026-11-26T00:00:00Z",
    commit: "abc",
    machine: describeMachine(),
    memory: null,
    settings: { rounds: 3, windowS: 10 },
    cells: [cell, { ...cell, row: "wire safe", disturbed: 2 }],
    ratios: { "hot, safe to the best synchronous row": 7.5 },
    bars: [{ what: "hot at least 8", measured: 7.5, met: false }],
    turns: [],
  };
  const section = sectionOf(recorded);
  assert.match(section, /Of 6 turns that count, 2 were disturbed .*; 8 others were refused/);
  assert.match(
    section,
    /^\| 128 hot, direct on \| 430 \| 110 \| 53\.0% \| 90\.0% \| {2}\| {2}\| {2}\| 300 \| {2}\| {2}\|$/m,
  );
  assert.match(section, /^\| 128 hot, wire safe † \|/m);
  assert.match(section, /^\| ratio \| here \|$/m);
  assert.match(section, /^\| hot at least 8 \| 7\.5 \| \*\*missed\*\* \|$/m);
});
