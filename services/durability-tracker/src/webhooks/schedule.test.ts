// Goal: retries follow the documented schedule, whatever a receiver asks for.
import assert from "node:assert/strict";
import { test } from "node:test";
import { nextAttempt, parseRetryAfter, RETRY_DELAYS_MS } from "./schedule.ts";

const HOUR_MS = 3_600_000;
const at = (failures: number, random = 0, retryAfterMs: number | null = null): number | null =>
  nextAttempt({ failures, random, retryAfterMs, delaysMs: RETRY_DELAYS_MS });

test("5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h, and then no more", () => {
  const seconds = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];
  assert.deepEqual(
    RETRY_DELAYS_MS.map((_, index) => at(index + 1)),
    seconds.map((delay) => delay * 1_000),
  );
  assert.equal(at(10), null);
  assert.equal(at(11, 0, 1_000), null, "what a receiver asks for makes no further attempt");
});

test("jitter only delays, by less than a tenth", () => {
  for (const [index, delay] of RETRY_DELAYS_MS.entries())
    for (const random of [0, 0.25, 0.5, 0.999999]) {
      const found = at(index + 1, random) ?? NaN;
      assert.ok(
        found >= delay && found <= delay * 1.1,
        `${String(delay)} ${String(random)} ${String(found)}`,
      );
    }
  assert.notEqual(at(1, 0.1), at(1, 0.9));
});

test("Retry-After is honoured when it is longer, up to a day", () => {
  assert.equal(at(1, 0, 60_000), 60_000);
  assert.equal(at(2, 0, 60_000), 300_000, "never earlier than the schedule");
  assert.equal(at(1, 0, 1_000 * HOUR_MS), 24 * HOUR_MS);
});

test("Retry-After in seconds or as a date, or not at all", () => {
  const nowMs = Date.parse("2026-01-02T03:04:05Z");
  assert.equal(parseRetryAfter("120", nowMs), 120_000);
  assert.equal(parseRetryAfter(" 0 ", nowMs), 0);
  assert.equal(parseRetryAfter("Fri, 02 Jan 2026 03:05:05 GMT", nowMs), 60_000);
  assert.equal(parseRetryAfter("Fri, 02 Jan 2026 03:00:00 GMT", nowMs), 0, "a date that has passed");
  for (const text of [undefined, "", "soon", "-5", "1.5", "1e3", "2026-01-02", "99999999999"])
    assert.equal(parseRetryAfter(text, nowMs), null, String(text));
});
