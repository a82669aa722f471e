// The decisions after a failed attempt, where sdk/conformance/vectors has no case of them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ERRORS, type ErrorCode, HighwaterError as ServiceError } from "@highwater/protocol";
import * as sdk from "../src/index.ts";
import { answerError, failure as own } from "../src/errors.ts";
import { decide, type Decision, type Situation } from "../src/retry.ts";
import { DEFAULT_TUNING } from "../src/tuning.ts";

const situation = (overrides: Partial<Situation> = {}): Situation => ({
  ...{ attempt: 0, remainingMs: 30_000, uncertain: false, elsewhere: false, random: 0.5 },
  ...overrides,
});
const failure = (code: ErrorCode, retryAfterMs?: number): sdk.HighwaterError =>
  answerError(ERRORS[code].status, new ServiceError(code, { retryAfterMs }).toProblem(), undefined);
const decided = (error: sdk.HighwaterError, overrides: Partial<Situation> = {}): Decision =>
  decide(error, situation(overrides), DEFAULT_TUNING);

// The table of all codes and decisions is sdk/conformance/vectors/errors.json, for every language.
test("every error of the catalogue is of the class that its name says", () => {
  for (const code of Object.keys(ERRORS) as ErrorCode[]) {
    const error = failure(code);
    assert.ok(
      error instanceof sdk[error.name as "HighwaterError"] && error instanceof sdk.HighwaterError,
      code,
    );
  }
});

test("no answer: the same request again, at once if there is another endpoint", () => {
  for (const code of ["connection_failed", "request_timeout", "bad_answer"] as const) {
    const error = own(code, "x");
    assert.equal(error.outcome, "unknown");
    assert.deepEqual(decided(error), { action: "send", delayMs: 50 });
    assert.deepEqual(decided(error, { elsewhere: true }), { action: "send", delayMs: 0 });
  }
});

test("delays: full jitter that doubles up to a bound, on top of what the service asks for", () => {
  const limits = [0, 1, 2, 3, 10, 60].map((attempt) =>
    decided(failure("overloaded"), { attempt, random: 1 }),
  );
  assert.deepEqual(
    limits.map((decision) => ("delayMs" in decision ? decision.delayMs : -1)),
    [100, 200, 400, 800, 5_000, 5_000],
  );
  assert.deepEqual(decided(failure("overloaded"), { random: 0 }), { action: "send", delayMs: 0 });
  assert.deepEqual(decided(failure("exposure_limit", 2_000)), { action: "send", delayMs: 2_050 });
});

test("no time left for the delay: give up now, not later", () => {
  assert.deepEqual(decided(failure("overloaded", 2_000), { remainingMs: 1_000 }), { action: "give_up" });
  // Nor for an attempt that could get an answer.
  assert.deepEqual(decided(failure("overloaded", 800), { remainingMs: 1_000 }), { action: "give_up" });
  assert.deepEqual(decided(failure("serialization_failure"), { remainingMs: 0 }), { action: "throw" });
});
