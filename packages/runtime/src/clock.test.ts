import assert from "node:assert/strict";
import { test } from "node:test";
import { sleep } from "./clock.ts";
import { FakeClock, settle } from "./testing.ts";

test("a sleep ends with its delay, or at once with its signal, and leaves no timer", async () => {
  const clock = new FakeClock();
  const ended: string[] = [];
  const abort = new AbortController();
  void sleep(clock, 100).then(() => ended.push("delay"));
  void sleep(clock, 1_000, abort.signal).then(() => ended.push("signal"));
  await clock.advance(99);
  assert.deepEqual(ended, []);
  await clock.advance(1);
  assert.deepEqual(ended, ["delay"]);
  abort.abort();
  await settle();
  assert.deepEqual(ended, ["delay", "signal"]);
  await sleep(clock, 1_000, abort.signal);
  assert.equal(clock.pendingTimers, 0);
});
