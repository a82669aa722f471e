// Goal: the page shows the figures that the programs printed. Method: excerpts of their output. If a program has a function
// that formats its output, the test uses what that function returns for made-up figures.
import assert from "node:assert/strict";
import { test } from "node:test";
import { machineReadable } from "@highwater/chaos/report";
import { reportOf, type Result, verdictOf } from "../../loadtests/rounds/bars.ts";
import { summaryOf, textOf } from "../../loadtests/k6/lib/summary.ts";
import { chosen, outcomeOf, type Stage, STAGES } from "./stages.ts";

function stageOf(name: string): Stage {
  const [stage, ...more] = STAGES.filter((each) => each.name === name);
  assert.ok(stage !== undefined && more.length === 0, name);
  return stage;
}

const trend = (med: number) => ({ values: { count: 370, med, "p(95)": 2 * med, "p(99)": 3 * med } });
const METRICS = {
  committed: { values: { count: 370 }, thresholds: { "count>0": { ok: true } } },
  commit_latency: { ...trend(3), thresholds: { "p(95)<50": { ok: false } } },
  durable_latency: trend(70),
};
const FAULTS = {
  postgres: "18.4",
  faults: { "kill gateway": 3, "cut link": 2 },
  failedFaults: [],
  judgement: null,
  kept: null,
};
const ROUND = `round  1  us-east > us-central: 580 committed, 537 durable, 43 lost, 0 pending, 0 wrong; verdicts after 3040 ms
No complaints.
{"rounds":1,"committed":580,"durable":537,"lost":43,"pending":0,"wrong":0,"verdict_after_promotion_ms_max":3040,"verdict_after_promotion_ms_p50":3040,"failovers":1}
met    wrong verdicts, or none: 0
MISSED ms from a promotion to the last verdict, at most 2000: 3040
make: *** [Makefile:74: failover-rounds] Error 1`;

const cell = (workload: string, row: string, median: number) => ({
  ...{ workload, row, rounds: 3, disturbed: 0, refused: 0, cpu_us: {} },
  figures: { per_second: { median, min: 7, max: 2_000 } },
});
const RESULT: Result = {
  cells: [
    cell("64 clients", "TypeScript SDK unshared", 1_950),
    cell("1 client, one statement", "fast", 8.25),
  ],
  ratios: { "typescript, 10,000 promises: bytes of sdk to bare": 1.28 },
  bars: [],
  turns: [],
};
const MISSED = {
  what: "64 clients: fast at least 1.3 times prepared node-postgres",
  measured: 0.9,
  met: false,
};

/** By stage: output, and the figures as `name: value`. */
const EXCERPTS: readonly (readonly [stage: string, output: string, ...figures: string[]])[] = [
  [
    "sim-1",
    `zombie     3090\n{"seed":1,"runs":2000,"failed":0,"seconds":24,"runsPerMinute":4963}`,
    ...["seed: 1", "runs: 2000", "failed: 0", "runs per minute: 4963"],
  ],
  [
    "fuzz",
    `{"target":"token","seed":7,"runs":64,"kept":8}\nFOUND by token (seed 7): Error\n{"target":"texts","seed":7,"runs":6,"kept":8}`,
    ...["targets: 2", "inputs: 70", "seed: 7", "found: 1"],
  ],
  [
    "chaos-5",
    `   1.0 s  starts the system\n${machineReadable(1, { ...FAULTS, error: "it broke off" })}`,
    ...["seed: 1", "faults: 5 of 2 kinds", "committed: null", "durable: null", "lost: null"],
    ...["unknown resolved: null", "promises broken: null", "pending: null", "violations: null"],
  ],
  [
    "bench-pgwire",
    `workload     row        per s              p50 ms\none client   wire safe  48.1 (47 to 48.2)  20.5\n128 hot      pgbouncer 8  297  400\n128 hot      direct on  430  110\n${verdictOf({ what: "128 hot: safe at least 8 times the best synchronous row", measured: 7.5, met: false })}`,
    "one client wire safe, transactions a second: 48.1",
    "128 hot direct on, transactions a second: 430",
    "128 hot: safe at least 8 times the best synchronous row: 7.5, MISSED",
  ],
  [
    "versions-16",
    `wire on PostgreSQL 16.14: 90 passed\n{"postgres":"16.14","from":"PyPI","wire":"90 passed","chaos":"seed 6"}`,
    ...["postgres: 16.14", "from: PyPI", "wire: 90 passed", "chaos: seed 6"],
  ],
  ["patroni-rows", `{"rows":13,"failed":0,"outcomes":[]}`, "rows: 13", "failed: 0"],
  [
    "soak-steady",
    `steady ...\nsteady: 300 s at 200 a second; 2 faults (cut 2)\n${verdictOf({ what: "growing lines (heap of a: b)", measured: 1, met: false })}`,
    ...["steady: 300 s at 200 a second; 2 faults (cut 2)", "growing lines (heap of a: b): 1, MISSED"],
  ],
  [
    "failover-rounds",
    ROUND,
    ...["rounds: 1", "failovers: 1", "committed: 580", "durable: 537", "lost: 43", "pending: 0", "wrong: 0"],
    ...["verdict after promotion ms p50: 3040", "verdict after promotion ms max: 3040"],
    "wrong verdicts, or none: 0, met",
    "ms from a promotion to the last verdict, at most 2000: 3040, MISSED",
  ],
  ["infra-test", "ℹ tests 4\nℹ suites 0\nℹ pass 4\nℹ skipped 1", "tests: 4", "pass: 4", "skipped: 1"],
  [
    "load-smoke",
    `${textOf(summaryOf({ metrics: METRICS }, { smoke: { duration: "10s" } }))}\ntable: {"kept":368,"missing":0}\nsdk: 40 fast commits, 0 failed: met`,
    "commits/s ack p50 p95 p99 ms durable p50 p95 p99 ms gap p50 ms safe p50 p95 ms dropped: 37.0 3.0 6.0 9.0 70.0 140.0 210.0 - - - 0",
    "370 committed: 0 durable, 0 lost, 0 broken, 0 unsettled, 0 conflicts, 0 refused, 0 unanswered",
    ...["table: {kept:368,missing:0}", "sdk: 40 fast commits, 0 failed: met"],
    ...["committed count>0: met", "commit_latency p(95)<50: MISSED"],
  ],
  [
    "bench-gateway",
    reportOf({ ...RESULT, bars: [MISSED] }, { figures: ["per_second"], parts: ["gateway"] }),
    "64 clients TypeScript SDK unshared, transactions a second: 1950",
    "1 client, one statement fast, transactions a second: 8.25",
    "64 clients: fast at least 1.3 times prepared node-postgres: 0.9, MISSED",
  ],
  [
    "bench-sdk",
    reportOf(RESULT, { figures: ["per_second"], parts: [] }),
    "typescript, 10,000 promises: bytes of sdk to bare: 1.280",
  ],
  [
    "bench-capacity",
    reportOf(
      {
        ...RESULT,
        ratios: { "2 gateways, 1 tracker: per_second, predicted to measured": 1.04 },
        bars: [{ ...MISSED, what: "ratio of predicted to measured at most 1.33" }],
      },
      { figures: [], parts: [] },
    ),
    "2 gateways, 1 tracker: per_second, predicted to measured: 1.040",
    "ratio of predicted to measured at most 1.33: 0.9, MISSED",
  ],
  [
    "bench-telemetry",
    `bytes sent: {}\n${verdictOf({ ...MISSED, what: "64 clients: on keeps at least 0.95 of the throughput" })}`,
    "64 clients: on keeps at least 0.95 of the throughput: 0.9, MISSED",
  ],
  [
    "bench-overload",
    reportOf(
      { ...RESULT, cells: [cell("overload", "overload 3", 160)] },
      { figures: ["per_second"], parts: ["gateway"] },
    ),
    "overload overload 3, transactions a second: 160",
  ],
  [
    "experiments",
    `\nlatency, 58 s\n     3.710  p50 to fast, 1 ms\n${verdictOf({ what: "0.95: safe at least 0.9 of fast", measured: 0.85, met: false })}`,
    ...["latency: 58 s", "0.95: safe at least 0.9 of fast: 0.85, MISSED"],
  ],
];

