// Goal: a promise that one tracker has published binds all trackers. Method: another tracker's final marks arrive behind the
// record of the next epoch, before and after the loss was reported.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type EpochRecord } from "@highwater/protocol";
import { Driven, record } from "../../test/support/core.ts";

const first = record(1);
const second = (finalMarks: EpochRecord["finalMarks"]): EpochRecord =>
  record(2, { node: "b", cause: "promotion", fork: 50, start: 60, limit: 70, finalMarks });
const raised = second({ disk: "90", region: "80", global: "79" });

const LEVELS = ["disk", "region", "global"];
const verdicts = (it: Driven): string[] => LEVELS.map((level) => it.verdict(1, 1, 80, level));

function failedOver(): Driven {
  const it = Driven.following(first);
  it.position(1, 1, 80);
  it.follow(first, second({}));
  return it;
}

test("a promise that another tracker had published is broken, also after this tracker has reported the loss", () => {
  const it = failedOver();
  it.answer(75);
  it.positions(80);
  assert.deepEqual(verdicts(it), ["lost", "lost", "lost"]);
  it.report("b", [first, raised], { role: "primary" });
  // Another node has taken over, against which the primary's own disk promises nothing.
  assert.deepEqual(verdicts(it), ["lost", "broken", "lost"]);
  assert.equal(it.published.length, 2);
  it.report("b", [first, raised], { role: "primary" });
  assert.equal(it.published.length, 2, "once");
});

test("a promise that another tracker had published before the loss is reported as broken at once", () => {
  const it = failedOver();
  it.report("b", [first, raised], { role: "primary" });
  it.answer(75);
  it.positions(80);
  assert.deepEqual(verdicts(it), ["durable", "broken", "lost"]);
  assert.equal(it.published.length, 1);
});

test("final marks never go down, whichever node reports them", () => {
  const it = failedOver();
  it.report("b", [first, raised], { role: "primary" });
  it.report("b", [first, second({ region: "10" })], { role: "primary" });
  it.answer(75);
  it.positions(80);
  assert.deepEqual(verdicts(it), ["durable", "broken", "lost"]);
});

test("a read that another tracker knows to have been on the primary's disk is kept below the fork's limit, whichever node took over", () => {
  const it = Driven.following(first);
  const fork = record(2, { node: "b", cause: "promotion", fork: 50, start: 95, limit: 90 });
  it.follow(first, fork);
  it.present(1, 1, 80, "read");
  assert.equal(it.verdict(1, 1, 80, "disk", "read"), "pending");
  it.report("b", [first, { ...fork, finalMarks: { disk: "85" } }], { role: "primary" });
  it.positions(100);
  assert.equal(it.judge(1, 1, 80, "disk", "read").rule, "R3 carried over");
  assert.equal(it.verdict(1, 1, 80, "disk", "read"), "durable");
  assert.equal(it.published.length, 0);
});

test("a read that was reported lost and turns out to be kept is broken at every level", () => {
  const it = Driven.following(first);
  const fork = record(2, { node: "b", cause: "promotion", fork: 50, start: 95, limit: 90 });
  it.follow(first, fork);
  it.present(1, 1, 80, "read");
  it.positions(100);
  it.sleep(2_500);
  it.positions(100);
  assert.equal(it.verdict(1, 1, 80, "region", "read"), "lost");
  it.report("b", [first, { ...fork, finalMarks: { disk: "85" } }], { role: "primary" });
  assert.equal(it.judge(1, 1, 80, "region", "read").rule, "R8 reappeared");
  assert.equal(it.published.length, 2);
});
