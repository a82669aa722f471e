// `make chaos-mutants`: runs every mutant of the product under the faults that expose it. The
// checker has to find each. The last line is JSON. Options: --seed N, --only TEXT (mutants whose
// names contain it). Exit codes: 0 when each was found, 1 when one was not.
import { readOptions } from "@highwater/lab-tools/process";
import { startThreeRegions } from "../nemesis/three-regions.ts";
import { runChaos } from "../run.ts";
import { startWorkload } from "../workload/index.ts";
import { type Mutant, MUTANTS } from "./list.ts";

const DURATION_MS = 30_000;
const RATE = 60;
/** Faults expose a bug by chance, so a mutant that one run misses gets another seed. */
const RUNS = 3;

/** The rules that the mutant violated; null when no run violated any. */
async function caughtBy({ name, faults, replays }: Mutant, seed: number): Promise<readonly string[] | null> {
  for (let run = 0; run < RUNS; run++) {
    const { judgement, error } = await runChaos({
      seed: seed + run,
      durationMs: DURATION_MS,
      rate: RATE,
      startRig: () =>
        startThreeRegions(faults, {
          mutant: name,
          hasKeys: name.includes("webhook"),
          replays: replays === true,
        }),
      startWorkload,
      say: () => undefined,
    });
    const rules = Object.keys(judgement?.violations_by_rule ?? {});
    if (rules.length > 0) return rules;
    console.error(`${name}: seed ${String(seed + run)} finds nothing${error === null ? "" : ` (${error})`}`);
  }
  return null;
}

const { values } = readOptions(import.meta.filename, {
  options: { seed: { type: "string", default: "1" }, only: { type: "string", default: "" } },
});
let caught = 0;
const chosen = MUTANTS.filter(({ name }) => name.includes(values.only));
for (const mutant of chosen) {
  const rules = await caughtBy(mutant, Number(values.seed));
  if (rules !== null) caught++;
  console.log(
    `${rules === null ? "MISSED" : "caught"}  ${mutant.name}${rules === null ? "" : `: ${rules.join(", ")}`}`,
  );
}
console.log(JSON.stringify({ mutants: chosen.length, caught }));
process.exit(caught === chosen.length && caught > 0 ? 0 : 1);
