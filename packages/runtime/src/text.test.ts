// Goal: a text is broken at spaces alone, and no line is longer than it must be.
import assert from "node:assert/strict";
import { test } from "node:test";
import { wrapText } from "./text.ts";

test("a line takes words until the next one would make it too long", () => {
  assert.deepEqual(wrapText("one two three four", 9), ["one two", "three", "four"]);
  assert.deepEqual(wrapText("one two three four", 8), ["one two", "three", "four"]);
  assert.deepEqual(wrapText("one two three four", 18), ["one two three four"]);
  assert.deepEqual(wrapText("", 9), [""]);
});

test("a word that is too long has a line of its own", () => {
  assert.deepEqual(wrapText("a documentation b", 5), ["a", "documentation", "b"]);
});
