import assert from "node:assert/strict";
import { test } from "node:test";
import { compare, TestNames } from "./test-names.ts";

test("a name leads through all suites, and equal names stay apart", () => {
  const names = new TestNames();
  const report = (nesting: number, name: string): void => {
    names.add({ nesting, name } as Parameters<TestNames["add"]>[0]);
  };
  report(2, "works");
  report(1, "inner");
  report(1, "works");
  report(0, "outer");
  report(1, "works");
  report(0, "other");
  assert.deepEqual(names.lines, [
    "outer > inner > works",
    "outer > inner",
    "outer > works",
    "outer",
    "other > works",
    "other",
  ]);
});

test("a test that is gone is missing, also when another one keeps its name", () => {
  const result = compare(["a", "a", "b", "c"], ["a", "d"], new Set(["c"]));
  assert.deepEqual(result, { missing: ["a", "b"], explained: ["c"], added: ["d"] });
});
