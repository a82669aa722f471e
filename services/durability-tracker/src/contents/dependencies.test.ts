// Goal: a lost transaction names whatever it may have read, and nothing that its snapshot excludes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { CONTENTS_LIMITS, readOrder } from "@highwater/protocol";
import { Dependencies, type Placed } from "./dependencies.ts";

const of = (
  id: string,
  order: [xid: number, snapshot: string] | null,
  more: Partial<Placed> = {},
): Placed => ({
  ...{ id, owner: "7", epoch: "e1", ...more },
  order: order && readOrder({ xid: String(order[0]), snapshot: order[1] }),
});

test("it names what its snapshot shows and what has no order, of its owner and epoch, newest first", () => {
  const all = [
    of("a", [10, "10:11:"]),
    of("b", [12, "11:13:11"]),
    of("c", [11, "11:14:"]),
    of("unkept", null),
    of("stranger", [9, "9:10:"], { owner: "8" }),
    of("elsewhere", [9, "9:10:"], { epoch: "e2" }),
  ];
  const dependencies = new Dependencies(all, true);
  const named = Object.fromEntries(all.map((each) => [each.id, dependencies.of(each)?.ids]));
  assert.deepEqual(named, {
    a: ["unkept"],
    // c had a lower id, and was still running when b ended.
    b: ["a", "unkept"],
    c: ["b", "a", "unkept"],
    unkept: undefined,
    stranger: [],
    elsewhere: [],
  });
});

test("it names a bounded number, and says that there are more, or may be", () => {
  const count = CONTENTS_LIMITS.dependsOn + 2;
  const all = Array.from({ length: count }, (_, at) =>
    of(`t${String(at)}`, [at, `${String(at)}:${String(at + 1)}:`]),
  );
  const newest = new Dependencies(all, true).of(all[count - 1] as Placed);
  assert.deepEqual(
    [newest?.ids.length, newest?.ids[0], newest?.more],
    [count - 2, `t${String(count - 2)}`, true],
  );
  const second = all[count - 2] as Placed;
  assert.deepEqual(
    [new Dependencies(all, true).of(second)?.more, new Dependencies(all, false).of(second)?.more],
    [false, true],
  );
});
