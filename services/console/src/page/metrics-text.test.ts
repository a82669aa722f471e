// Goal: the console reads nodes, levels and times from the text that trackers expose, by the names of the catalogue.
import assert from "node:assert/strict";
import { test } from "node:test";
import { quantileBetween } from "@highwater/runtime";
import { renderFamilies, TRACKER, type Family } from "@highwater/service";
import {
  authorityIn,
  bucketsIn,
  commitIn,
  levelsIn,
  METRICS,
  nodesIn,
  parseMetrics,
} from "./metrics-text.ts";

const family = (
  metric: Family["metric"],
  samples: Family["samples"],
  distributions: Family["distributions"] = [],
): Family => ({ metric, samples, distributions });

const nodes = [
  { node: "west", region: "us-west" },
  { node: "east-2", region: "us-east" },
  { node: "east", region: "us-east" },
];
const each = (values: readonly number[]): Family["samples"] =>
  nodes.flatMap((labels, at) => {
    const value = values[at];
    return value === undefined ? [] : [{ labels, value }];
  });

test("every metric that the console reads is in the catalogue", () => {
  const names = new Set(Object.values(TRACKER).map(({ name }) => name));
  for (const name of Object.values(METRICS)) assert.ok(names.has(name), name);
});

test("nodes are listed by region, the primary and its region first, without values that are not known", () => {
  const text = renderFamilies([
    family(
      TRACKER.nodeAlive,
      nodes.map((node, at) => ({ labels: { ...node, zone: 'a "quoted" zone' }, value: at === 0 ? 0 : 1 })),
    ),
    family(TRACKER.nodePrimary, each([0, 0, 1])),
    family(TRACKER.nodePosition, each([100])),
    family(TRACKER.replicationLagBytes, each([50, 0, 0])),
    family(TRACKER.replicationLag, each([0.25])),
  ]);
  const rows = nodesIn(parseMetrics(text));
  assert.deepEqual(
    rows.map(({ node }) => node),
    ["east", "east-2", "west"],
  );
  assert.deepEqual(rows.at(-1), {
    ...{ node: "west", region: "us-west", zone: 'a "quoted" zone', isAlive: false, isPrimary: false },
    ...{ position: 100, lagBytes: 50, lagMs: 250 },
  });
  assert.deepEqual([rows[0]?.isPrimary, rows[0]?.position, rows[0]?.lagMs], [true, null, null]);
});

test("levels have their lag, their waiting transactions and their stall", () => {
  const at = (level: string, value: number) => ({ labels: { level }, value });
  const text = renderFamilies([
    family(TRACKER.markLag, [at("region", 9)]),
    family(TRACKER.pending, [at("disk", 1), at("region", 2)]),
    family(TRACKER.levelStalled, [at("disk", 0), at("region", 1)]),
    family(TRACKER.splitBrain, [{ labels: {}, value: 1 }]),
    family(TRACKER.authoritySettled, [{ labels: {}, value: 0 }]),
  ]);
  const samples = parseMetrics(text);
  assert.deepEqual(levelsIn(samples, ["disk", "region"]), [
    { level: "disk", lagBytes: null, pending: 1, isStalled: false },
    { level: "region", lagBytes: 9, pending: 2, isStalled: true },
  ]);
  assert.deepEqual(authorityIn(samples), { isSettled: false, isSplit: true });
});

test("a quantile is that of the values between two readings", () => {
  const { buckets: bounds } = TRACKER.durabilityLag;
  const reading = (counts: Readonly<Record<number, number>>) => {
    const all = [...bounds.map((bound) => counts[bound] ?? 0), counts[Infinity] ?? 0];
    const count = all.reduce((sum, one) => sum + one, 0);
    const distribution = { labels: { level: "region" }, counts: all, sum: 0, count };
    return bucketsIn(
      parseMetrics(renderFamilies([family(TRACKER.durabilityLag, [], [distribution])])),
      "region",
    );
  };
  const before = reading({ 300: 1_000 });
  assert.equal(quantileBetween(before, before, 0.5), null, "no value came");
  assert.equal(quantileBetween([], before, 0.5), null, "there is no reading before it");
  assert.equal(quantileBetween(before, reading({ 0.002: 1 }), 0.5), null, "the tracker has started again");
  // All of them lie between 50 and 75 ms.
  assert.equal(quantileBetween(before, reading({ 300: 1_000, 0.075: 10 }), 0.5), 62.5);
  assert.equal(quantileBetween(before, reading({ 300: 1_000, 0.075: 10, [Infinity]: 90 }), 0.99), 300_000);
});

test("the time of a commit is that of the median gateway", () => {
  const of = (...seconds: number[]) =>
    commitIn(
      parseMetrics(
        renderFamilies([
          family(
            TRACKER.reportedCommit,
            seconds.map((value, at) => ({ labels: { gateway: `g${String(at)}`, region: "r" }, value })),
          ),
        ]),
      ),
    );
  assert.equal(of(), null, "nothing is committed");
  assert.equal(of(0.07, 0.003, 0.004), 4);
});
