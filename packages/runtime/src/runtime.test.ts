import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { realClock } from "./runtime.ts";

test("a delay that is longer than a timer can be takes several timers, and is cancelled in any of them", () => {
  const steps: number[] = [];
  const ends: (() => void)[] = [];
  const cleared: unknown[] = [];
  const set = mock.method(globalThis, "setTimeout", (callback: () => void, delayMs: number) => {
    steps.push(delayMs);
    return ends.push(callback);
  });
  const clear = mock.method(globalThis, "clearTimeout", (timer: unknown) => cleared.push(timer));
  try {
    let called = 0;
    const cancel = realClock.after(2 ** 32, () => called++);
    ends[0]?.();
    ends[1]?.();
    assert.deepEqual([steps, called], [[2 ** 31 - 1, 2 ** 31 - 1, 2], 0]);
    cancel();
    assert.deepEqual(cleared, [3]);
    ends[2]?.();
    assert.equal(called, 1);
  } finally {
    set.mock.restore();
    clear.mock.restore();
  }
});
