// Goal: the simulation can fail. Method: each of the deliberate bugs in a process of its own, until the first run that finds it;
// the same runs pass without it.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { test } from "node:test";
import { MUTANTS } from "./mutants.ts";
import { draw, playScript, seedOf } from "./run.ts";

const SEED = 1;
const RUNS_MAX = 10_000;
const SIDE_BY_SIDE = 2;

interface Found {
  readonly runs: number | null;
  readonly message?: string;
}

function run(mutant: string): Promise<Found> {
  const here = (name: string): string => new URL(name, import.meta.url).pathname;
  const child = spawn(process.execPath, ["--import", here("mutate.ts"), here("mutant-run.ts")], {
    env: { ...process.env, MUTANT: mutant, SEED: String(SEED), RUNS: String(RUNS_MAX) },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let out = "";
  let err = "";
  child.stdout.on("data", (part: Buffer) => (out += part.toString()));
  child.stderr.on("data", (part: Buffer) => (err += part.toString()));
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0 || code === 3) resolve(JSON.parse(out) as Found);
      else reject(new Error(`the mutant "${mutant}" did not run: ${err}`));
    });
  });
}

test("every deliberate bug is found, and nothing is found without it", async (t) => {
  assert.ok(MUTANTS.length >= 10);
  const open = [...MUTANTS];
  const runs: number[] = [];
  const survivors: string[] = [];
  const work = async (): Promise<void> => {
    for (let next = open.shift(); next !== undefined; next = open.shift()) {
      const found = await run(next.name);
      t.diagnostic(
        `${next.name}: ${found.runs === null ? "survived" : `found in run ${String(found.runs)}`}`,
      );
      if (found.runs === null) survivors.push(next.name);
      else runs.push(found.runs);
    }
  };
  await Promise.all(Array.from({ length: SIDE_BY_SIDE }, work));
  assert.deepEqual(survivors, []);
  for (let n = 0; n < Math.max(...runs); n++) {
    const { failure } = playScript(draw(seedOf(SEED, n)));
    assert.equal(failure, null, `run ${String(n)} fails without a bug`);
  }
});
