import assert from "node:assert/strict";
import { test } from "node:test";
import { withoutRedo, withRedo } from "./redo.ts";

test("who redoes a transaction leaves its metadata as a field of its own", () => {
  assert.deepEqual(withoutRedo(withRedo({ order: "7" })), { metadata: { order: "7" }, redo: "service" });
  assert.deepEqual(withoutRedo(withRedo(undefined)), { redo: "service" });
  assert.deepEqual(withoutRedo({ order: "7" }), { metadata: { order: "7" } });
  assert.deepEqual(withoutRedo({}), { metadata: {} });
  assert.deepEqual(withoutRedo(null), {});
});
