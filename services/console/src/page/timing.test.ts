// Goal: a view asks again only while it is open, and what comes together is shown once. Method: the
// functions run on a clock of the test.
import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock, settle } from "@highwater/runtime/testing";
import { askAgain, makeSoon } from "./timing.ts";

const EVERY_MS = 1_000;

test("a question is asked again after an answer and after a fault, and not after the last answer", async () => {
  const clock = new FakeClock();
  const seen: unknown[] = [];
  const answers = [() => 1, () => Promise.reject(new Error("no answer")), () => 2, () => 3];
  const asked = askAgain<number>(
    {
      ask: async () => (answers.shift() ?? assert.fail("asked too often"))(),
      everyMs: EVERY_MS,
      isLast: (answer) => answer === 2,
      onAnswer: (answer) => seen.push(answer),
      onFault: (cause) => seen.push((cause as Error).message),
    },
    clock,
    new AbortController().signal,
  );
  await settle();
  assert.deepEqual(seen, [1]);
  await clock.advance(EVERY_MS);
  await clock.advance(EVERY_MS);
  await asked;
  assert.deepEqual(seen, [1, "no answer", 2]);
});

test("a question that fails while its view is closed is not asked again", async () => {
  const clock = new FakeClock();
  const stop = new AbortController();
  const pending = Promise.withResolvers<never>();
  let count = 0;
  const asked = askAgain(
    {
      ask: () => {
        count++;
        return pending.promise;
      },
      everyMs: EVERY_MS,
      onAnswer: () => assert.fail("there is no answer"),
      onFault: () => assert.fail("no view is there to show it"),
    },
    clock,
    stop.signal,
  );
  stop.abort();
  pending.reject(new Error("no answer"));
  await asked;
  await clock.advance(EVERY_MS);
  assert.equal(count, 1);
});

test("calls that come together are one piece of work, and later ones another", async () => {
  const clock = new FakeClock();
  let count = 0;
  const soon = makeSoon(clock, EVERY_MS, () => count++);
  soon();
  soon();
  assert.equal(count, 0);
  await clock.advance(EVERY_MS);
  assert.equal(count, 1);
  soon();
  await clock.advance(EVERY_MS);
  assert.equal(count, 2);
});
