// Goal: the model finds the costs that turns were made of, and the page says what the recorded turns say. Method: turns that
// are computed from known costs, one of them refused, one point measured differently from what the model predicts.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { describeMachine } from "../record.ts";
import { cellsOf } from "../rounds/figures.ts";
import { replaced } from "../rounds/page.ts";
import type { Turn } from "../rounds/turns.ts";
import {
  ALONE,
  barsOf,
  BASE,
  BUSY,
  checksOf,
  costsOf,
  type Layout,
  LAYOUTS,
  layoutRow,
  limitsOf,
  marginsOf,
  pacedLoad,
  PARTS,
  planFor,
  STREAMING,
  type StreamCost,
  streamLoad,
  streamsMax,
  streamsRow,
} from "./model.ts";
import { readRecorded, type Recorded, sectionsOf } from "./page.ts";

const POINTS = { fitted: [500, 2_000], checked: [1_000, 5_000] } as const;
/** Microseconds of a transaction: with one tracker, and for each further one. */
const US = { gateway: [150, 10], tracker: [40, 40], primary: [120, 5], replica: [24, 0], client: [26, 0] };
const BUSY_CORES = 1.8;
const STREAMS: StreamCost = { aloneCores: 0.1, writeUs: 7, pauseMs: 10, perStreamUs: 9, p99Intervals: 2 };
const BYTES = { log: 400, announced: 350, mark: 200 };

function turnOf(workload: string, row: string, round: number, more: Partial<Turn>): Turn {
  const quiet = { seconds: 8, cores: {}, foreign_cores: 0, steal: 0 };
  return { workload, row, round, refused: false, disturbed: false, figures: {}, machine: quiet, ...more };
}

function transactionTurn(layout: Layout, round: number, slower = 1): Turn {
  const us = PARTS.map((part) => {
    const [base = 0, more = 0] = US[part];
    return [part, base + (layout.trackers - 1) * more] as const;
  });
  const per_second = (1e6 * BUSY_CORES) / us.reduce((sum, [, each]) => sum + each, 0) / slower;
  const cores = Object.fromEntries(us.map(([part, each]) => [part, (each * per_second) / 1e6]));
  const machine = { seconds: 8, cores, foreign_cores: 0, steal: 0 };
  return turnOf(BUSY, layoutRow(layout), round, { figures: { per_second }, machine });
}

function streamTurn(streams: number, round: number): Turn {
  const { cores, marksPerSecond, p99Ms } = streamLoad(STREAMS, streams);
  const tracker = streams === 1 ? STREAMS.aloneCores : cores;
  return turnOf(STREAMING, streamsRow(streams), round, {
    figures: { per_second: 200, marks_per_second: marksPerSecond, p99_ms: p99Ms, kib: 8 },
    machine: { seconds: 8, cores: { tracker }, foreign_cores: 0, steal: 0 },
  });
}

const TURNS = [1, 2, 3].flatMap((round) => [
  ...LAYOUTS.map((layout) => transactionTurn(layout, round)),
  turnOf(ALONE, layoutRow(BASE), round, {
    figures: { per_second: 900 },
    machine: { seconds: 8, cores: { gateway: 0.5, tracker: 0.2 }, foreign_cores: 0, steal: 0 },
  }),
  ...[1, ...POINTS.fitted, ...POINTS.checked].map((streams) => streamTurn(streams, round)),
]);

const near = (found: number, wanted: number, what: string): void => {
  assert.ok(Math.abs(found - wanted) < 1e-6 * Math.abs(wanted) + 1e-9, `${what}: ${String(found)}`);
};

test("the costs are those that the turns were made of", () => {
  const { parts, busyCores, streams } = costsOf(TURNS, POINTS);
  for (const part of PARTS) {
    near(parts[part].us, US[part][0] ?? 0, part);
    near(parts[part].moreUs, US[part][1] ?? 0, part);
  }
  near(busyCores, BUSY_CORES, "busy cores");
  for (const name of Object.keys(STREAMS) as (keyof StreamCost)[]) near(streams[name], STREAMS[name], name);
});

test("where the model holds, every ratio is 1; a refused turn counts nowhere", () => {
  const refused = { ...transactionTurn(BASE, 1, 7), refused: true, disturbed: true };
  const checks = checksOf([refused, ...TURNS], POINTS);
  assert.equal(checks.length, 3 * 5 + 2 * 3);
  for (const { point, figure, ratio } of checks) near(ratio, 1, `${point}, ${figure}`);
  const bars = barsOf(TURNS, checks);
  assert.deepEqual(
    bars.map(({ met }) => met),
    [true, true, true, false],
  );
  near(bars[3]?.measured ?? 0, 2 * (10 + 45), "p99 of 5,000 streams");
});

test("a point that is slower than predicted misses the bar of ratios, and so does one that is missing", () => {
  const two = { gateways: 2, trackers: 3 };
  const others = TURNS.filter(({ row }) => row !== layoutRow(two));
  const slow = [...others, ...[1, 2, 3].map((round) => transactionTurn(two, round, 1.5))];
  const found = barsOf(slow, checksOf(slow, POINTS))[1];
  assert.deepEqual([found?.measured, found?.met], [1.5, false]);
  assert.deepEqual(
    barsOf(others, checksOf(others, POINTS))
      .slice(0, 2)
      .map(({ met }) => met),
    [false, false],
  );
});

