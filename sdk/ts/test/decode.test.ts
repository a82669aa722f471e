import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeResult, decodeValue } from "../src/decode.ts";

test("values decode by the OID of their type", () => {
  const table: [string | null, number, unknown][] = [
    ["t", 16, true],
    ["f", 16, false],
    ["-7", 21, -7],
    ["2147483647", 23, 2147483647],
    ["4294967295", 26, 4294967295],
    ["9223372036854775807", 20, 9223372036854775807n],
    ["1.5", 700, 1.5],
    ["-Infinity", 701, Number.NEGATIVE_INFINITY],
    ["NaN", 701, Number.NaN],
    ["0.10", 1700, "0.10"],
    ['{"a":[1]}', 114, { a: [1] }],
    ["null", 3802, null],
    ["2026-01-01 00:00:00+00", 1184, "2026-01-01 00:00:00+00"],
    [null, 20, null],
  ];
  for (const [text, oid, expected] of table) assert.deepEqual(decodeValue(text, oid), expected);
});

test("a text that is none of its type stays text", () => {
  const table: [string, number][] = [
    ["1.5", 20],
    ["", 3802],
    ["{", 114],
  ];
  for (const [text, oid] of table) assert.equal(decodeValue(text, oid), text);
});

test("rows are objects; columns of the same name are all in values", () => {
  const fields = [
    { name: "id", oid: 20 },
    { name: "id", oid: 23 },
    { name: "__proto__", oid: 25 },
  ];
  const result = decodeResult({ command: "SELECT", rowCount: 1, fields, rows: [["1", "2", "x"]] });
  assert.deepEqual(Object.entries(result.rows[0] ?? {}), [
    ["id", 2],
    ["__proto__", "x"],
  ]);
  assert.deepEqual(result.values, [["1", "2", "x"]]);
  assert.equal(result.truncated, false);
});
