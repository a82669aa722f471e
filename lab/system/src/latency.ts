// `make latency`: measures the latency of a commit and of its durability over the default links,
// one transaction at a time.
import { Highwater, sql } from "@highwater/sdk";
import { System } from "./index.ts";

const EAST = "us-east";
const NEAREST_ROUND_TRIP_MS = 62;
const BAR_MS = 8;
const SAMPLES = 100;

const median = (times: number[]): number =>
  times.sort((a, b) => a - b)[Math.floor(times.length / 2)] ?? Number.NaN;

const system = await System.start();
const hw = new Highwater({ endpoints: await system.endpoints(EAST) });
await hw.transaction([sql`CREATE TABLE sample (n int)`], { ack: "durable" });
const commits: number[] = [];
const durables: number[] = [];
const safes: number[] = [];
for (let i = 0; i < SAMPLES; i++) {
  const started = performance.now();
  const tx = await hw.transaction([sql`INSERT INTO sample VALUES (${i})`]);
  const committed = performance.now();
  await tx.durable({ level: "region", timeoutMs: 10_000 });
  const durable = performance.now();
  await hw.transaction([sql`INSERT INTO sample VALUES (${i})`], { ack: "durable", level: "region" });
  commits.push(committed - started);
  durables.push(durable - committed);
  safes.push(performance.now() - durable);
}
await hw.close();
await system.close();
const [commitMs, durableMs, safeMs] = [median(commits), median(durables), median(safes)];
const round = (ms: number): number => Math.round(ms * 100) / 100;
console.log(`commit           p50 ${String(round(commitMs))} ms`);
console.log(
  `commit → durable p50 ${String(round(durableMs))} ms over a round trip of ${String(NEAREST_ROUND_TRIP_MS)} ms`,
);
console.log(`safe commit      p50 ${String(round(safeMs))} ms`);
const met = durableMs <= NEAREST_ROUND_TRIP_MS + BAR_MS;
console.log(
  JSON.stringify({
    commit_p50_ms: round(commitMs),
    durable_p50_ms: round(durableMs),
    safe_p50_ms: round(safeMs),
    round_trip_ms: NEAREST_ROUND_TRIP_MS,
    within_8_ms: met,
  }),
);
process.exit(met ? 0 : 1);
