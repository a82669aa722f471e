// Goal: every error of the catalogue says what happened and what to do, with names that exist.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { test } from "node:test";
import { describeError, type ErrorCode, ERRORS, HighwaterError, ProblemBody, validate } from "./index.ts";

const CODES = Object.keys(ERRORS) as ErrorCode[];

test("every error has a cause, a next step and an example that is a valid problem", () => {
  for (const code of CODES) {
    const { cause, fix, example } = describeError(code);
    for (const text of [cause, fix]) assert.match(text, /^[A-Z`].*\.$/s, code);
    assert.deepEqual(validate(ProblemBody, example), { ok: true, value: example });
    if (example.retry === "wait") assert.ok(example.retryAfterMs !== undefined, code);
    for (const [page] of (cause + fix).matchAll(/docs\/[a-z/-]+\.md/g))
      assert.ok(existsSync(new URL(`../../../${page}`, import.meta.url)), page);
  }
});

test("an error carries its problem, and details override the catalogue's outcome", () => {
  const problem = new HighwaterError("overloaded", { retryAfterMs: 5, outcome: "unknown" }).toProblem();
  assert.equal(problem.status, 503);
  assert.equal(problem.retry, "wait");
  assert.equal(problem.outcome, "unknown");
  assert.equal(problem.type, "/errors/overloaded");
});
