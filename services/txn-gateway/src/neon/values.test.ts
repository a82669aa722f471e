import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { parseArray } from "./array-text.ts";
import { parseExactly } from "./exact-json.ts";
import { paramText } from "./params.ts";
import { decoderOf } from "./values.ts";

const same = (text: string): string => text;
const decoded = (oid: number, text: string): unknown => {
  const decode = decoderOf(oid);
  const value = decode === null ? text : decode(text);
  return JSON.parse(JSON.stringify(value)) as unknown;
};

test("numbers keep the digits that were sent", () => {
  const text = '{"a":9007199254740993,"b":[1.0,0.1,-0,1e400,"7"],"c":12345678901234567890.123456789}';
  assert.equal(JSON.stringify(parseExactly(text)), text);
  assert.deepEqual(parseExactly('{"a":[1,2.5,true,null],"b":"1.0"}'), { a: [1, 2.5, true, null], b: "1.0" });
  assert.equal(JSON.stringify(parseExactly("9007199254740993")), "9007199254740993");
  assert.throws(() => parseExactly('{"a":01}'), SyntaxError);
});

test("parameters become PostgreSQL's text", () => {
  const cases: [string, string | null][] = [
    ["null", null],
    ['"it\'s"', "it's"],
    ["true", "true"],
    ["42", "42"],
    ["9007199254740993", "9007199254740993"],
    ["1.10", "1.10"],
    ['{"a":[1,"x"],"n":9007199254740993}', '{"a":[1,"x"],"n":9007199254740993}'],
    ["[]", "{}"],
    ['[1,null,true,"NULL","","a,b"]', '{1,NULL,true,"NULL","","a,b"}'],
    ["[[1,2],[3,9007199254740993]]", "{{1,2},{3,9007199254740993}}"],
    ['["say \\"hi\\" \\\\ there","two\\nlines"]', '{"say \\"hi\\" \\\\ there","two\nlines"}'],
    ['[{"a":"b"}]', '{"{\\"a\\":\\"b\\"}"}'],
  ];
  for (const [json, text] of cases) assert.equal(paramText(parseExactly(json)), text, json);
});

test("an array is read as it was written", () => {
  type Nested = string | null | Nested[];
  const lists = fc.letrec<{ list: Nested[]; item: Nested }>((tie) => ({
    item: fc.oneof({ maxDepth: 4 }, fc.string({ unit: "grapheme" }), fc.constant(null), tie("list")),
    list: fc.array(tie("item"), { maxLength: 5 }),
  })).list;
  fc.assert(
    fc.property(lists, (list) => {
      assert.deepEqual(parseArray(paramText(list) ?? "", same), list);
    }),
  );
});

test("arrays as the server writes them", () => {
  assert.deepEqual(parseArray("{}", same), []);
  assert.deepEqual(parseArray("{1,NULL,3}", Number), [1, null, 3]);
  assert.deepEqual(parseArray('[0:1]={"NULL",x y}', same), ["NULL", "x y"]);
  assert.deepEqual(parseArray('{{a,"b,}"},{"\\"","\\\\"}}', same), [
    ["a", "b,}"],
    ['"', "\\"],
  ]);
  for (const text of ["", "1", "{1", "{1}}", '{"a', "{1}{2}", "{1},"])
    assert.throws(() => parseArray(text, same), text);
});

test("reading an array takes time in proportion to its length", () => {
  // Quadratic reading, as of parsers that look ahead from every element, would take minutes.
  const count = 2_000_000;
  const array = parseArray(`{${'"a b",'.repeat(count - 1)}"a b"}`, same);
  assert.equal(array.length, count);
});

test("without raw text, values are what JSON can hold of them", () => {
  const cases: [number, string, unknown][] = [
    [16, "t", true],
    [16, "f", false],
    [21, "-7", -7],
    [23, "42", 42],
    [20, "9007199254740993", "9007199254740993"],
    [1700, "0.10", "0.10"],
    [701, "1.5", 1.5],
    [701, "NaN", "NaN"],
    [700, "-Infinity", "-Infinity"],
    [25, "text", "text"],
    [17, "\\xdead", "\\xdead"],
    [3802, '{"a": [1, null]}', { a: [1, null] }],
    [114, "null", null],
    [1007, "{1,NULL,2}", [1, null, 2]],
    [1000, "{t,f}", [true, false]],
    [1009, '{a,"b c"}', ["a", "b c"]],
    [1016, "{9007199254740993}", ["9007199254740993"]],
    [3807, '{"{\\"a\\": 1}"}', [{ a: 1 }]],
    [1020, "{(1,1),(0,0);(2,2),(1,1)}", "{(1,1),(0,0);(2,2),(1,1)}"],
    [99_999, "{a,b}", "{a,b}"],
  ];
  for (const [oid, text, value] of cases)
    assert.deepEqual(decoded(oid, text), value, `${String(oid)} ${text}`);
  assert.equal(JSON.stringify(decoderOf(114)?.("[9007199254740993]")), "[9007199254740993]");
});

test("what is none of its type stays text, and so does what is nested too deeply for JSON to be written", () => {
  for (const [oid, text] of [
    [1007, "(1,2)"],
    [1009, "{a"],
    [114, "{"],
    [3802, ""],
  ] as const)
    assert.equal(decoded(oid, text), text);
  const deep = (levels: number): string => `${"[".repeat(levels)}1${"]".repeat(levels)}`;
  assert.notEqual(decoded(114, deep(500)), deep(500));
  for (const levels of [501, 5_000, 200_000]) {
    assert.equal(decoded(114, deep(levels)), deep(levels));
    assert.deepEqual(decoded(199, `{"${deep(levels)}"}`), [deep(levels)]);
    const array = deep(levels).replaceAll("[", "{").replaceAll("]", "}");
    assert.equal(decoded(1007, array), array);
  }
  const text = JSON.stringify([`${"[".repeat(2_000)}"\\`]);
  assert.deepEqual(decoded(114, text), JSON.parse(text), "brackets in a text are none");
});
