// Goal: a gateway that asks about an id gets the answer that the holder of its token gets.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Driven, epochId, off, record, txnId } from "../../test/support/core.ts";
import { judgeHeld } from "./index.ts";

const first = record(1);
const second = record(2, { node: "b", cause: "promotion", fork: 50, start: 60 });
const third = record(3, { node: "c", cause: "promotion", fork: 70, start: 90 });
const LEVELS = ["disk", "zone", "region", "global"];
const byId = (it: Driven, n: number): (string | undefined)[] =>
  LEVELS.map((level) => judgeHeld(it.state, [{ id: txnId(n), owner: 0n }], level)[0]?.judgement.verdict);

/** The first transaction was on the disks of two regions; one of them took over, without it. */
function promoted(): Driven {
  const it = Driven.following(first);
  it.position(1, 1, 80);
  it.confirm(80, { b: ["s1", 80] });
  it.follow(first, second);
  return it;
}

test("an entry that is found by id gets the verdict of its token, at every level", () => {
  const it = promoted();
  const byToken = (): string[] => LEVELS.map((level) => it.verdict(1, 1, 80, level));
  assert.deepEqual(byId(it, 1), ["pending", "pending", "pending", "pending"]);
  it.answer(75);
  it.positions(80);
  assert.deepEqual(byId(it, 1), ["durable", "broken", "broken", "lost"]);
  assert.deepEqual(byId(it, 1), byToken());
  const [held] = judgeHeld(it.state, [{ id: txnId(1), owner: 0n }], "disk");
  assert.deepEqual([held?.attempt, held?.origin], [epochId(1), { epoch: epochId(1), offset: off(80) }]);
});

test("under an id the newest attempt counts that has committed, and of another owner's nothing is said", () => {
  const it = promoted();
  it.answer(75);
  it.positions(80);
  it.intent(1, 2);
  assert.deepEqual(byId(it, 1), ["durable", "broken", "broken", "lost"], "a repetition that did not commit");
  it.position(1, 2, 85);
  it.follow(first, second, third);
  while (it.reads.length > 0) it.answer(95);
  it.positions(99);
  assert.equal(judgeHeld(it.state, [{ id: txnId(1), owner: 0n }], "disk")[0]?.attempt, epochId(2));
  assert.deepEqual(
    judgeHeld(
      it.state,
      [
        { id: txnId(1), owner: 7n },
        { id: txnId(2), owner: 0n },
      ],
      "disk",
    ),
    [null, null],
  );
});
