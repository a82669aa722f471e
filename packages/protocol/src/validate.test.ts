// Goal: what is wrong with a message is said once for each place, with what it may hold. Method:
// wrong values of small schemas.
import assert from "node:assert/strict";
import { test } from "node:test";
import Type from "typebox";
import { TransactionRequest } from "./schemas.ts";
import { validate } from "./validate.ts";

const faults = (schema: Type.TSchema, value: unknown): readonly string[] => {
  const result = validate(schema, value);
  return result.ok ? [] : result.faults;
};

test("a word that is not allowed is one fault, which has the allowed ones", () => {
  const request = { id: "019f0000-0000-7000-8000-000000000001", statements: [{ sql: "SELECT 1" }] };
  assert.deepEqual(faults(TransactionRequest, { ...request, ack: "durabel" }), [
    '/ack: must be "commit" or "durable"',
  ]);
  const levels = Type.Union([Type.Literal("a"), Type.Literal("b"), Type.Literal(3)]);
  assert.deepEqual(faults(levels, "c"), ['/: must be "a", "b" or 3']);
});

test("a value of another type is one fault, with all types", () => {
  const schema = Type.Object({
    p: Type.Union([Type.String(), Type.Number(), Type.Null()]),
    n: Type.Number(),
  });
  assert.deepEqual(faults(schema, { p: {}, n: "1" }), [
    "/p: must be string, number or null",
    "/n: must be number",
  ]);
});

test("several faults of one place, and unknown fields by their path", () => {
  const schema = Type.Object(
    { name: Type.String({ minLength: 3, pattern: "^x" }) },
    { additionalProperties: false },
  );
  assert.deepEqual(faults(schema, { name: "a", other: 1 }), [
    "/other: is not a known field",
    "/name: must not have fewer than 3 characters",
    '/name: must match pattern "^x"',
  ]);
});

test("of two shapes, what each lacks", () => {
  const schema = Type.Union([Type.Object({ a: Type.String() }), Type.Object({ b: Type.String() })]);
  assert.ok(faults(schema, {}).length > 0);
});