for (const [stage, output, ...figures] of EXCERPTS)
  test(`figures of ${stage}`, () => {
    const found = stageOf(stage).figures(output);
    assert.deepEqual(
      found.map(({ name, value }) => `${name}: ${value}`),
      figures,
    );
  });

const TRACKER = stageOf("bench-tracker");
const LATE = "MISSED mark latency p50 in ms at most 5: 7.1";
const WRONG = "MISSED wrong verdicts at most 0: 2";
const MAKE = "make: *** [Makefile:94: bench-tracker] Error 1";

for (const [what, stage, code, output, result] of [
  ["bars that are met", TRACKER, 0, "met    mark latency p50 in ms at most 5: 3.1\n", "passed"],
  [
    "a missed bar of a benchmark",
    TRACKER,
    2,
    `${LATE}\nmet    wrong verdicts at most 0: 0\n${MAKE}\n`,
    "missed",
  ],
  ["a missed bar of a quick run, which exits with 0", stageOf("experiments"), 0, `${LATE}\n`, "missed"],
  ["a missed bar about wrong answers", TRACKER, 2, `${LATE}\n${WRONG}\n${MAKE}\n`, "failed"],
  ["an error behind a missed bar", TRACKER, 2, `${LATE}\nError: it does not close\n${MAKE}\n`, "failed"],
  [
    "a signal behind a missed bar",
    TRACKER,
    2,
    `${LATE}\n${MAKE.replace("Error 1", "Error 137")}\n`,
    "failed",
  ],
  ["an error before any bar", TRACKER, 2, `Error: no database\n${MAKE}\n`, "failed"],
  ["a missed bar of a test", stageOf("soak-steady"), 2, `${LATE}\n${MAKE}\n`, "failed"],
  ["a success without figures", stageOf("sim-1"), 0, "", "failed"],
  ["a failover that was slow and right", stageOf("failover-rounds"), 2, ROUND, "missed"],
  [
    "a failure with figures",
    stageOf("failover-rounds"),
    2,
    ROUND.replace("met    wrong verdicts, or none: 0", "MISSED wrong verdicts, or none: 1"),
    "failed",
  ],
] as const)
  test(`${what}: ${result}`, () => {
    assert.equal(outcomeOf(stage, code, output).result, result);
  });

test("ONLY takes names and beginnings of names", () => {
  const names = (only: string): string[] => chosen(STAGES, only).map(({ name }) => name);
  assert.deepEqual(names("soak,chaos-5"), ["chaos-5", "soak-steady", "soak-tracker-down", "soak-overload"]);
  assert.equal(names("").length, STAGES.length);
  assert.throws(
    () => names("chaos-5,sim,so"),
    /there is no stage so: ONLY takes one or more of sim-1,sim-2,fuzz,/,
  );
});
