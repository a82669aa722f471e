// Goal: the simulation can fail. Method: each of the deliberate bugs in an instance of the product and of the simulation, until the
// first run that finds it; the same runs pass without it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Mutant, MUTANTS } from "./mutants.ts";
import { loadWith } from "./mutate.ts";
import * as unpatched from "./run.ts";
import { HONEST } from "./world.ts";

const { ANYTHING, draw, playScript, seedOf, WITH_WIRE } = unpatched;
const SERIES = 1;
const RUNS_MAX = 10_000;

/** How many runs it took to find the bug, or null. A habit needs no patched source. */
async function runsUntilFound(mutant: Mutant): Promise<number | null> {
  const { name, patch, habit, series = SERIES, from = 0, wires = false } = mutant;
  const sim = patch === undefined ? unpatched : await loadWith(name, patch);
  const habits = habit === undefined ? HONEST : { ...HONEST, [habit]: true };
  for (let n = from; n < RUNS_MAX; n++) {
    const script = draw(seedOf(series, n), wires ? WITH_WIRE : ANYTHING);
    if ((await sim.playScript(script, habits)).failure !== null) return n + 1;
  }
  return null;
}

test("every deliberate bug is found, and nothing is found without it", async (t) => {
  /** The runs that have to pass without a bug: of a series, from one on, up to a number. */
  const needed = new Map<string, readonly [series: number, from: number, to: number, wires: boolean]>();
  const survivors: string[] = [];
  for (const mutant of MUTANTS) {
    const runs = await runsUntilFound(mutant);
    t.diagnostic(`${mutant.name}: ${runs === null ? "survived" : `found in run ${String(runs)}`}`);
    if (runs === null) survivors.push(mutant.name);
    const { series = SERIES, from = 0, wires = false } = mutant;
    const key = `${String(series)}/${String(from)}/${String(wires)}`;
    needed.set(key, [series, from, Math.max(needed.get(key)?.[2] ?? 0, runs ?? 0), wires]);
  }
  assert.deepEqual(survivors, []);
  for (const [series, from, to, wires] of needed.values())
    for (let n = from; n < to; n++) {
      const { failure } = await playScript(draw(seedOf(series, n), wires ? WITH_WIRE : ANYTHING));
      assert.equal(failure, null, `run ${String(n)} of seed ${String(series)} fails without a bug`);
    }
});
