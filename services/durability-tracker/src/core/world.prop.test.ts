// Goal: no history of failures makes the tracker promise what no disk has, bury what lives, or change its word.
// Method: random scripts against a small world that knows the truth; the seed is fixed, and a failure prints its script.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { configOf } from "./fixtures.test.ts";
import { type Op, OPS } from "./ops.test.ts";
import { Play, type Rules } from "./play.test.ts";

const SEED = 20_260_101;
const RUNS = Number(process.env["RUNS"] ?? 400);

const script = fc.array(
  fc.record<Op>({
    op: fc.constantFrom(...OPS),
    a: fc.nat({ max: 40 }),
    b: fc.nat({ max: 1_000 }),
  }),
  { minLength: 40, maxLength: 160, size: "max" },
);
const unfit = fc.option(fc.constantFrom("b", "d"), { freq: 6, nil: null });

function run(ops: readonly Op[], sick: string | null, rules: Rules): Play {
  const play = new Play(configOf({ batch: 3 }), rules, sick);
  for (const op of ops) play.play(op);
  play.settleDown();
  play.checkEnd();
  return play;
}

function property(rules: Rules): void {
  const seed = Number(process.env["SEED"] ?? SEED);
  fc.assert(
    fc.property(script, unfit, (ops, sick) => {
      run(ops, sick, rules);
    }),
    { seed, numRuns: RUNS },
  );
}

test("SPEC I1-I6: every verdict agrees with the truth, at every step and at the end", () => {
  property({ losesEvents: false, forgetsMarks: false });
});

test("SPEC I7: losing evidence never makes a verdict out of nothing", () => {
  property({ losesEvents: true, forgetsMarks: false });
});

test("SPEC I9: a tracker that is killed and started from a stale ledger promises nothing that is not true", () => {
  property({ losesEvents: false, forgetsMarks: true });
});

test("the world is worth playing in: every kind of verdict is met", () => {
  const met = new Set<string>();
  fc.assert(
    fc.property(script, (ops) => {
      const play = run(ops, null, { losesEvents: false, forgetsMarks: false });
      for (const verdict of play.told.values()) met.add(verdict);
      for (const { what } of play.published) met.add(what.retriedIn === null ? "published" : "retried");
    }),
    { seed: SEED, numRuns: RUNS },
  );
  for (const kind of ["durable", "lost", "broken", "published", "retried"])
    assert.ok(met.has(kind), `${kind} was never met`);
});
