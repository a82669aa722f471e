// Goal: the console says when a transaction became durable only if it saw the mark pass, and never too early.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MarkHistory } from "./mark-history.ts";

const EPOCH = "11111111-1111-4111-8111-111111111111";
const marks = (region: string, epoch = EPOCH) => ({ epoch, seq: 1, levels: { region } });

test("a mark that passes an offset gives the time; one that was already there does not", () => {
  const history = new MarkHistory();
  history.note(1_000, marks("10"));
  history.note(2_000, marks("20"));
  history.note(3_000, marks("30"));
  assert.deepEqual(history.reached(EPOCH, "region", "5"), { atMs: 1_000, isBefore: true });
  assert.deepEqual(history.reached(EPOCH, "region", "11"), { atMs: 2_000, isBefore: false });
  assert.equal(history.reached(EPOCH, "region", "31"), null);
  assert.equal(history.reached(EPOCH, "global", "1"), null, "the level has no mark");
  assert.equal(history.reached("22222222-2222-4222-8222-222222222222", "region", "1"), null);
});

test("of marks that come close together the newest is kept, and none is dated too early", () => {
  const history = new MarkHistory(50);
  for (let at = 0; at < 1_000; at++) history.note(10_000 + at, marks(String(at)));
  for (const offset of [1, 500, 999]) {
    const found = history.reached(EPOCH, "region", String(offset));
    assert.ok(
      found !== null && found.atMs >= 10_000 + offset && found.atMs <= 10_050 + offset,
      String(offset),
    );
  }
});

test("the number of samples is bounded, and the newest stay", () => {
  const history = new MarkHistory(0);
  for (let at = 0; at < 20_000; at++) history.note(at, marks(String(at)));
  assert.equal(history.reached(EPOCH, "region", "1")?.isBefore, true);
  assert.equal(history.reached(EPOCH, "region", "19990")?.atMs, 19_990);
});
