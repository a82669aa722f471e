// The decisions after a failed attempt, as a table over the whole catalogue.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ERRORS, type ErrorCode, HighwaterError as ServiceError } from "@highwater/protocol";
import * as sdk from "../src/index.ts";
import { answerError, failure as own } from "../src/errors.ts";
import { decide, type Decision, resolve, type Situation } from "../src/retry.ts";
import { retryAfter } from "../src/transport.ts";
import { DEFAULT_TUNING } from "../src/tuning.ts";
import { E1, token } from "./support.ts";

const id = "0198c0de-0000-7000-8000-000000000001";
const situation = (overrides: Partial<Situation> = {}): Situation => ({
  ...{ attempt: 0, remainingMs: 30_000, uncertain: false, elsewhere: false, random: 0.5 },
  ...overrides,
});
const failure = (code: ErrorCode, retryAfterMs?: number): sdk.HighwaterError =>
  answerError(ERRORS[code].status, new ServiceError(code, { retryAfterMs }).toProblem(), undefined);
const decided = (error: sdk.HighwaterError, overrides: Partial<Situation> = {}): Decision =>
  decide(error, situation(overrides), DEFAULT_TUNING);

type Row = readonly [name: string, certain: Decision["action"], uncertain: Decision["action"]];
const TABLE: Record<ErrorCode, Row> = {
  invalid_request: ["InvalidRequestError", "throw", "resolve"],
  invalid_id: ["InvalidRequestError", "throw", "resolve"],
  invalid_token: ["InvalidRequestError", "throw", "resolve"],
  unknown_level: ["InvalidRequestError", "throw", "resolve"],
  transaction_control: ["InvalidRequestError", "throw", "resolve"],
  id_out_of_window: ["InvalidRequestError", "throw", "resolve"],
  id_expired: ["UnknownOutcomeError", "throw", "throw"],
  not_found: ["InvalidRequestError", "throw", "resolve"],
  method_not_allowed: ["InvalidRequestError", "throw", "resolve"],
  unauthenticated: ["InvalidRequestError", "throw", "resolve"],
  authentication_unavailable: ["UnavailableError", "send", "send"],
  forbidden: ["InvalidRequestError", "throw", "resolve"],
  rate_limited: ["UnavailableError", "send", "send"],
  concurrency_limited: ["UnavailableError", "send", "send"],
  body_too_large: ["InvalidRequestError", "throw", "resolve"],
  unsupported_media_type: ["InvalidRequestError", "throw", "resolve"],
  statement_failed: ["StatementError", "throw", "resolve"],
  constraint_violation: ["ConstraintError", "throw", "resolve"],
  serialization_failure: ["SerializationError", "throw", "resolve"],
  refusal_unconfirmed: ["SerializationError", "throw", "resolve"],
  statement_timeout: ["StatementError", "throw", "resolve"],
  cancelled: ["TransactionAbortedError", "throw", "resolve"],
  wrong_gateway: ["UnavailableError", "send", "send"],
  transaction_in_progress: ["UnavailableError", "send", "send"],
  transaction_aborted: ["TransactionAbortedError", "throw", "throw"],
  id_reused: ["InvalidRequestError", "throw", "throw"],
  transaction_expired: ["TransactionAbortedError", "throw", "throw"],
  transaction_not_open: ["InvalidRequestError", "throw", "resolve"],
  gateway_lost: ["TransactionAbortedError", "throw", "resolve"],
  out_of_sequence: ["InvalidRequestError", "throw", "resolve"],
  result_too_large: ["InvalidRequestError", "throw", "resolve"],
  too_many_open: ["UnavailableError", "send", "send"],
  promise_broken: ["PromiseBrokenError", "throw", "throw"],
  transaction_lost: ["TransactionLostError", "throw", "throw"],
  epoch_changed: ["UnavailableError", "send", "send"],
  primary_unavailable: ["UnavailableError", "send", "send"],
  split_brain: ["UnavailableError", "send", "send"],
  exposure_limit: ["ExposureLimitError", "send", "send"],
  overloaded: ["UnavailableError", "send", "send"],
  commit_unconfirmed: ["UnknownOutcomeError", "resolve", "resolve"],
  marks_unavailable: ["UnavailableError", "send", "send"],
  webhook_url_refused: ["InvalidRequestError", "throw", "resolve"],
  webhook_limit: ["InvalidRequestError", "throw", "resolve"],
  webhook_disabled: ["InvalidRequestError", "throw", "resolve"],
  internal: ["UnknownOutcomeError", "resolve", "resolve"],
};

