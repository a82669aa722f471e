// The figures: small pictures with axes, units and a legend, the same every time.
import assert from "node:assert/strict";
import { test } from "node:test";
import { workloadOf } from "./bench.ts";
import { EXPERIMENTS } from "./experiments.ts";
import { SIZES } from "./experiment.ts";
import type { Result } from "./recorded.ts";
import { draw, figuresOf } from "./plots.ts";

const middle = { median: 5, min: 4, max: 6 };
const FIGURES = { per_second: middle, mean_ms: middle, failed_tries: middle, flushes: middle };

/** The cells of a whole run, all with the same figures. */
const RESULTS = EXPERIMENTS.map((experiment): Result => {
  const { name } = experiment;
  const cells = experiment.measurements("full").map(({ conditions, labels, row, groups }) => ({
    ...{ workload: workloadOf(conditions), row, rounds: 3, disturbed: 0, refused: 0, cpu_us: {} },
    labels: { ...conditions, ...labels },
    figures: {
      ...FIGURES,
      ...(groups.length > 1 && { [`${groups[0]?.name ?? ""} mean_ms`]: middle }),
      ...(name === "tpcc" && { "new_order mean_ms": middle, "new_order per_second": middle }),
    },
  }));
  const peaks = [{ workload: "uniform", way: "safe", row: "safe, all", per_second: 5 }];
  const settings = { ...SIZES.full };
  return { experiment: name, mode: "full", settings, cells, ratios: {}, bars: [], peaks, turns: [] };
}).filter(({ experiment }) => experiment !== "session");

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
