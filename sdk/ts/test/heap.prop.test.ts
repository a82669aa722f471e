// Goal: a mark takes exactly what it has passed. Method: the heap against a plain list, through any order of calls.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type HeapItem, OffsetHeap } from "../src/heap.ts";

const call = fc.oneof(
  fc.record({ kind: fc.constant("push" as const), value: fc.nat(50) }),
  fc.record({ kind: fc.constant("drop" as const), value: fc.nat(200) }),
  fc.record({ kind: fc.constant("take" as const), value: fc.nat(50) }),
);

test("property: the heap is the list", () => {
  fc.assert(
    fc.property(fc.array(call, { maxLength: 400 }), (calls) => {
      const heap = new OffsetHeap<HeapItem>();
      let list: HeapItem[] = [];
      for (const { kind, value } of calls) {
        if (kind === "push") {
          const item = { offset: BigInt(value), live: true };
          heap.push(item);
          list.push(item);
        } else if (kind === "drop") {
          const item = list[value % Math.max(1, list.length)];
          if (item === undefined) continue;
          heap.drop(item);
          heap.drop(item);
          list = list.filter((each) => each !== item);
        } else {
          const taken = heap.takeUpTo(BigInt(value));
          const expected = list.filter((item) => item.offset <= BigInt(value));
          assert.deepEqual(new Set(taken), new Set(expected));
          assert.equal(taken.length, expected.length);
          list = list.filter((item) => item.offset > BigInt(value));
        }
      }
      assert.deepEqual(new Set(heap.takeUpTo(1_000n)), new Set(list));
    }),
  );
});

test("items that were dropped do not stay in memory", () => {
  const heap = new OffsetHeap<HeapItem>();
  for (let i = 0; i < 10_000; i++) {
    const item = { offset: 5n, live: true };
    heap.push(item);
    heap.drop(item);
  }
  assert.ok(heap.size < 200, `${String(heap.size)} items`);
});
