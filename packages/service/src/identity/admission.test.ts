import assert from "node:assert/strict";
import { test } from "node:test";
import { HighwaterError } from "@highwater/protocol";
import { FakeClock } from "@highwater/runtime/testing";
import { Admission, type AdmissionDefaults } from "./admission.ts";
import { ANYBODY } from "./anonymous.ts";
import { DEFAULT_LIMITS, type KeyLimits, type Principal } from "./principal.ts";

const UNLIMITED: AdmissionDefaults = { ratePerSecond: null, burst: null, concurrency: null };

function principal(id: string, limits: Partial<KeyLimits> = {}): Principal {
  return { ...ANYBODY, id, limits: { ...DEFAULT_LIMITS, ...limits } };
}

function refusal(work: () => unknown): HighwaterError {
  try {
    work();
  } catch (cause) {
    assert.ok(cause instanceof HighwaterError);
    return cause;
  }
  return assert.fail("nothing was refused");
}

test("a burst passes, then the rate, and the refusal says which limit and how long", async () => {
  const clock = new FakeClock();
  const admission = new Admission({ clock, defaults: UNLIMITED });
  const one = principal("one", { ratePerSecond: 10, burst: 3 });
  const send = (): void => {
    admission.leave(admission.enter(one));
  };
  for (let count = 0; count < 3; count++) send();
  const { code, details, message } = refusal(send);
  assert.equal(code, "rate_limited");
  assert.deepEqual(details.limit, { name: "ratePerSecond", value: 10 });
  assert.equal(details.retryAfterMs, 100);
  assert.match(message, /^one exceeded its ratePerSecond of 10 \(burst 3\)/);
  await clock.advance(99);
  assert.equal(refusal(send).details.retryAfterMs, 1);
  await clock.advance(1);
  send();
  refusal(send);
  await clock.advance(60_000);
  for (let count = 0; count < 3; count++) send();
  refusal(send);
});

test("a rate below one a second lets one pass, and then makes wait", async () => {
  const clock = new FakeClock();
  const admission = new Admission({ clock, defaults: UNLIMITED });
  const slow = principal("slow", { ratePerSecond: 0.1 });
  admission.touch(slow);
  assert.equal(
    refusal(() => {
      admission.touch(slow);
    }).details.retryAfterMs,
    10_000,
  );
  await clock.advance(10_000);
  admission.touch(slow);
});

test("a whole burst passes at any rate, however long the service has been running", async () => {
  const clock = new FakeClock();
  const admission = new Admission({ clock, defaults: UNLIMITED });
  await clock.advance(3_333_333_333.3);
  for (const rate of [3, 7, 0.7, 333, 1_234.5]) {
    const one = principal(`at ${String(rate)}`, { ratePerSecond: rate, burst: 1_000 });
    for (let count = 0; count < 1_000; count++) admission.touch(one);
    refusal(() => {
      admission.touch(one);
    });
  }
});

test("requests in flight are counted, per principal, and a refused one costs no token", () => {
  const clock = new FakeClock();
  const admission = new Admission({ clock, defaults: UNLIMITED });
  const one = principal("one", { concurrency: 2, ratePerSecond: 1, burst: 3 });
  const first = admission.enter(one);
  admission.enter(one);
  const { code, details, message } = refusal(() => admission.enter(one));
  assert.equal(code, "concurrency_limited");
  assert.deepEqual(details.limit, { name: "concurrency", value: 2 });
  assert.ok((details.retryAfterMs ?? 0) > 0);
  assert.match(message, /^one has 2 requests in flight/);
  admission.enter(principal("two", { concurrency: 1 }));
  admission.leave(first);
  admission.enter(one);
  assert.throws(() => {
    admission.leave({ ...first, inFlight: 0 });
  }, /had not entered/);
});

test("the service's defaults hold where a key has no limit of its own", () => {
  const clock = new FakeClock();
  const admission = new Admission({ clock, defaults: { ratePerSecond: 2, burst: 5, concurrency: 1 } });
  const entered = admission.enter(principal("one"));
  assert.equal(refusal(() => admission.enter(principal("one"))).code, "concurrency_limited");
  admission.leave(entered);
  const passed = (id: string, limits: Partial<KeyLimits>): number => {
    let count = 0;
    for (; count < 100; count++)
      try {
        admission.touch(principal(id, limits));
      } catch {
        break;
      }
    return count;
  };
  assert.equal(passed("two", {}), 5);
  assert.equal(passed("three", { ratePerSecond: 8 }), 8, "the default burst belongs to the default rate");
  assert.equal(passed("four", { burst: 7 }), 7);
});

test("what a key may do changes at once with its limits", () => {
  const clock = new FakeClock();
  const admission = new Admission({ clock, defaults: UNLIMITED });
  admission.enter(principal("one", { concurrency: 1 }));
  admission.enter(principal("one", { concurrency: 2 }));
  assert.equal(
    refusal(() => admission.enter(principal("one", { concurrency: 1 }))).code,
    "concurrency_limited",
  );
});

test("principals that have come and gone are forgotten, those in flight or in debt are not", async () => {
  const clock = new FakeClock();
  const admission = new Admission({ clock, defaults: { ratePerSecond: 1, burst: 2, concurrency: 1 } });
  const busy = principal("busy");
  admission.enter(busy);
  const debtor = principal("debtor", { ratePerSecond: 0.001, burst: 1 });
  admission.touch(debtor);
  for (let count = 0; count < 20_000; count++) {
    admission.leave(admission.enter(principal(`visitor ${String(count)}`)));
    if (count % 500 === 0) await clock.advance(5_000);
  }
  assert.ok(admission.size < 2_500, `${String(admission.size)} are kept`);
  assert.equal(refusal(() => admission.enter(busy)).code, "concurrency_limited");
  assert.equal(
    refusal(() => {
      admission.touch(debtor);
    }).code,
    "rate_limited",
  );
});
