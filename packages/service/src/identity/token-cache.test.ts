import assert from "node:assert/strict";
import { test } from "node:test";
import { ANYBODY } from "./anonymous.ts";
import { TokenCache } from "./token-cache.ts";

test("a token is known until its time, and not longer", () => {
  const cache = new TokenCache(10);
  const key = TokenCache.keyOf("a.b.c");
  assert.ok(!key.includes("a.b.c"));
  cache.put(key, ANYBODY, 100);
  assert.equal(cache.get(key, 99), ANYBODY);
  assert.equal(cache.get(key, 100), null);
  assert.equal(cache.size, 0, "it is not kept either");
});

test("it holds no more than it may, and the oldest go first", () => {
  const cache = new TokenCache(3);
  for (const key of ["a", "b", "c", "d", "b", "e"]) cache.put(key, ANYBODY, 1_000);
  assert.equal(cache.size, 3);
  assert.deepEqual(
    ["a", "b", "c", "d", "e"].map((key) => cache.get(key, 0) !== null),
    [false, true, false, true, true],
  );
});
