// Goal: the checker accepts every correct history and rejects every wrong one. Method: a serial
// database with failovers generates correct histories; each mutation changes one record so that no
// correct execution can explain the history.
import assert from "node:assert/strict";
import { test } from "node:test";
import { check } from "../src/check.ts";
import { generate } from "./support/generate.ts";
import { MUTATIONS } from "./support/mutations.ts";
import { Random } from "./support/random.ts";

const RUNS = 120;

/** Always the same seeds, so that a failure is the same on every machine. */
function forSeeds(count: number, judge: (seed: number) => void): void {
  for (let seed = 1; seed <= count; seed++) {
    try {
      judge(seed);
    } catch (error) {
      throw new Error(`seed ${String(seed)}`, { cause: error });
    }
  }
}

test("serial histories with failovers, zombies and returns are good", () => {
  const all: Record<string, number> = {};
  forSeeds(RUNS, (seed) => {
    const report = check(generate({ seed, transactions: 120, failures: 5, keys: 5 }));
    assert.deepEqual(report.violations, []);
    const { lost, broken, unknownResolved, durable } = report.counts;
    for (const [name, count] of Object.entries({ lost, broken, unknownResolved, durable })) {
      all[name] = (all[name] ?? 0) + count;
    }
  });
  // Without these cases the test would prove nothing.
  for (const [name, count] of Object.entries(all)) assert.ok(count > RUNS, `${name}: ${String(count)}`);
});

for (const [name, mutate] of Object.entries(MUTATIONS)) {
  test(`a history is bad when ${name}`, () => {
    let mutated = 0;
    forSeeds(RUNS / 2, (seed) => {
      const records = mutate(generate({ seed, transactions: 60, failures: 3, keys: 4 }), new Random(seed));
      if (records === null) return;
      mutated++;
      assert.notEqual(check(records).violationCount, 0);
    });
    assert.ok(mutated > RUNS / 10, `only ${String(mutated)} were mutated`);
  });
}
