// `make sim SEED=… RUNS=…`: plays so many random histories and prints what was met. A failure prints
// its seed, the history in readable words, made small, and the command that plays it again.
// Environment: SEED (default 1), RUNS (default 2000), RUN (plays this one again).
import { readOptions } from "@highwater/lab-tools/process";
import { describeFailure } from "./failure.ts";
import { drawNth, playScript } from "./run.ts";

readOptions(import.meta.filename, {});
const { SEED = "1", RUNS = "2000", RUN } = process.env;
const series = Number(SEED);
/** One single run, as a failure names it. */
const only = RUN === undefined || RUN === "" ? null : Number(RUN);

const met = new Map<string, number>();
const beganMs = performance.now();
let failed = 0;
let played = 0;
const end = only === null ? Number(RUNS) : only + 1;
for (let n = only ?? 0; n < end && failed === 0; n++) {
  const script = drawNth(series, n);
  const { failure, play } = await playScript(script);
  played++;
  for (const from of [play.met, play.checker.met])
    for (const [kind, count] of from) met.set(kind, (met.get(kind) ?? 0) + count);
  if (failure === null) continue;
  failed++;
  console.error(await describeFailure({ series, n }, script));
}
const seconds = (performance.now() - beganMs) / 1_000;
for (const [kind, count] of [...met].sort(([a], [b]) => (a < b ? -1 : 1)))
  console.log(`${kind.padEnd(40)} ${String(count)}`);
const runsPerMinute = Math.round((played / seconds) * 60);
console.log(
  JSON.stringify({ seed: series, runs: played, failed, seconds: Math.round(seconds), runsPerMinute }),
);
process.exitCode = failed === 0 ? 0 : 1;
