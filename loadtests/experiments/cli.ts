// `make experiments`: reruns the papers' experiments, each on a system of its own, and writes its
// result before the next begins.
// Options: --quick (seconds), --only NAME,…, --resume (leaves out what has a result of this commit
// and these settings), --profile FOLDER (processor profiles of both services), --page (only draws
// the figures and the page again).
// Exit codes: 0 when it was measured and, in a full run, every bar is met; 1 when a bar is missed
// or an experiment failed.
import { resolve } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { whyNoPgBouncer } from "@highwater/lab-tools/postgres";
import { readOptions } from "@highwater/lab-tools/process";
import { reportOf } from "../rounds/bars.ts";
import { commit, ELSEWHERE, record } from "../record.ts";
import { cellsOf } from "../rounds/figures.ts";
import { REFUSALS_MAX, type Subject, takeTurns } from "../rounds/turns.ts";
import { Bench, type Measurement, workloadOf } from "./bench.ts";
import { type Experiment, type Mode, plannedSeconds, RUN_S_MAX, SIZES, windowS } from "./experiment.ts";
import { EXPERIMENTS } from "./experiments.ts";
import { partsOf, writePage } from "./page.ts";
import { readRecorded, type Result } from "./recorded.ts";
import { ExperimentSystem } from "./system.ts";

const FIGURES = ["per_second", "mean_ms", "p50_ms", "p99_ms", "failed_tries", "given_up"];
/** For the first measurement of an experiment, which does not count. */
const COMPILING_S = 6;

const { values } = readOptions(import.meta.filename, {
  options: {
    quick: { type: "boolean", default: false },
    only: { type: "string", default: "" },
    resume: { type: "boolean", default: false },
    profile: { type: "string" },
    page: { type: "boolean", default: false },
  },
});
const mode: Mode = values.quick ? "quick" : "full";
const named = values.only === "" ? EXPERIMENTS.map(({ name }) => name) : values.only.split(",");
const wanted = EXPERIMENTS.filter(({ name }) => named.includes(name));
if (wanted.length !== named.length)
  throw new Error(`--only takes some of ${EXPERIMENTS.map(({ name }) => name).join(",")}`);
const noPool = whyNoPgBouncer();
const left = wanted.filter((experiment) => !(values.resume && isMeasured(experiment)));
const plannedS = left.reduce((sum, experiment) => sum + plannedSeconds(experiment, mode), 0);
/** For turns that are taken again. */
let spareMs = 1_000 * (RUN_S_MAX - plannedS);

function mayTakeAgain(tookMs: number): boolean {
  if (spareMs < tookMs) return false;
  spareMs -= tookMs;
  return true;
}

function settingsOf({ settings }: Experiment): Result["settings"] {
  return { ...SIZES[mode], pgbouncer: noPool === false, ...settings };
}

/** Of the same code, so that a run goes on where it stopped. Changed files are no commit. */
function isMeasured(experiment: Experiment): boolean {
  const recorded = readRecorded(mode, experiment.name);
  const here = commit();
  return (
    recorded !== null &&
    here !== null &&
    !here.endsWith("+") &&
    recorded.commit === here &&
    isDeepStrictEqual(recorded.settings, JSON.parse(JSON.stringify(settingsOf(experiment))))
  );
}

async function run(experiment: Experiment): Promise<void> {
  const { name } = experiment;
  const startedMs = performance.now();
  const say = (what: string): void => {
    console.error(`… ${name}: ${what}`);
  };
  const profile = values.profile === undefined ? undefined : resolve(values.profile, name);
  const { gatewayEnv, withFarGateway } = experiment;
  await using system = await ExperimentSystem.start({ profile, gatewayEnv, withFarGateway });
  const bench = new Bench(system);
  try {
    say("making its tables");
    await experiment.prepare(system, mode);
    const measurements = experiment
      .measurements(mode)
      .filter(({ groups }) => noPool === false || groups.every(({ way }) => way !== "pgbouncer_on"));
    const result = await measureAll(experiment, { bench, measurements, say });
    await bench.check();
    await experiment.check?.(system);
    const seconds = Math.round((performance.now() - startedMs) / 1_000);
    record(`experiments/${mode}/${name}`, { ...result, seconds });
    print(result, seconds);
  } finally {
    bench.close();
  }
}

async function measureAll(
  experiment: Experiment,
  {
    bench,
    measurements,
    say,
  }: {
    readonly bench: Bench;
    readonly measurements: readonly Measurement[];
    readonly say: (what: string) => void;
  },
): Promise<Result> {
  const { rounds, warmUpS } = SIZES[mode];
  const subjects = measurements.map((each): Subject => {
    const times = { warmUpS, windowS: windowS(each, mode) };
    const measure: Subject["measure"] = () =>
      experiment.measure?.(bench, each, times) ?? bench.measure(each, times);
    return { workload: workloadOf(each.conditions), row: each.row, measure };
  });
  // Until its code is compiled, a service takes three times as long.
  const [first] = measurements;
  if (first !== undefined) await bench.measure(first, { warmUpS: 0, windowS: COMPILING_S });
  const refusalsMax = mode === "quick" ? 0 : REFUSALS_MAX;
  const turns = await takeTurns(subjects, { rounds, refusalsMax, mayTakeAgain, say });
  const labels = new Map(
    measurements.map((each) => [
      JSON.stringify([workloadOf(each.conditions), each.row]),
      { ...each.conditions, ...each.labels },
    ]),
  );
  const cells = cellsOf(turns).map((cell) => ({
    ...cell,
    labels: labels.get(JSON.stringify([cell.workload, cell.row])) ?? {},
  }));
  const settings = settingsOf(experiment);
  return { experiment: experiment.name, mode, settings, cells, ...experiment.judge(turns), turns };
}

function print(result: Result, seconds: number): void {
  const { experiment, cells, peaks = [] } = result;
  // One round of a quick run may have nothing to compare.
  const bars = result.bars.filter(({ measured }) => mode === "full" || !Number.isNaN(measured));
  console.log(
    [
      `\n${experiment}, ${String(seconds)} s`,
      ...peaks.map(
        ({ workload, way, row, per_second }) =>
          `${per_second.toFixed(0).padStart(10)}  peak of ${way} (${row}), ${workload}`,
      ),
      reportOf({ ...result, bars }, { figures: FIGURES, parts: partsOf(cells) }),
    ].join("\n"),
  );
}

let areMet = true;
if (!values.page) {
  for (const { name } of wanted.filter((experiment) => !left.includes(experiment)))
    console.error(`… ${name}: has a result of this commit already`);
  const [planned, most] = [plannedS, RUN_S_MAX].map((seconds) => (seconds / 60).toFixed(0));
  console.log(`planned: ${planned ?? ""} minutes; with turns that are taken again, at most ${most ?? ""}`);
  if (noPool !== false) console.log(`rows of PgBouncer are left out: ${noPool}`);
  for (const experiment of left) await run(experiment);
  // Also those that an earlier part of this run has missed.
  areMet = wanted.every(({ name }) => readRecorded(mode, name)?.bars.every(({ met }) => met) === true);
}
// The page is of the results in the tree.
if (values.page || (mode === "full" && ELSEWHERE === undefined)) await writePage();
// Seconds are too short for a verdict: a quick run shows that everything works, and its bars are
// for the reader.
process.exit(areMet || mode === "quick" ? 0 : 1);