test("the plan and the limits follow from the costs, and a point that cost more widens them", () => {
  const costs = costsOf(TURNS, POINTS);
  const two = layoutRow({ gateways: 2, trackers: 1 });
  const turns = TURNS.map((turn) =>
    turn.row === two ? { ...turn, figures: { per_second: (turn.figures["per_second"] ?? 0) / 2 } } : turn,
  );
  const margins = marginsOf(checksOf(turns, POINTS));
  for (const part of ["gateway", "tracker", "primary", "replica"] as const) near(margins[part], 2, part);
  const plan = planFor(costs, margins, 10_000);
  // Gateway: 150 and two times 10.
  assert.deepEqual(plan.gateways, [Math.ceil(1.7 / 0.6), Math.ceil(3.4 / 0.6)]);
  near(plan.trackerCores[0], 0.4, "tracker");
  near(plan.primaryCores[0], 1.3, "primary");
  near(plan.primaryCores[1], 2.6, "primary with the margin");
  near(plan.replicaCores[0], 0.12, "replica");
  const limits = limitsOf(costs, margins, BYTES);
  assert.equal(limits[0]?.part, "one gateway");
  near(limits[0].rate[1], 600_000 / 170, "one gateway");
  near(limits[0].rate[0], 300_000 / 170, "one gateway with the margin");
  near(limits.find(({ part }) => part === "each tracker")?.rate[1] ?? 0, 15_000, "each tracker");
});

test("streams: as many as keep both limits", () => {
  const limits = { coresMax: 0.8, p99MsMax: 100 };
  const byP99 = streamsMax(STREAMS, limits);
  assert.equal(byP99, Math.floor((100 / 2 - 10) / 0.009));
  assert.ok(streamLoad(STREAMS, byP99).p99Ms <= 100 && streamLoad(STREAMS, byP99).cores <= 0.8);
  // A faster pace takes more of the processor, which is then the limit.
  const fast = { ...STREAMS, pauseMs: 1, perStreamUs: 8.5 };
  const byCores = streamsMax(fast, { coresMax: 0.5, p99MsMax: 100 });
  assert.ok(byCores > 0 && byCores < byP99);
  assert.ok(streamLoad(fast, byCores).cores <= 0.5 && streamLoad(fast, byCores + 1).cores > 0.5);
  assert.equal(streamsMax({ ...STREAMS, pauseMs: 60 }, limits), 0);
  const paced = pacedLoad(STREAMS, { streams: 50_000, marksPerSecond: 2 });
  near(paced.cores, 0.7, "cores of paced streams");
  near(paced.p99Ms, 500 + 350, "p99 of paced streams");
});

const RECORDED: Recorded = {
  ...{ recorded: "2026-11-28T00:00:00Z", commit: "abc", machine: describeMachine() },
  settings: { rounds: 3, windowS: 8, points: POINTS },
  bytes: BYTES,
  ...{ cells: cellsOf(TURNS), ratios: {}, bars: barsOf(TURNS, checksOf(TURNS, POINTS)), turns: TURNS },
};

test("the page's tables have the costs, the plan, the limits and the checks", () => {
  const { costs, transactions, limits, streams, bandwidth, checks } = sectionsOf(RECORDED);
  assert.match(costs ?? "", /^\| gateway \| 150 \| 10 \| 0\.5 \|$/m);
  assert.match(transactions ?? "", /^\| 10,000 \| 3 \| 0\.4 \| 1\.3 \| 0\.12 \|$/m);
  assert.match(limits ?? "", /^\| each tracker \| 15,000 \|$/m);
  assert.match(streams ?? "", /^\| 1,000,000 \| relays, 2 marks a second \| 18 \| 14 \| [0-9]+ \| 3\.2 \|$/m);
  assert.equal(streams?.match(/^\| 1,000 \|/gm)?.length, 1, "a thousand clients need no relay");
  assert.match(bandwidth ?? "", /^\| 10,000 \| 3\.5 \| 4 \| 19\.7 \|$/m);
  assert.match(checks ?? "", /^\| 5,000 streams \| p99 ms \| 110 \| 110 \| 1 \|$/m);
  assert.match(checks ?? "", /\| \*\*missed\*\* \|$/m);
});

test("docs/capacity.md says what the recorded turns say", () => {
  const page = readFileSync(new URL("../../docs/capacity.md", import.meta.url), "utf8");
  const recorded = readRecorded(new URL("../results/", import.meta.url));
  const sections =
    recorded === null
      ? Object.fromEntries(Object.keys(sectionsOf(RECORDED)).map((name) => [name, "*Not measured yet.*"]))
      : sectionsOf(recorded);
  for (const [name, section] of Object.entries(sections))
    assert.equal(replaced(page, name, section), page, name);
});
