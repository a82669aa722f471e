// Goal: what any tracker knows of an ended epoch's marks gets to all. Method: states as histories leave them, and the marks
// that follow from them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Driven, epochId, record } from "../../test/support/core.ts";
import { marksToShare } from "./shared-marks.ts";

const first = record(1);
const onB = record(2, { node: "b", fork: 50, start: 60, limit: 70 });
const onC = record(3, { previous: epochId(1), node: "c", commanded: true, fork: 10, start: 90, limit: 70 });

test("what was received of the epoch before is shared while the record says less", () => {
  const it = Driven.following(first);
  it.confirm(80, { b: ["s1", 40] });
  it.follow(first, onB);
  const shared = marksToShare([first, onB], it.state);
  assert.equal(shared.get(epochId(2))?.["disk"], "80");
  assert.equal(shared.get(epochId(2))?.["region"], "40");
  assert.equal(shared.has(epochId(1)), false);
  const raised = { ...onB, finalMarks: shared.get(epochId(2)) ?? {} };
  assert.equal(marksToShare([first, raised], it.state).size, 0);
});

test("what the marks of a history that was given up say of the epoch before it is shared as well", () => {
  const it = Driven.following(first);
  it.follow(first, onB);
  it.confirm(65, { a: ["s1", 65] });
  it.follow(first, onC);
  assert.equal(marksToShare([first, onC], it.state).get(epochId(3))?.["region"], "50", "up to the fork");
});

test("what somebody had written, and a crash has taken from the record, is written again", () => {
  const it = Driven.following(first, { ...onB, finalMarks: { region: "40" } });
  assert.deepEqual(marksToShare([first, onB], it.state), new Map([[epochId(2), { region: "40" }]]));
});

test("what the current epoch's own marks say is not shared: each tracker receives it itself", () => {
  const it = Driven.following(first);
  it.follow(first, onB);
  it.confirm(65, { a: ["s1", 65] });
  assert.equal(marksToShare([first, onB], it.state).size, 0);
});
