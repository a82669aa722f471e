// The backlog against a plain list of the same attempts.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type Offset, type TxnId } from "@highwater/protocol";
import { Backlog } from "./backlog.ts";
import { epochId, off, txnId } from "../../test/support/core.ts";
import { type Waiting } from "./waiting-table.ts";

/** Half of the offsets fit in 64 bits. */
const LARGE = (1n << 64n) - 30n;
const LEVELS = ["disk", "region", "global"] as const;

type Act =
  | { readonly act: "add"; readonly n: number }
  | { readonly act: "advance"; readonly level: (typeof LEVELS)[number]; readonly mark: number }
  | { readonly act: "settle" }
  | { readonly act: "retire"; readonly atMs: number };

const act: fc.Arbitrary<Act> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ act: fc.constant("add" as const), n: fc.nat({ max: 60 }) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      act: fc.constant("advance" as const),
      level: fc.constantFrom(...LEVELS),
      mark: fc.nat({ max: 60 }),
    }),
  },
  fc.constant<Act>({ act: "settle" }),
  fc.record({ act: fc.constant("retire" as const), atMs: fc.nat({ max: 200 }) }),
);

/** The same by counting. */
class Plain {
  items: Waiting[] = [];
  marks = new Map<string, number>();

  reached = ({ offset }: Waiting, level: string): boolean =>
    offset <= LARGE + BigInt(this.marks.get(level) ?? -1);

  sorted(): string[] {
    return this.items.map(({ id, offset }) => `${String(offset)} ${id}`).sort();
  }
}

test("the backlog has the same attempts as a plain list, and marks pass the same ones", () => {
  fc.assert(
    fc.property(fc.array(act, { maxLength: 120 }), (acts) => {
      const backlog = new Backlog();
      backlog.begin(epochId(1), LEVELS);
      const plain = new Plain();
      for (const [at, step] of acts.entries()) {
        switch (step.act) {
          case "add": {
            const item: Waiting = {
              id: at % 2 === 0 ? txnId(at) : (crypto.randomUUID() as TxnId),
              offset: off(LARGE + BigInt(step.n)),
              atMs: at,
              owner: { owner: 0n, count: 0 },
              source: null,
              metadata: null,
              atRisk: null,
            };
            backlog.add(item);
            plain.items.push(item);
            break;
          }
          case "advance": {
            const before = plain.marks.get(step.level) ?? -1;
            const passed = backlog.upTo(step.level, off(LARGE + BigInt(step.mark))).map(({ id }) => id);
            let visited = 0;
            backlog.advance(step.level, off(LARGE + BigInt(step.mark)), () => visited++);
            assert.equal(visited, passed.length);
            const expected = plain.items.filter(
              ({ offset }) => offset > LARGE + BigInt(before) && offset <= LARGE + BigInt(step.mark),
            );
            assert.deepEqual([...passed].sort(), expected.map(({ id }) => id).sort());
            plain.marks.set(step.level, Math.max(before, step.mark));
            break;
          }
          case "settle": {
            const done = plain.items.filter((item) => LEVELS.every((level) => plain.reached(item, level)));
            const through = backlog.settle();
            const highest = done.reduce<Offset | null>(
              (max, { offset }) => (max === null || offset > max ? offset : max),
              null,
            );
            assert.equal(through, highest);
            plain.items = plain.items.filter((item) => !done.includes(item));
            break;
          }
          case "retire": {
            const left = backlog.retire(["region", "global"], ({ atMs }) => atMs < step.atMs);
            for (const item of left)
              assert.ok(plain.reached(item, "region") || plain.reached(item, "global"), "no one has it");
            const gone = new Set(left.map(({ id }) => id));
            plain.items = plain.items.filter(({ id }) => !gone.has(id));
            const last = left.at(-1)?.offset;
            if (last !== undefined)
              assert.ok(
                plain.items.every(({ offset }) => offset > last),
                "some of the same offset stayed",
              );
          }
        }
        assert.deepEqual(
          [...backlog].map(({ id, offset }) => `${String(offset)} ${id}`).sort(),
          plain.sorted(),
        );
        const offsets = [...backlog].map(({ offset }) => offset);
        assert.ok(offsets.every((offset, index) => index === 0 || (offsets[index - 1] ?? 0n) <= offset));
        assert.equal(backlog.size, plain.items.length);
        assert.equal(backlog.highest, offsets.at(-1) ?? null);
        for (const level of LEVELS) {
          const waiting = plain.items.filter((item) => !plain.reached(item, level));
          assert.equal(backlog.pendingAt(level), waiting.length, level);
          assert.equal(
            backlog.firstAt(level)?.offset,
            waiting.map(({ offset }) => offset).sort((a, b) => (a < b ? -1 : 1))[0],
          );
        }
        for (const item of plain.items)
          assert.deepEqual(backlog.get({ id: item.id, owner: item.owner.owner }), item);
        assert.ok(!backlog.has({ id: txnId(999), owner: 0n }));
      }
    }),
    { seed: 20_261_121, numRuns: 1_000 },
  );
});
