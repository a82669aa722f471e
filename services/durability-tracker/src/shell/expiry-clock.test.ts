// Goal: a clock that jumps by a day, on whatever host, expires nothing. Method: the store's clock is faked at its port.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CLOCK_SPREAD_MAX_MS, ExpiryClock } from "./expiry-clock.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const NOON_MS = 1_800_000_000_000;

describe("the clock by which receipts and events expire", () => {
  it("is the earliest of clocks that agree", () => {
    const clock = new ExpiryClock();
    assert.equal(clock.read(0, [NOON_MS + 500, NOON_MS, NOON_MS + 900]), NOON_MS);
    assert.equal(clock.read(HOUR_MS, [NOON_MS + HOUR_MS + 900, NOON_MS + HOUR_MS]), NOON_MS + HOUR_MS);
  });

  it("gives no time while one of them is a day off, in either direction", () => {
    for (const jumpMs of [DAY_MS, -DAY_MS])
      for (const jumped of [0, 1, 2]) {
        const clock = new ExpiryClock();
        assert.equal(clock.read(0, [NOON_MS, NOON_MS, NOON_MS]), NOON_MS);
        const clocks = [0, 1, 2].map((each) => NOON_MS + HOUR_MS + (each === jumped ? jumpMs : 0));
        assert.equal(clock.read(HOUR_MS, clocks), null);
        const mended = NOON_MS + 2 * HOUR_MS;
        assert.equal(clock.read(2 * HOUR_MS, [mended, mended, mended]), mended);
      }
  });

  it("goes on at the process's own pace when all of them jump ahead together", () => {
    const clock = new ExpiryClock();
    clock.read(0, [NOON_MS, NOON_MS]);
    const ahead = NOON_MS + DAY_MS;
    assert.equal(clock.read(HOUR_MS, [ahead, ahead]), NOON_MS + HOUR_MS);
  });

  it("keeps more, and no less, when all of them fall back together", () => {
    const clock = new ExpiryClock();
    clock.read(0, [NOON_MS, NOON_MS]);
    assert.equal(clock.read(HOUR_MS, [NOON_MS - DAY_MS, NOON_MS - DAY_MS]), NOON_MS - DAY_MS);
    const mended = NOON_MS + 2 * HOUR_MS;
    assert.equal(clock.read(2 * HOUR_MS, [mended, mended]), mended);
  });

  it("says where agreement ends", () => {
    const clock = new ExpiryClock();
    assert.equal(clock.read(0, [NOON_MS, NOON_MS + CLOCK_SPREAD_MAX_MS]), NOON_MS);
    assert.equal(clock.read(1, [NOON_MS, NOON_MS + CLOCK_SPREAD_MAX_MS + 1]), null);
  });
});
