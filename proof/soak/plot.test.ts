// Goal: the axes of the plot have round steps from zero and contain every value.
import assert from "node:assert/strict";
import { test } from "node:test";
import { plot, scaleOf } from "./plot.ts";

test("an axis begins at zero, has a few round steps, and holds the highest value", () => {
  assert.deepEqual(scaleOf(37), { step: 10, max: 40 });
  assert.deepEqual(scaleOf(1_000), { step: 250, max: 1_000 });
  for (const highest of [0.001, 0.7, 1, 3.2, 99, 101, 12_345]) {
    const { step, max } = scaleOf(highest);
    assert.ok(max >= highest && max / step <= 5.001, `${String(highest)}: ${String(max)} by ${String(step)}`);
  }
  assert.ok(scaleOf(0).max > 0);
});

test("a panel names its metric and its lines, and a process that started anew begins a new stroke", () => {
  const points = [0, 1, 2, 3].map((atS) => ({ atS, value: 10, life: atS < 2 ? 0 : 1 }));
  const panel = { title: "Memory <of all>", unit: "MiB", lines: new Map([["gateway", points]]) };
  const svg = plot("title", [panel], [{ fromS: 1, untilS: 2, label: "kill" }]);
  assert.ok(svg.includes(">Memory &lt;of all>"));
  assert.ok(svg.includes(">MiB<") && svg.includes(">gateway<") && svg.includes("<title>kill</title>"));
  assert.equal(/ d="([^"]*)"/.exec(svg)?.[1]?.match(/M/g)?.length, 2);
});
