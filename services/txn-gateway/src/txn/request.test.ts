import assert from "node:assert/strict";
import { test } from "node:test";
import { HighwaterError } from "@highwater/protocol";
import { testDeploymentKeys } from "@highwater/service/testing";
import { newId } from "../../test/support/fakes.ts";
import { acceptBegin, acceptCommit, acceptRequest, defaultLevel } from "./request.ts";

const RULES = { levels: ["disk", "region", "global"], maxWaitMs: 30_000, tokens: testDeploymentKeys() };
const statements = [{ sql: "SELECT 1" }];

function refusal(body: unknown): HighwaterError {
  try {
    acceptRequest(body, RULES);
  } catch (error) {
    assert.ok(error instanceof HighwaterError);
    return error;
  }
  return assert.fail("it was accepted");
}

test("defaults", () => {
  const id = newId();
  assert.deepEqual(acceptRequest({ id: id.toUpperCase(), statements }, RULES), {
    id,
    statements,
    isolation: "serializable",
    readOnly: false,
    deferrable: false,
    ack: "commit",
    level: "region",
    maxWaitMs: 30_000,
    metadata: undefined,
    maxDelayMs: undefined,
    keep: undefined,
    onLost: undefined,
    atRisk: undefined,
    placement: null,
  });
});

test("the longest delay is taken by all that commits, and has bounds", () => {
  const id = newId();
  assert.equal(acceptRequest({ id, statements, maxDelayMs: 1 }, RULES).maxDelayMs, 1);
  assert.equal(acceptBegin({ id, maxDelayMs: 86_400_000 }).maxDelayMs, 86_400_000);
  assert.equal(acceptCommit({ seq: 1, maxDelayMs: 2_000 }, RULES).maxDelayMs, 2_000);
  for (const maxDelayMs of [0, 0.5, 86_400_001])
    assert.match(refusal({ id, statements, maxDelayMs }).details.detail ?? "", /^\/maxDelayMs: /);
});

test("what is to be brought back is kept, writes, and leaves room for its mark in the metadata", () => {
  const request = { id: newId(), statements, onLost: "replay" };
  assert.equal(acceptRequest(request, RULES).keep, true);
  const many = Object.fromEntries(Array.from({ length: 16 }, (_, n) => [String(n), "a"]));
  for (const [more, path] of [
    [{ keep: false }, "/onLost: "],
    [{ readOnly: true }, "/onLost: "],
    [{ metadata: many }, "/metadata: "],
    [{ onLost: undefined, metadata: { "highwater.redo": "service" } }, "/metadata: "],
  ] as const)
    assert.ok(refusal({ ...request, ...more }).details.detail?.startsWith(path));
});

test("the default level is `region` where there is one, or else the strongest", () => {
  assert.equal(defaultLevel(["disk", "region", "global"]), "region");
  assert.equal(defaultLevel(["disk", "zone"]), "zone");
});

test("all faults are reported at once, unknown fields by name", () => {
  const error = refusal({ id: newId(), statements: [{ sql: "", shout: true }], ack: "soon", extra: 1 });
  assert.equal(error.code, "invalid_request");
  const fields = error.details.fields ?? [];
  for (const expected of ["/extra:", "/statements/0/shout:", "/statements/0/sql:", "/ack:"])
    assert.ok(
      fields.some((field) => field.startsWith(expected)),
      `${expected} in ${fields.join("; ")}`,
    );
  assert.equal(error.details.detail, fields.join("; "));
});

test("a durable-only read waits for durability, near the user, and reads", () => {
  const id = newId();
  const read = { id, statements, readOnly: true, reads: "durable" };
  const { ack, isDurableOnly, placement, isolation } = acceptRequest(read, RULES);
  assert.deepEqual(
    [ack, isDurableOnly, placement, isolation],
    ["durable", true, { after: null, mode: "local" }, "repeatable read"],
  );
  const usual = acceptRequest({ ...read, reads: "committed" }, RULES);
  assert.deepEqual([usual.ack, usual.isDurableOnly, usual.placement], ["commit", undefined, null]);
  assert.match(refusal({ ...read, ack: "commit" }).details.detail ?? "", /^\/ack: must be `durable`/);
  assert.match(refusal({ ...read, readOnly: false }).details.detail ?? "", /^\/readOnly: must be true/);
});

test("what is refused, and as what", () => {
  const id = newId();
  assert.equal(refusal(undefined).code, "invalid_request");
  assert.equal(refusal([]).code, "invalid_request");
  assert.equal(refusal({ id, statements: [] }).code, "invalid_request");
  assert.equal(refusal({ id, statements, maxWaitMs: -1 }).code, "invalid_request");
  assert.equal(refusal({ id, statements: [{ sql: "SELECT 1\0; COMMIT" }] }).code, "invalid_request");
  assert.equal(refusal({ id, statements, metadata: { ["x".repeat(65)]: "" } }).code, "invalid_request");
  assert.equal(refusal({ id, statements, metadata: { "": "" } }).code, "invalid_request");
  // A name with a line break would otherwise carry a value of any kind past the schema.
  assert.equal(refusal({ id, statements, metadata: { "a\nb": 3 } }).code, "invalid_request");
  // Half of a surrogate pair would arrive as another character.
  assert.equal(refusal({ id, statements: [{ sql: "SELECT '\ud800'" }] }).code, "invalid_request");
  const params = ["whole: \u{1f600}", "half: \udfff"];
  assert.deepEqual(refusal({ id, statements: [{ sql: "SELECT $1, $2", params }] }).details.fields, [
    "/statements/0/params/1: must not contain an unpaired surrogate",
  ]);
  assert.equal(refusal({ id: "order-7", statements }).code, "invalid_id");
  assert.equal(refusal({ id: "0190b3d2-0000-4000-8000-000000000000", statements }).code, "invalid_id");
  assert.equal(refusal({ id, statements, level: "galaxy" }).code, "unknown_level");
});
