import assert from "node:assert/strict";
import { test } from "node:test";
import { jsonLines } from "../src/json/index.ts";

test("objects and lists have a line for each member down to the depth", () => {
  const value = { a: [{ b: [1, 2] }, null], c: "x", d: {}, left: undefined };
  const text = jsonLines(value, 2);
  assert.equal(text, '{\n "a": [\n  {"b":[1,2]},\n  null\n ],\n "c": "x",\n "d": {}\n}\n');
  assert.deepEqual(JSON.parse(text), JSON.parse(JSON.stringify(value)));
});
