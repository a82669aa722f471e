// Goal: lost transactions are ordered by what their last snapshots show, whatever order their ids
// and the list have.
import assert from "node:assert/strict";
import { test } from "node:test";
import { mayHaveSeen, readOrder } from "@highwater/protocol";
import { inOrder } from "./order.ts";

const of = (name: string, xid: number, snapshot: string, epoch = "a") => ({
  name,
  epoch,
  order: readOrder({ xid: String(xid), snapshot }),
});

test("a transaction comes before another whose snapshot shows it, also with a higher id", () => {
  // 12 committed first, then 10, then 11. All the time 9 is running.
  const first = of("first", 12, "9:12:9,10,11");
  const second = of("second", 10, "9:13:9,11");
  const third = of("third", 11, "9:13:9");
  for (const list of [
    [first, second, third],
    [third, second, first],
    [second, third, first],
  ])
    assert.deepEqual(
      inOrder(list).map(({ name }) => name),
      ["first", "second", "third"],
    );
  assert.ok(mayHaveSeen(third, second) && mayHaveSeen(second, first));
  assert.ok(!mayHaveSeen(first, second) && !mayHaveSeen(second, third));
});

test("two that ran at the same time have seen nothing of each other, and one without an order may have", () => {
  const one = of("one", 10, "10:11:");
  const other = of("other", 11, "10:12:10");
  assert.ok(!mayHaveSeen(one, other) && !mayHaveSeen(other, one));
  const unknown = { name: "unknown", epoch: "a", order: null };
  assert.ok(mayHaveSeen(one, unknown) && mayHaveSeen(unknown, one));
  assert.ok(!mayHaveSeen({ ...one, epoch: "b" }, unknown), "it ran in a history without it");
  assert.deepEqual(
    inOrder([one, unknown]).map(({ name }) => name),
    ["unknown", "one"],
  );
});
