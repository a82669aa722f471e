// What is worked out once for an epoch is what every position of it would get by itself, in whatever histories there are.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Driven, epochId, off, record } from "../../test/support/core.ts";
import { Fates } from "./fates.ts";
import { carry, hasEnded, reachedBits } from "./verdict.ts";

const SEED = 20_261_127;
const EPOCHS = 6;
const at = fc.integer({ min: 0, max: 120 });

/** An epoch after the first: which one it follows, and what it has and promised of that one. */
const step = fc.record({
  before: fc.nat({ max: EPOCHS }),
  fork: at,
  start: at,
  node: fc.constantFrom("a", "b", "c"),
  finalMarks: fc.dictionary(fc.constantFrom("disk", "zone", "region"), at.map(String)),
});
const history = fc.record({
  steps: fc.array(step, { minLength: 1, maxLength: EPOCHS - 1 }),
  marks: fc.array(fc.tuple(fc.integer({ min: 1, max: EPOCHS }), fc.constantFrom("disk", "region"), at)),
  current: fc.integer({ min: 1, max: EPOCHS }),
});

test("what holds for all positions of an epoch is what holds for each", () => {
  let seen = 0;
  fc.assert(
    fc.property(history, fc.array(fc.tuple(fc.integer({ min: 1, max: EPOCHS + 1 }), at)), (past, asked) => {
      const records = past.steps.map(({ before, finalMarks, ...rest }, n) =>
        record(n + 2, {
          ...rest,
          finalMarks: { ...finalMarks },
          previous: epochId(1 + (before % (n + 1))),
          cause: "promotion",
        }),
      );
      const it = new Driven();
      const all = [record(1), ...records];
      it.report("a", all);
      const current = all[past.current % all.length] ?? record(1);
      it.send({
        kind: "epoch_followed",
        epoch: current.id as ReturnType<typeof epochId>,
        node: current.node,
      });
      for (const [epoch, level, mark] of past.marks)
        it.send({
          kind: "witnesses_read",
          epoch: epochId(epoch),
          reached: new Map(),
          marks: new Map([[level, off(mark)]]),
        });
      const fates = new Fates(it.state);
      for (const [epoch, offset] of asked) {
        const position = { epoch: epochId(epoch), offset: off(offset) };
        assert.deepEqual(fates.carry(position), carry(it.state, position));
        assert.equal(fates.reachedBits(position), reachedBits(it.state, position));
        assert.equal(fates.hasEnded(position.epoch), hasEnded(it.state, position.epoch));
        if (fates.carry(position)?.epoch !== position.epoch && fates.reachedBits(position) !== 0) seen++;
      }
    }),
    { seed: SEED, numRuns: 2_000 },
  );
  assert.ok(seen > 100, "too few of them had been durable and were carried over, or were not");
});