test("the table: every code of the catalogue, first and after an attempt that may have been applied", () => {
  assert.deepEqual(Object.keys(TABLE).sort(), Object.keys(ERRORS).sort());
  for (const [code, [name, certain, uncertain]] of Object.entries(TABLE)) {
    const error = failure(code as ErrorCode);
    assert.equal(error.name, name, code);
    assert.ok(error instanceof sdk[name as "HighwaterError"] && error instanceof sdk.HighwaterError, code);
    assert.equal(error.code, code);
    assert.equal(error.outcome, ERRORS[code as ErrorCode].outcome);
    assert.equal(decided(error).action, certain, code);
    assert.equal(decided(error, { uncertain: true }).action, uncertain, code);
  }
});

test("no answer: the same again, at once where another endpoint is there", () => {
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

test("answers that are not the service's own", () => {
  const proxy = answerError(502, "<html>", undefined);
  assert.deepEqual(
    [proxy.name, proxy.code, proxy.outcome, proxy.retry],
    ["ConnectionError", "bad_answer", "unknown", "wait"],
  );
  assert.equal(answerError(429, undefined, 3_000).retryAfterMs, 3_000);
  assert.equal(answerError(401, {}, undefined).code, "unexpected_status");
  const future = {
    code: "tea_break",
    outcome: "not_applied",
    retry: "wait",
    title: "x",
    type: "x",
    status: 503,
  };
  assert.ok(answerError(503, future, undefined) instanceof sdk.UnavailableError);
  const odd = { ...future, code: "constructor" };
  assert.equal(answerError(503, odd, undefined).name, "UnavailableError");
});

test("details of a refused statement reach the caller", () => {
  const details = { sqlstate: "23505", constraint: "account_pkey", statement: 1, transactionId: id };
  const error = answerError(409, new ServiceError("constraint_violation", details).toProblem(), undefined);
  assert.deepEqual(
    [error.sqlstate, error.constraint, error.statement, error.transactionId, error.status],
    ["23505", "account_pkey", 1, id, 409],
  );
});

test("what a state means for an attempt whose outcome is unknown", () => {
  const held = failure("constraint_violation");
  const at = { token: token(E1, 5), position: { epoch: E1, offset: "5" }, marks: null };
  for (const state of ["committed", "pending", "durable"] as const) {
    assert.equal(resolve({ id, state, ...at }, undefined).action, "adopt");
    assert.equal(resolve({ id, state, ...at }, held).action, "adopt");
    assert.equal(resolve({ id, state, marks: null }, undefined).action, "ask");
  }
  assert.equal(resolve({ id, state: "active", marks: null }, held).action, "ask");
  assert.deepEqual(resolve({ id, state: "unknown", marks: null }, undefined), { action: "send" });
  assert.deepEqual(resolve({ id, state: "unknown", marks: null }, held), { action: "throw", error: held });
  const conflict = failure("serialization_failure");
  assert.deepEqual(resolve({ id, state: "unknown", marks: null }, conflict), { action: "send" });
  const thrown = {
    aborted: "TransactionAbortedError",
    lost: "TransactionLostError",
    broken: "PromiseBrokenError",
  };
  for (const [state, name] of [...Object.entries(thrown), ["expired", "UnknownOutcomeError"]]) {
    const resolution = resolve({ id, state: state as "aborted", marks: null }, undefined);
    assert.ok(resolution.action === "throw" && resolution.error.name === name, state);
  }
});

test("Retry-After in seconds or as a date", () => {
  assert.equal(retryAfter("2", 0), 2_000);
  assert.equal(retryAfter("Thu, 01 Jan 1970 00:00:10 GMT", 4_000), 6_000);
  assert.equal(retryAfter("Thu, 01 Jan 1970 00:00:10 GMT", 40_000), 0);
  assert.equal(retryAfter("soon", 0), undefined);
  assert.equal(retryAfter(null, 0), undefined);
});
