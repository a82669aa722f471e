// `make soak`: the scenarios one after another, or one of them.
// Options:
//   --scenario NAME    steady, tracker-down or overload
//   --duration-s N     steady: duration (default 300); below five times the retention, rows still
//                      grow and the run fails
//   --rate N           steady: transactions a second (default 200)
//   --retention-s N    steady: retention of receipts, events and deliveries (default 60)
//   --fault-every-s N  steady: seconds between two faults; 0 for none (default 12)
//   --down-s N         tracker-down: how long the tracker is down (default 120)
//   --down-rate N      tracker-down: commits a second (default 1000)
//   --overload-s N     overload: duration of the tenfold load (default 15)
//   --keep             keep the folder with the services' logs
// Exit codes: 0 when the bars are met, 1 when something grows or is missing.
import { chmod } from "node:fs/promises";
import { availableParallelism, loadavg } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { readOptions, TemporaryFolder } from "@highwater/lab-tools/process";
import { RESULTS } from "../../loadtests/record.ts";
import { runOverload } from "./overload.ts";
import type { Recorder } from "./recorder.ts";
import { barsOf, type Report, textOf, writeReport } from "./report.ts";
import { runSteady } from "./steady.ts";
import { runTrackerDown } from "./tracker-down.ts";

const SCENARIOS = ["steady", "tracker-down", "overload"] as const;

const { values } = readOptions(import.meta.filename, {
  options: {
    scenario: { type: "string" },
    "duration-s": { type: "string", default: "300" },
    rate: { type: "string", default: "200" },
    "retention-s": { type: "string", default: "60" },
    "fault-every-s": { type: "string", default: "12" },
    "down-s": { type: "string", default: "120" },
    "down-rate": { type: "string", default: "1000" },
    "overload-s": { type: "string", default: "15" },
    keep: { type: "boolean", default: false },
  },
});

function numberOf(name: Exclude<keyof typeof values, "scenario" | "keep">): number {
  const value = Number(values[name]);
  if (!Number.isFinite(value) || value < 0) throw new Error(`--${name} ${values[name]} is not a number`);
  return value;
}

async function run(dir: string): Promise<Report> {
  const wanted = SCENARIOS.filter((name) => values.scenario === undefined || values.scenario === name);
  if (wanted.length === 0) throw new Error(`--scenario is one of ${SCENARIOS.join(", ")}`);
  const before = loadavg()[0] ?? 0;
  let recorder: Recorder | null = null;
  let report: Omit<Report, "load_average"> = {};
  for (const scenario of wanted) {
    const own = join(dir, scenario);
    console.log(`${scenario} ...`);
    if (scenario === "steady") {
      const faultEveryMs = 1_000 * numberOf("fault-every-s");
      const done = await runSteady({
        dir: own,
        durationS: numberOf("duration-s"),
        rate: numberOf("rate"),
        retentionMs: 1_000 * numberOf("retention-s"),
        faultEveryMs: faultEveryMs === 0 ? null : faultEveryMs,
      });
      recorder = done.recorder;
      report = { ...report, steady: done.steady };
    } else if (scenario === "tracker-down") {
      const options = { downS: numberOf("down-s"), rate: numberOf("down-rate"), marginS: 10 };
      report = { ...report, tracker_down: await runTrackerDown({ dir: own, ...options }) };
    } else {
      const options = { calmS: 8, overloadS: numberOf("overload-s") };
      report = { ...report, overload: await runOverload({ dir: own, ...options }) };
    }
  }
  const load_average = { cores: availableParallelism(), before, after: loadavg()[0] ?? 0 };
  const whole = { ...report, load_average };
  await writeReport(whole, recorder);
  return whole;
}

const folder = await TemporaryFolder.make("highwater-soak-");
const dir = folder.path;
await chmod(dir, 0o755);
const report = await run(dir);
console.log(textOf(report));
console.log(
  `load average ${JSON.stringify(report.load_average)}; figures and plot: ${fileURLToPath(new URL("soak.json", RESULTS))}, .csv, .svg`,
);
if (values.keep) {
  await folder.keep();
  console.log(`logs: ${dir}`);
} else await folder.remove();
process.exit(barsOf(report).every(({ met }) => met) ? 0 : 1);
