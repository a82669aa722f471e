// Goal: a replica's lag in time is that of the oldest thing that it has not got, and remembering it takes a bounded place.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type EpochId, type Offset } from "@highwater/protocol";
import { FlushHistory } from "./flush-history.ts";

const EPOCH = "11111111-1111-4111-8111-111111111111" as EpochId;
const off = (value: number): Offset => BigInt(value) as Offset;

test("what is missing is as old as its first byte; nothing missing is no lag", () => {
  const history = new FlushHistory();
  for (const at of [0, 10, 20, 30]) history.note(EPOCH, { atMs: at, offset: off(100 + at) }, null);
  assert.equal(history.lagMs(EPOCH, off(130), 50), 0);
  assert.equal(history.lagMs(EPOCH, off(110), 50), 30);
  assert.equal(history.lagMs(EPOCH, off(99), 50), 50);
});

test("another epoch's offsets say nothing", () => {
  const history = new FlushHistory();
  history.note(EPOCH, { atMs: 0, offset: off(500) }, null);
  const next = "22222222-2222-4222-8222-222222222222" as EpochId;
  assert.equal(history.lagMs(next, off(1), 100), 0);
  history.note(next, { atMs: 200, offset: off(50) }, null);
  assert.equal(history.lagMs(next, off(1), 300), 100);
});

test("the lag of a replica that is behind for long is as coarse as what is kept, and exact when it has caught up", () => {
  const history = new FlushHistory();
  const END = 1_000_000;
  for (let at = 0; at <= END; at += 10) history.note(EPOCH, { atMs: at, offset: off(at) }, off(0));
  const lagMs = history.lagMs(EPOCH, off(500_000), END);
  assert.ok(Math.abs(lagMs - 500_000) <= END / 256, String(lagMs));
  history.note(EPOCH, { atMs: END + 1_000, offset: off(END + 1_000) }, off(END + 1_000));
  assert.equal(history.lagMs(EPOCH, off(END + 1_000), END + 1_000), 0);
  history.note(EPOCH, { atMs: END + 2_000, offset: off(END + 2_000) }, off(END + 1_000));
  assert.equal(history.lagMs(EPOCH, off(END + 1_000), END + 2_500), 500);
});
