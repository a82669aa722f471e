import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../../test/support/fakes.ts";
import { type Report } from "../frames/build.ts";
import { type Admission } from "../model/state.ts";
import { Slowdown } from "./slowdown.ts";

const DELAY_MS = 50;

function makeSlowdown(delayMs: number | Report = DELAY_MS) {
  const clock = new FakeClock();
  const heard: Admission[] = [];
  let asksAgain = true;
  const slowdown = new Slowdown({
    ask: () => delayMs,
    wait: (ms, callback) => clock.after(ms, callback),
    onEnd: () => {
      if (asksAgain) heard.push(slowdown.admission());
    },
  });
  const skip = (): void => {
    asksAgain = false;
  };
  return { clock, heard, slowdown, skip };
}

test("a write waits for its time and is admitted then; the next one waits anew", async () => {
  const { clock, heard, slowdown } = makeSlowdown();
  assert.equal(slowdown.admission(), "later");
  await clock.advance(DELAY_MS - 1);
  assert.deepEqual(heard, []);
  await clock.advance(1);
  assert.deepEqual(heard, ["now"]);
  assert.equal(slowdown.cancel(), false);
  assert.equal(slowdown.admission(), "later");
});

test("a cancel ends the wait, and the write fails", async () => {
  const { clock, heard, slowdown } = makeSlowdown();
  slowdown.admission();
  assert.equal(slowdown.cancel(), true);
  const [refusal] = heard as [Report];
  assert.equal(refusal.code, "57014");
  await clock.advance(DELAY_MS);
  assert.equal(heard.length, 1, "the timer is gone");
});

test("a write that was skipped meanwhile leaves no decision to the next one", () => {
  const { slowdown, skip } = makeSlowdown();
  slowdown.admission();
  skip();
  slowdown.cancel();
  assert.equal(slowdown.admission(), "later");
});

test("nothing waits that need not or must not begin, nor after the end of the session", async () => {
  const refusal: Report = { severity: "ERROR", code: "53400", message: "too much" };
  assert.equal(makeSlowdown(0).slowdown.admission(), "now");
  assert.equal(makeSlowdown(refusal).slowdown.admission(), refusal);
  const { clock, heard, slowdown } = makeSlowdown();
  slowdown.admission();
  slowdown.stop();
  await clock.advance(DELAY_MS);
  assert.deepEqual(heard, []);
});
