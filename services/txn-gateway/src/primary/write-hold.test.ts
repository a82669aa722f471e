// Goal: writes are held in the epoch that the database names, and never longer than it says.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type EpochId } from "@highwater/protocol";
import { EPOCH_A, EPOCH_B, FakeClock } from "../../test/support/fakes.ts";
import { WriteHold } from "./write-hold.ts";

const [a, b] = [EPOCH_A as EpochId, EPOCH_B as EpochId];

test("a hold lasts until the bound of the report, counted from the question", async () => {
  const clock = new FakeClock();
  const hold = new WriteHold(clock);
  hold.note({ current: a, heldMs: 1_000 }, clock.monotonicMs());
  assert.deepEqual([hold.leftMs(a), hold.leftMs(b)], [1_000, 0]);
  await clock.advance(400);
  hold.note({ current: null, heldMs: null }, clock.monotonicMs());
  assert.equal(hold.leftMs(a), 600);
  await clock.advance(600);
  assert.equal(hold.leftMs(a), 0);
});

test("it ends with the report that shows none, and not with another epoch's", async () => {
  const clock = new FakeClock();
  const hold = new WriteHold(clock);
  hold.note({ current: a, heldMs: 1_000 }, clock.monotonicMs());
  hold.note({ current: b, heldMs: null }, clock.monotonicMs());
  assert.equal(hold.leftMs(a), 1_000);
  const change = hold.change(5_000);
  hold.note({ current: a, heldMs: null }, clock.monotonicMs());
  await change;
  assert.equal(hold.leftMs(a), 0);
});
