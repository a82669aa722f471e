// The load tests themselves: thresholds that cannot be met by doing nothing, the summary's pairs, the comparison with the table; and
// the smoke test on a real system, where k6 has been built.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { whyNoK6 } from "./find.ts";
import { summaryOf, textOf } from "./lib/summary.ts";
import { unfinished } from "./script.ts";
import { compareReported, parseReported } from "./reported.ts";

const trend = (med: number) => ({
  values: { min: 0, med, avg: med, "p(95)": 2 * med, "p(99)": 3 * med, max: 9 },
});

test("the summary pairs the time to the answer with the time until durable, by scenario", () => {
  const metrics = {
    committed: { values: { count: 70, rate: 7 }, thresholds: { "count>0": { ok: true } } },
    lost: { values: { count: 2, rate: 0.2 }, thresholds: { "count<=0": { ok: false } } },
    failed: { values: { rate: 0.25 } },
    "committed{scenario:before}": {
      values: { count: 40, rate: 4 },
      thresholds: { "count>=0": { ok: true } },
    },
    "commit_latency{scenario:before}": {
      ...trend(3),
      thresholds: { "max>=0": { ok: true }, "p(95)<50": { ok: true } },
    },
    "durable_latency{scenario:before}": trend(70),
    "durability_gap{scenario:before}": trend(67),
    "safe_latency{scenario:before}": { values: { ...trend(0).values, count: 0 } },
    "dropped_iterations{scenario:before}": { values: { count: 5, rate: 0.5 } },
  };
  const summary = summaryOf({ metrics }, { before: { duration: "20s" }, never: { duration: "5s" } });
  const [pair] = summary.pairs;
  assert.equal(summary.pairs.length, 1);
  assert.deepEqual(pair?.commit, { p50_ms: 3, p95_ms: 6, p99_ms: 9 });
  assert.equal(pair?.durable.p50_ms, 70);
  assert.equal(pair?.gap.p50_ms, 67);
  assert.equal(pair?.safe.p50_ms, null);
  assert.equal(pair?.dropped, 5);
  assert.equal(unfinished(summary), 68, "neither durable nor lost nor anything else");
  assert.deepEqual(summary.counts["lost"], 2);
  assert.equal(summary.failed_rate, 0.25);
  assert.deepEqual(
    summary.thresholds.map(({ metric, met }) => [metric, met]),
    [
      ["committed", true],
      ["lost", false],
      ["commit_latency{scenario:before}", true],
    ],
  );
  const text = textOf(summary);
  assert.match(text, /before +2\.0 +3\.0 +6\.0 +9\.0 +70\.0/);
  assert.match(text, /MISSED lost count<=0/);
  const [all] = summaryOf(
    { metrics: { committed: metrics.committed } },
    { smoke: { duration: "35s" } },
  ).pairs;
  assert.deepEqual([all?.scenario, all?.committed_per_s], ["all", 2]);
});

test("a missing transaction that was reported durable, and a present one that was reported lost, are found", () => {
  const log =
    'k6 says something\n{"id":"a","verdict":"durable"}\n{"id":"b","verdict":"lost"}\n{"id":"c","verdict":"durable"}\n';
  const reported = parseReported(log);
  assert.equal(reported.length, 3);
  assert.deepEqual(compareReported(reported, new Set(["a", "c"])), {
    kept: 2,
    missing: 0,
    returned: 0,
    unreported: 0,
  });
  assert.deepEqual(compareReported(reported, new Set(["a", "b", "d"])), {
    kept: 1,
    missing: 1,
    returned: 1,
    unreported: 1,
  });
});

const SMOKE_LIMIT_MS = 300_000;

test(
  "the smoke test passes on a real system in three regions",
  { skip: whyNoK6() ?? false, timeout: SMOKE_LIMIT_MS },
  async () => {
    // Beside other tests on a busy machine no latency says anything; that nothing fails, breaks or is forgotten does.
    const limits = ["COMMIT_P95_MS=none", "DURABLE_P95_MS=none", "DURATION_S=5", "RATE=10", "ERROR_RATE=0"];
    const args = [
      fileURLToPath(new URL("run.ts", import.meta.url)),
      ...limits.flatMap((each) => ["--env", each]),
    ];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (part: Buffer) => {
        output += part.toString();
      });
    const code = await new Promise((resolve) => child.once("exit", resolve));
    assert.equal(code, 0, output);
    assert.match(output, /met {4}broken count==0/);
    assert.match(output, /wire: [1-9]\d* safe commits, .* 0 clients failed: met/);
    assert.match(output, /sdk: [1-9]\d* fast commits, .* with shared requests, 0 failed: met/);
    assert.doesNotMatch(output, /_latency/, "a limit of a latency is held against a busy machine");
    assert.match(output, /"missing":0,"returned":0,"unreported":0/);
  },
);
