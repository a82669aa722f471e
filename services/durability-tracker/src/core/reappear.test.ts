// Goal: what becomes of a verdict on a transaction when the history that has it is given up, and is current again.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type EpochRecord } from "@highwater/protocol";
import { Driven, epochId, record } from "../../test/support/core.ts";

const first = record(1);
/** A worse replica took over; above 50 nothing is proven. */
const second = record(2, { node: "b", fork: 50, start: 60 });
const LEVELS = ["disk", "zone", "region", "global"];
const BROKEN = ["broken", "broken", "broken", "broken"];

/** The first epoch's node was chosen over the second epoch's. `fork`: up to where the first epoch's log is proven to be here. */
const back = (fork: number): EpochRecord =>
  record(3, {
    node: "a",
    previous: epochId(1),
    fork,
    start: 95,
    commanded: true,
    supersedes: [epochId(2)],
  });

const verdicts = (it: Driven, kind: "read" | "write" = "write"): string[] =>
  LEVELS.map((level) => it.verdict(1, 1, 80, level, kind));

/** An id of the first epoch without an announced position was reported as lost in the second. */
function lostUnplaced(): Driven {
  const it = Driven.following(first);
  it.intent(1, 1);
  it.follow(first, second);
  it.sleep(5_000);
  it.answer(75);
  it.positions(80);
  assert.equal(it.published[0]?.verdicts["disk"], "lost");
  return it;
}

test("what was published as lost before its position was known stays lost for a client that holds its token", () => {
  const it = lostUnplaced();
  assert.deepEqual(verdicts(it), ["lost", "lost", "lost", "lost"]);
  it.follow(first, back(50));
  it.positions(100);
  it.answer(99, { 1: { kind: "commit", epoch: epochId(1) } });
  assert.deepEqual(verdicts(it), BROKEN);
});

test("a token that is carried over does not make durable what was published as lost", () => {
  const it = lostUnplaced();
  it.follow(first, back(80));
  it.positions(100);
  assert.equal(it.judge(1, 1, 80, "disk").rule, "R5 being proven");
  assert.equal(it.judge(1, 1, 80, "disk").needsProof, true);
  it.present(1, 1, 80);
  assert.deepEqual(verdicts(it), BROKEN);
  assert.equal(it.published.length, 2);
  it.answer(99, { 1: { kind: "commit", epoch: epochId(1) } });
  assert.equal(it.published.length, 2, "once");
});

test("a lost one whose place is carried over has reappeared before any look-up says so", () => {
  const it = Driven.following(first);
  it.position(1, 1, 80);
  it.follow(first, second);
  it.answer(75);
  it.positions(80);
  assert.deepEqual(verdicts(it), ["lost", "lost", "lost", "lost"]);
  it.follow(first, back(80));
  assert.deepEqual(verdicts(it), BROKEN);
  assert.equal(it.judge(1, 1, 80, "disk").rule, "R8 reappeared");
  assert.equal(it.published.length, 2);
  assert.equal(it.reads.length, 1, "its id is settled in this history like any other's");
});

test("a lost read is broken when the epoch that it read is current again", () => {
  const it = Driven.following(first);
  it.present(1, 1, 80, "read");
  it.follow(first, second);
  it.positions(80);
  assert.deepEqual(verdicts(it, "read"), ["lost", "lost", "lost", "lost"]);
  it.follow(first, back(80));
  assert.deepEqual(verdicts(it, "read"), BROKEN);
  assert.equal(it.published.length, 2);
});

test("what is back before its loss was published was never lost", () => {
  const it = Driven.following(first);
  it.confirm(100, { b: ["s1", 100] });
  it.position(1, 1, 80);
  const before = verdicts(it);
  assert.deepEqual(before, ["durable", "durable", "durable", "pending"]);
  it.follow(first, second);
  it.answer(75);
  assert.equal(it.stateOf(1, 1), "absent");
  assert.deepEqual(verdicts(it), ["pending", "pending", "pending", "pending"]);
  it.follow(first, back(50));
  it.answer(99, { 1: { kind: "commit", epoch: epochId(1) } });
  assert.deepEqual(verdicts(it), before);
  assert.equal(it.published.length, 0);
});

test("a place that is learned does not end the watch over an id that is gone", () => {
  const it = new Driven({ batch: 1 });
  it.follow(first);
  it.confirm(100, { b: ["s1", 100] });
  for (let n = 1; n <= 6; n++) it.intent(n, 1);
  it.follow(first, second);
  it.sleep(5_000);
  while (it.reads.length > 0) it.answer(75);
  it.positions(80);
  assert.equal(it.published.length, 6);
  it.follow(first, second, record(3, { node: "c", fork: 60, start: 90 }));
  const [unread] = it.reads.splice(0, 1);
  it.send({ kind: "receipts_unread", request: unread?.request ?? 0 });
  assert.equal(it.reads.length, 4, "it waits for its turn behind the others");
  it.present(1, 1, 80);
  assert.equal(it.published.length, 7, "a broken promise");
  while (it.reads.length > 0) {
    const ids = it.reads.map((read) => read.of[0]?.id);
    if (ids.includes(unread?.of[0]?.id ?? ("" as never))) return;
    it.answer(95);
  }
  assert.fail("it was never settled in the third epoch");
});
