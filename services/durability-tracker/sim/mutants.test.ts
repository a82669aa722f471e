// Goal: the simulation can fail. Method: each of the deliberate bugs in a process of its own, until the first run that finds it;
// the same runs pass without it.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { type Mutant, MUTANTS } from "./mutants.ts";
import { ANYTHING, draw, playScript, seedOf, WITH_WIRE } from "./run.ts";
import { HONEST } from "./world.ts";

const MUTATE = new URL("mutate.ts", import.meta.url).href;
const MUTANT_RUN = fileURLToPath(new URL("mutant-run.ts", import.meta.url));
const SERIES = 1;
const RUNS_MAX = 10_000;
const SIDE_BY_SIDE = 2;

interface Found {
  readonly runs: number | null;
  readonly message?: string;
}

function run({ name: mutant, series = SERIES, from = 0, wires }: Mutant): Promise<Found> {
  const child = spawn(process.execPath, ["--import", MUTATE, MUTANT_RUN], {
    env: {
      ...process.env,
      MUTANT: mutant,
      SEED: String(series),
      FROM: String(from),
      RUNS: String(RUNS_MAX),
      WIRES: wires === true ? "1" : "",
    },
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

/** A habit needs no patched source, and so no process of its own. */
async function runHere({ habit, series = SERIES, from = 0 }: Mutant): Promise<Found> {
  assert.ok(habit !== undefined);
  for (let n = from; n < RUNS_MAX; n++)
    if ((await playScript(draw(seedOf(series, n)), { ...HONEST, [habit]: true })).failure !== null)
      return { runs: n + 1 };
  return { runs: null };
}

test("every deliberate bug is found, and nothing is found without it", async (t) => {
  const open = [...MUTANTS];
  /** The runs that have to pass without a bug: of a series, from one on, up to a number. */
  const needed = new Map<string, readonly [series: number, from: number, to: number, wires: boolean]>();
  const survivors: string[] = [];
  const work = async (): Promise<void> => {
    for (let next = open.shift(); next !== undefined; next = open.shift()) {
      const found = await (next.patch === undefined ? runHere(next) : run(next));
      t.diagnostic(
        `${next.name}: ${found.runs === null ? "survived" : `found in run ${String(found.runs)}`}`,
      );
      if (found.runs === null) survivors.push(next.name);
      const { series = SERIES, from = 0, wires = false } = next;
      const key = `${String(series)}/${String(from)}/${String(wires)}`;
      needed.set(key, [series, from, Math.max(needed.get(key)?.[2] ?? 0, found.runs ?? 0), wires]);
    }
  };
  await Promise.all(Array.from({ length: SIDE_BY_SIDE }, work));
  assert.deepEqual(survivors, []);
  for (const [series, from, to, wires] of needed.values())
    for (let n = from; n < to; n++) {
      const { failure } = await playScript(draw(seedOf(series, n), wires ? WITH_WIRE : ANYTHING));
      assert.equal(failure, null, `run ${String(n)} of seed ${String(series)} fails without a bug`);
    }
});
