import assert from "node:assert/strict";
import { test } from "node:test";
import { HighwaterError, parseTxnId } from "@highwater/protocol";
import { testDeploymentKeys } from "@highwater/service/testing";
import { newId } from "../../test/support/fakes.ts";
import { authorizationOf, type RequestHeaders } from "./headers.ts";
import { type Asked, readRequest } from "./request.ts";

const RULES = {
  rules: { levels: ["disk", "region"], maxWaitMs: 30_000, tokens: testDeploymentKeys() },
  newId: () => newId(),
};

function ask(body: unknown, headers: RequestHeaders = {}, mayWrite = true): Asked {
  return readRequest(
    { body: typeof body === "string" ? body : JSON.stringify(body), headers, mayWrite },
    RULES,
  );
}

function refusal(act: () => unknown): HighwaterError {
  try {
    act();
  } catch (error) {
    assert.ok(error instanceof HighwaterError);
    return error;
  }
  return assert.fail("it was accepted");
}

test("a single query: defaults", () => {
  const { accepted, shape, echo } = ask({ query: "SELECT $1", params: [1, null, [1, 2]] });
  assert.ok(parseTxnId(accepted.id) !== undefined);
  assert.deepEqual(accepted.statements, [{ sql: "SELECT $1", params: ["1", null, "{1,2}"] }]);
  assert.deepEqual(
    [accepted.isolation, accepted.readOnly, accepted.deferrable, accepted.ack, accepted.level],
    ["read committed", false, false, "commit", "region"],
  );
  assert.deepEqual([accepted.maxWaitMs, accepted.fieldDetails, accepted.placement], [30_000, true, null]);
  assert.deepEqual(shape, { isBatch: false, formats: [{ rawText: false, arrayMode: false }] });
  assert.deepEqual(echo, {});
});

test("headers for batches say nothing of a single query", () => {
  const headers = { "neon-batch-isolation-level": "Serializable", "neon-batch-read-only": "true" };
  const { accepted, echo } = ask({ query: "SELECT 1" }, headers);
  assert.deepEqual([accepted.isolation, accepted.readOnly, echo], ["read committed", false, {}]);
});

test("a batch with all its headers", () => {
  const headers = {
    "neon-raw-text-output": "true",
    "neon-array-mode": "true",
    "neon-batch-isolation-level": "Serializable",
    "neon-batch-read-only": "true",
    "neon-batch-deferrable": "true",
  };
  const queries = [{ query: "SELECT 1" }, { query: "SELECT 2", params: [], arrayMode: false }];
  const { accepted, shape, echo } = ask({ queries }, headers);
  assert.deepEqual(
    [accepted.isolation, accepted.readOnly, accepted.deferrable],
    ["serializable", true, true],
  );
  assert.deepEqual(shape, {
    isBatch: true,
    formats: [
      { rawText: true, arrayMode: true },
      { rawText: true, arrayMode: false },
    ],
  });
  assert.deepEqual(echo, {
    "neon-batch-isolation-level": "Serializable",
    "neon-batch-read-only": "true",
    "neon-batch-deferrable": "true",
  });
});

test("isolation levels by the wire's names; deferrable alone does nothing, as in PostgreSQL", () => {
  const isolation = (named?: string): string =>
    ask(
      { queries: [{ query: "SELECT 1" }] },
      {
        ...(named === undefined ? {} : { "neon-batch-isolation-level": named }),
        "neon-batch-deferrable": "true",
      },
    ).accepted.isolation;
  assert.equal(isolation(), "read committed");
  assert.equal(isolation("ReadUncommitted"), "read committed");
  assert.equal(isolation("ReadCommitted"), "read committed");
  assert.equal(isolation("RepeatableRead"), "repeatable read");
  assert.equal(isolation("Serializable"), "serializable");
  const error = refusal(() => isolation("serializable"));
  assert.equal(error.code, "invalid_request");
  assert.match(error.message, /invalid isolation level/);
});

test("this service's own headers", () => {
  const id = newId();
  const { accepted } = ask(
    { query: "SELECT 1" },
    {
      "highwater-transaction-id": id.toUpperCase(),
      "highwater-ack": "durable",
      "highwater-level": "disk",
      "highwater-max-wait-ms": "250",
      "highwater-read-only": "true",
    },
  );
  assert.deepEqual(
    [accepted.id, accepted.ack, accepted.level, accepted.maxWaitMs, accepted.readOnly],
    [id, "durable", "disk", 250, true],
  );
});

test("a credential that may not write reads only", () => {
  assert.equal(ask({ query: "SELECT 1" }, {}, false).accepted.readOnly, true);
  assert.equal(ask({ queries: [{ query: "SELECT 1" }] }, {}, false).accepted.readOnly, true);
});

