import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { parseExactly } from "../neon/exact-json.ts";
import { jsonPieces, PIECE_CHARS } from "./json-pieces.ts";

const written = (value: unknown): string => [...jsonPieces(value)].join("");

test("writes what JSON.stringify writes", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      assert.equal(written(value), JSON.stringify(value));
    }),
  );
  const odd = { none: undefined, list: [undefined, null], empty: {}, also: [], 'a\n"b': "\u0001" };
  assert.equal(written(odd), JSON.stringify(odd));
  const exact = parseExactly('{"n":12345678901234567890,"list":[1.10]}');
  assert.equal(written(exact), '{"n":12345678901234567890,"list":[1.10]}');
});

test("long texts come in pieces, whole characters in each", () => {
  const text = `x${"\u{1f30a}".repeat(PIECE_CHARS)}\u0001"`;
  const pieces = [...jsonPieces({ rows: [[text, "short"]] })];
  assert.ok(pieces.length > 2);
  for (const piece of pieces) assert.ok(piece.length < 3 * PIECE_CHARS && piece.isWellFormed());
  assert.equal(pieces.join(""), JSON.stringify({ rows: [[text, "short"]] }));
});

test("many short rows come in pieces", () => {
  const rows = Array.from({ length: 50_000 }, (_, at) => [String(at), null, "é"]);
  const pieces = [...jsonPieces({ rows })];
  assert.ok(pieces.length > 5);
  assert.equal(pieces.join(""), JSON.stringify({ rows }));
});
