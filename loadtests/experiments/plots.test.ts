// The figures: small pictures with axes, units and a legend, the same every time.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Point, Result } from "./figures.ts";
import { draw, figuresOf } from "./plots.ts";

const point = (own: Partial<Point>): Point => ({
  ...{ labels: {}, subject: "safe", group: "safe", kind: "update", rounds: 1, per_second: 5 },
  ...{
    mean_ms: 17,
    p50_ms: 17,
    p95_ms: 18,
    p99_ms: 19,
    aborts_per_transaction: 0.01,
    given_up: 0,
    cores: {},
  },
  ...own,
});

const result = (experiment: string, points: readonly Point[], more: object = {}): Result => ({
  experiment,
  mode: "quick",
  settings: { offered: [50, 0] },
  points,
  ratios: {},
  bars: [],
  ...more,
});

const SUBJECTS = ["fast", "safe", "direct_off", "direct_on"];
const RESULTS: readonly Result[] = [
  result(
    "latency",
    SUBJECTS.flatMap((subject) => [
      point({ subject, labels: { part: "alone", link_ms: 16 } }),
      point({ subject, labels: { part: "together", link_ms: 16 }, kind: "read" }),
    ]),
  ),
  result(
    "mixed",
    [0, 1].map((share_fast) => point({ labels: { system: "highwater", share_fast, link_ms: 16 } })),
  ),
  result(
    "contention",
    SUBJECTS.flatMap((subject) =>
      [0.5, 0.95].flatMap((contention) =>
        [0, 2_000].map((offered) =>
          point({
            subject,
            labels: { pattern: "skewed", contention, isolation: "serializable", link_ms: 16, offered },
          }),
        ),
      ),
    ),
  ),
  result(
    "tpcc",
    [50, 0].map((offered) =>
      point({ kind: "new_order", labels: { configuration: "all safe", offered, link_ms: 16 } }),
    ),
  ),
  result("auction", [point({ kind: "page", labels: { configuration: "as designed", link_ms: 16 } })]),
  result("groups", [point({ labels: { way: "one by one, disk", clients: 1 } })], {
    flushes: [{ round: 1, way: "one by one, disk", clients: 1, perTransaction: 1 }],
  }),
];

for (const each of RESULTS)
  test(`the figures of ${each.experiment} have axes and a legend, are small, and are drawn the same again`, async () => {
    const figures = figuresOf(each);
    assert.ok(figures.length > 0);
    for (const { name, spec } of figures) {
      const svg = await draw(spec);
      assert.equal(await draw(spec), svg);
      assert.match(svg, /^<svg [^]*role-axis-title[^]*role-legend[^]*<\/svg>\n$/, name);
      assert.match(svg, /role-(mark|scope)[^]*<path aria-label="/, `${name} shows a value`);
      assert.ok(Buffer.byteLength(svg) < 60_000);
    }
  });
