import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeArray, decoderOf, decodeValue } from "../src/decode.ts";

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
    ["2026-01-01 12:34:56.029999+05:30", 1184, new Date("2026-01-01T07:04:56.029Z")],
    ["1600-01-01 00:00:00-00:25:21", 1184, new Date("1600-01-01T00:25:21Z")],
    ["0044-03-15 12:00:00+00 BC", 1184, new Date("-000043-03-15T12:00:00Z")],
    ["10000-01-01 00:00:00+00", 1184, new Date("+010000-01-01T00:00:00Z")],
    ["294276-12-31 23:59:59+00", 1184, "294276-12-31 23:59:59+00"],
    ["Thu Jan 01 00:00:00 2026 UTC", 1184, "Thu Jan 01 00:00:00 2026 UTC"],
    ["infinity", 1184, Number.POSITIVE_INFINITY],
    ["-infinity", 1184, Number.NEGATIVE_INFINITY],
    ["2026-01-01 00:00:00", 1114, "2026-01-01 00:00:00"],
    ["\\x00ff", 17, new Uint8Array([0, 255])],
    ["\\x", 17, new Uint8Array(0)],
    ["\\000", 17, "\\000"],
    ["{}", 1007, []],
    ["{1,NULL,-3}", 1007, [1, null, -3]],
    ["[0:1]={9223372036854775807,1}", 1016, [9223372036854775807n, 1n]],
    [
      "{{t,f},{NULL,t}}",
      1000,
      [
        [true, false],
        [null, true],
      ],
    ],
    [
      String.raw`{"a,b","c\"d","\\e","NULL",NULL,"",{}`.replace(",{}", "}"),
      1009,
      ["a,b", 'c"d', "\\e", "NULL", null, ""],
    ],
    [String.raw`{"{\"a\": 1}"}`, 3807, [{ a: 1 }]],
    [String.raw`{"\\x00ff"}`, 1001, [new Uint8Array([0, 255])]],
    ['{"2026-01-01 00:00:00+00"}', 1185, [new Date("2026-01-01T00:00:00Z")]],
    ["{0.10,NaN}", 1231, ["0.10", "NaN"]],
    ['{"[1,2)",empty}', 3905, ["[1,2)", "empty"]],
    ["{a,b}", 99_999, "{a,b}"],
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
  const result = decoderOf()({ command: "SELECT", rowCount: 1, fields, rows: [["1", "2", "x"]] });
  assert.deepEqual(Object.entries(result.rows[0] ?? {}), [
    ["id", 2],
    ["__proto__", "x"],
  ]);
  assert.deepEqual(result.values, [["1", "2", "x"]]);
  assert.equal(result.truncated, false);
});

test("types can be overridden, also as elements of arrays, or left raw", () => {
  const types = { 1700: Number, 20: String };
  assert.equal(decodeValue("0.5", 1700, types), 0.5);
  assert.deepEqual(decodeValue("{1,NULL}", 1016, types), ["1", null]);
  assert.deepEqual(decodeValue("{a}", 99_999, { 99_999: (text) => decodeArray(text) }), ["a"]);
  assert.equal(decodeValue("{1}", 1016, "raw"), "{1}");
  assert.equal(decodeValue("t", 16, "raw"), "t");
  assert.equal(decodeValue(null, 16, "raw"), null);
});
