// The arithmetic of the benchmark: medians, ratios within a round, and what was not measured.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Measured, summarize, tableOf } from "./results.ts";
import type { Way } from "./protocol.ts";

const US: Readonly<Record<Way, number>> = { bare: 100, sdk: 120, batched: 30 };

/** Three rounds. The second was seven times as slow for all. */
function measured(): Measured {
  const rounds = [1, 7, 1].map((slower, at) => ({ slower, round: at + 1 }));
  const ways = ["bare", "sdk", "batched"] as const;
  const language = "typescript" as const;
  return {
    commits: rounds.flatMap(({ slower, round }) =>
      ways.flatMap((way) =>
        [1, 64]
          .filter((concurrency) => way !== "batched" || concurrency > 1)
          .map((concurrency) => ({ language, way, concurrency, round, cpuUs: slower * US[way] })),
      ),
    ),
    promises: rounds.flatMap(({ slower, round }) =>
      (["bare", "sdk"] as const).map((way) => ({
        ...{ language, way, round, bytesEach: 5 * US[way], streams: 1 },
        ...{ elapsedMs: slower * US[way], cpuMs: slower * US[way] },
      })),
    ),
    batching: rounds.flatMap(({ slower, round }) =>
      (["sdk", "batched"] as const).map((way) => ({
        ...{ language, way, round, tps: (way === "sdk" ? 1_000 : 4_000) / slower },
        ...{ clientCpuUs: slower * US[way], gatewayCpuUs: slower * US[way], databaseCpuUs: slower },
      })),
    ),
    load_average: { before: 1, after: 2 },
  };
}

test("a disturbed round changes nothing", () => {
  const { typescript, batching } = summarize(measured());
  assert.deepEqual(typescript?.commit_cpu_us.c1, { bare: 100, sdk: 120, ratio: 1.2, added: 20 });
  assert.deepEqual(typescript.commit_cpu_us.c64, {
    ...typescript.commit_cpu_us.c1,
    ...{ batched: 30, batched_ratio: 0.3 },
  });
  assert.deepEqual(typescript.pending_promise_bytes, { bare: 500, sdk: 600, ratio: 1.2 });
  assert.equal(typescript.streams, 1);
  assert.deepEqual(batching.typescript?.ratios, {
    ...{ tps: 4, client_cpu_us: 0.25, gateway_cpu_us: 0.25, database_cpu_us: 1 },
  });
});

test("a ratio compares within a round", () => {
  const all = measured();
  // Only a slow round is left of the SDK: its median is of other times than that of the bare client.
  const commits = all.commits.filter(({ way, round }) => way !== "sdk" || round === 2);
  const { typescript } = summarize({ ...all, commits });
  assert.deepEqual([typescript?.commit_cpu_us.c1.sdk, typescript?.commit_cpu_us.c1.ratio], [840, 1.2]);
});

test("what was not measured is an error, and a language that was left out is not there", () => {
  const all = measured();
  const commits = all.commits.filter(({ way }) => way !== "bare");
  assert.throws(() => summarize({ ...all, commits }), /nothing was measured of bare/);
  assert.ok(!("python_sync" in summarize(all)));
});

test("the table names every part", () => {
  const lines = tableOf(summarize(measured())).split("\n");
  assert.equal(lines.length, 7);
  assert.match(lines.at(-1) ?? "", /1000 to 4000 tps/);
});
