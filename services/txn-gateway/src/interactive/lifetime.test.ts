// When an open transaction expires, by a clock that only the test moves.
import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../test/support/fakes.ts";
import { Lifetime } from "./lifetime.ts";

function makeLifetime() {
  const clock = new FakeClock();
  const met: string[] = [];
  const lifetime = new Lifetime(clock, { idleTimeoutMs: 10, totalTimeoutMs: 100 }, ({ name }) =>
    met.push(name),
  );
  return { clock, met, lifetime, leftMs: () => lifetime.expiresAtMs - clock.wallMs() };
}

test("idle for too long, and only once", async () => {
  const { clock, met, leftMs } = makeLifetime();
  assert.equal(leftMs(), 10);
  await clock.advance(9);
  assert.deepEqual([met, leftMs()], [[], 1]);
  await clock.advance(200);
  assert.deepEqual([met, clock.pendingTimers], [["idleTimeoutMs"], 0]);
});

test("each call puts the idle limit off, but not the total one", async () => {
  const { clock, met, lifetime, leftMs } = makeLifetime();
  for (let at = 9; at <= 99; at += 9) {
    await clock.advance(9);
    lifetime.idle();
  }
  assert.deepEqual([met, leftMs()], [[], 1]);
  await clock.advance(1);
  assert.deepEqual([met, clock.pendingTimers], [["totalTimeoutMs"], 0]);
});

test("a running call is not idle, and does not outlive the total limit", async () => {
  const { clock, met, lifetime, leftMs } = makeLifetime();
  lifetime.busy();
  assert.equal(leftMs(), 100);
  await clock.advance(99);
  assert.deepEqual(met, []);
  await clock.advance(1);
  assert.deepEqual(met, ["totalTimeoutMs"]);
});

test("on hold it never expires; afterwards both limits count again", async () => {
  for (const [holdMs, thenMs, name] of [
    [50, 10, "idleTimeoutMs"],
    [500, 0, "totalTimeoutMs"],
  ] as const) {
    const { clock, met, lifetime } = makeLifetime();
    lifetime.hold();
    await clock.advance(holdMs);
    assert.deepEqual([met, clock.pendingTimers], [[], 0]);
    lifetime.idle();
    await clock.advance(thenMs);
    assert.deepEqual(met, [name]);
  }
});

test("once stopped nothing starts it again", async () => {
  const { clock, met, lifetime } = makeLifetime();
  lifetime.stop();
  lifetime.idle();
  await clock.advance(1_000);
  assert.deepEqual([met, clock.pendingTimers], [[], 0]);
});