test("what is refused, in the words of this wire", () => {
  const cases: [unknown, RequestHeaders, string, RegExp][] = [
    ["", {}, "invalid_request", /empty/],
    ['{"query": ', {}, "invalid_request", /^The body is not JSON\.$/],
    ["[]", {}, "invalid_request", /must be an object with query or queries/],
    [{}, {}, "invalid_request", /^\/query: is missing/],
    [{ query: 7 }, {}, "invalid_request", /^\/query: must be a string/],
    [{ query: "" }, {}, "invalid_request", /^\/query: /],
    [{ query: "SELECT 1\0" }, {}, "invalid_request", /^\/query: must not contain a zero character/],
    [{ query: "SELECT 1", params: "x" }, {}, "invalid_request", /^\/params: must be an array/],
    [{ queries: [] }, {}, "invalid_request", /^\/queries: /],
    [{ queries: {} }, {}, "invalid_request", /^\/query: is missing/],
    [
      { queries: [{ query: "SELECT 1" }, { query: "S\0" }] },
      {},
      "invalid_request",
      /^\/queries\/1\/query: must not contain a zero/,
    ],
    [{ queries: [{ query: "SELECT 1" }, null] }, {}, "invalid_request", /^\/queries\/1: must be an object/],
    [
      { queries: Array.from({ length: 257 }, () => ({ query: "SELECT 1" })) },
      {},
      "invalid_request",
      /^\/queries: .*256/,
    ],
    [
      { query: "SELECT 1" },
      { "highwater-ackk": "durable" },
      "invalid_request",
      /highwater-ackk: is not a known/,
    ],
    [{ query: "SELECT 1" }, { "highwater-ack": "soon" }, "invalid_request", /highwater-ack: must be/],
    [
      { query: "SELECT 1" },
      { "highwater-max-wait-ms": "1s" },
      "invalid_request",
      /highwater-max-wait-ms: must/,
    ],
    [
      { query: "SELECT 1" },
      { "highwater-max-wait-ms": "60001" },
      "invalid_request",
      /^highwater-max-wait-ms: /,
    ],
    [
      { query: "SELECT 1" },
      { "highwater-read-only": "1" },
      "invalid_request",
      /highwater-read-only: must be/,
    ],
    [{ query: "SELECT 1" }, { "highwater-transaction-id": "order-7" }, "invalid_id", /UUID/],
    [{ query: "SELECT 1" }, { "highwater-level": "galaxy" }, "unknown_level", /galaxy/],
  ];
  for (const [body, headers, code, message] of cases) {
    const error = refusal(() => ask(body, headers));
    assert.equal(error.code, code, JSON.stringify([body, headers]));
    assert.match(error.message, message);
  }
});

test("parameters that are nested too deeply to be written are refused", () => {
  for (const [open, close] of [
    ["[", "]"],
    ['{"a":', "}"],
    ['[{"a":', "}]"],
  ] as const) {
    const body = `{"query":"SELECT $1","params":[${open.repeat(50_000)}null${close.repeat(50_000)}]}`;
    assert.equal(refusal(() => ask(body)).code, "invalid_request");
  }
});

test("65,536 parameters are too many", () => {
  const params = Array.from({ length: 65_536 }, () => 1);
  assert.match(refusal(() => ask({ query: "SELECT 1", params })).message, /^\/params: .*65535/);
});

test("unknown fields and headers of the wire are ignored, as by its inventor", () => {
  const { accepted } = ask({ query: "SELECT 1", mood: "good" }, { "neon-pool-opt-in": "true" });
  assert.equal(accepted.statements.length, 1);
});

test("the credential: the header, or else the password of the connection string", () => {
  const string = (text: string): RequestHeaders => ({ "neon-connection-string": text });
  assert.equal(authorizationOf({}), undefined);
  assert.equal(authorizationOf(string("postgresql://app@host/db")), undefined);
  assert.equal(authorizationOf(string("postgresql://app:hwk_a_b-C@host/db")), "Bearer hwk_a_b-C");
  assert.equal(authorizationOf(string("postgres://app:a%2Bb@host:5432/db?x=1")), "Bearer a+b");
  assert.equal(
    authorizationOf({ ...string("postgres://app:password@host/db"), authorization: "Bearer token" }),
    "Bearer token",
  );
  for (const text of ["hwk_secret", "https://app:hwk_secret@host/db", "postgres://app:%ff_secret@host/db"]) {
    const error = refusal(() => authorizationOf(string(text)));
    assert.equal(error.code, "invalid_request");
    assert.doesNotMatch(JSON.stringify(error.toProblem()), /secret/);
  }
});
