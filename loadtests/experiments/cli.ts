// `make experiments`: reruns the papers' experiments, each on a system of its own, and writes its
// result before the next begins.
// Options: --quick, --only NAME,…, --resume (leaves out what has a result of the same mode),
// --profile FOLDER (processor profiles of both services), --page (only draws the figures and the
// page again).
// Exit codes: 0 when it was measured and, in a full run, every bar is met; 1 when a bar is missed
// or an experiment failed.
import { resolve } from "node:path";
import { readOptions } from "@highwater/lab-tools/process";
import { verdictOf } from "../gateway/results.ts";
import { ELSEWHERE, record } from "../record.ts";
import { auction } from "./auction.ts";
import { Bench } from "./bench.ts";
import { contention } from "./contention.ts";
import type { Experiment, Mode } from "./experiment.ts";
import { tableOf } from "./figures.ts";
import { groups } from "./groups.ts";
import { latency } from "./latency.ts";
import { mixed } from "./mixed.ts";
import { readRecorded, writePage } from "./page.ts";
import { ExperimentSystem } from "./system.ts";
import { tpcc } from "./tpcc.ts";

const EXPERIMENTS: readonly Experiment[] = [latency, mixed, contention, tpcc, auction, groups];

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

/** Answers whether every bar was met. */
async function run(experiment: Experiment): Promise<boolean> {
  const { name } = experiment;
  const startedMs = performance.now();
  const profile = values.profile === undefined ? undefined : resolve(values.profile, name);
  await using system = await ExperimentSystem.start({ profile, gatewayEnv: experiment.gatewayEnv });
  const bench = await Bench.of(system);
  try {
    const result = await experiment.run({ bench, mode, say: (what) => console.error(`… ${name}: ${what}`) });
    await bench.check();
    const seconds = Math.round((performance.now() - startedMs) / 1_000);
    record(`experiments/${mode}/${name}`, { ...result, seconds });
    const ratios = Object.entries(result.ratios).map(
      ([what, value]) => `${value.toFixed(3).padStart(10)}  ${what}`,
    );
    console.log(
      [`\n${name}, ${String(seconds)} s`, tableOf(result), ...ratios, ...result.bars.map(verdictOf)].join(
        "\n",
      ),
    );
    return result.bars.every(({ met }) => met);
  } finally {
    bench.close();
  }
}

let areMet = true;
if (!values.page)
  for (const experiment of wanted)
    if (values.resume && readRecorded(mode, experiment.name) !== null)
      console.error(`… ${experiment.name}: has a result already`);
    else areMet = (await run(experiment)) && areMet;
// The page is of the results in the tree.
if (values.page || ELSEWHERE === undefined) await writePage();
// Seconds are too short for a verdict: a quick run shows that everything works, and its bars are
// for the reader.
process.exit(areMet || mode === "quick" ? 0 : 1);
