import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { InvalidRequestError, sql, type SqlValue } from "../src/index.ts";
import { toParam, toStatement } from "../src/sql.ts";

test("values become numbered parameters, text stays text", () => {
  const statement = sql`UPDATE account SET balance = balance - ${10} WHERE id = ${1n} AND name = ${"O'Brien"}`;
  assert.equal(statement.text, "UPDATE account SET balance = balance - $1 WHERE id = $2 AND name = $3");
  assert.deepEqual(statement.params, [10, "1", "O'Brien"]);
});

test("a statement without values has no params", () => {
  assert.deepEqual(toStatement(sql`SELECT 1`), { sql: "SELECT 1" });
});

test("fragments nest, repeat and are renumbered", () => {
  const mine = sql`owner = ${7}`;
  const where = sql`WHERE ${mine} AND (x > ${1} OR ${mine})`;
  const statement = sql`SELECT ${sql.ident("a")} FROM t ${where} LIMIT ${5}`;
  assert.equal(statement.text, 'SELECT "a" FROM t WHERE owner = $1 AND (x > $2 OR owner = $3) LIMIT $4');
  assert.deepEqual(statement.params, [7, 1, 7, 5]);
});

test("identifiers are quoted; raw text is not", () => {
  assert.equal(sql.ident("public", 'we"ird').text, '"public"."we""ird"');
  assert.equal(sql.raw("DESC").text, "DESC");
  for (const parts of [[], [""], ["a\0b"]])
    assert.throws(() => sql.ident(...parts), { code: "invalid_identifier" });
});

test("join separates values and fragments", () => {
  assert.equal(
    sql`SELECT * FROM t WHERE id IN (${sql.join([1, 2, 3])})`.text,
    "SELECT * FROM t WHERE id IN ($1, $2, $3)",
  );
  const both = sql.join([sql`a = ${1}`, sql`b = ${2}`], sql` AND `);
  assert.equal(both.text, "a = $1 AND b = $2");
});

test("a parameter never melts into the text around it", () => {
  assert.equal(sql`LIMIT${1}`.text, "LIMIT $1");
  assert.equal(sql`SELECT ${1}0, ${sql.raw("x")}${2}${3}`.text, "SELECT $1 0, x $2 $3");
  assert.equal(sql`SELECT ${1}::int, (${2})`.text, "SELECT $1::int, ($2)");
});

// Values that every language has are in sdk/conformance/vectors/params.json.
test("values of this language have their texts", () => {
  const table: [SqlValue, unknown][] = [
    [Number.NaN, "NaN"],
    [Number.NEGATIVE_INFINITY, "-Infinity"],
    [12345678901234567890n, "12345678901234567890"],
    [new Date(0), "1970-01-01T00:00:00.000Z"],
    [Uint8Array.of(0, 255), "\\x00ff"],
    [{ a: 1, b: [1n] }, '{"a":1,"b":["1"]}'],
    [[1, null, true, 2n], '{1,NULL,true,"2"}'],
    [[Uint8Array.of(1)], '{"\\\\x01"}'],
  ];
  for (const [value, expected] of table) assert.deepEqual(toParam(value, 1), expected);
  assert.deepEqual(sql`SELECT ${sql.json([1, "a"])}`.params, ['[1,"a"]']);
});

test("what has no SQL form is refused", () => {
  for (const value of [undefined, () => 1, Symbol("x"), new Date(Number.NaN)])
    assert.throws(() => toParam(value, 1), InvalidRequestError);
  assert.throws(() => sql.json(undefined), { code: "invalid_parameter" });
  assert.throws(() => sql`SELECT ${1}, ${undefined as never}`, {
    message: /^parameter \$2 is undefined: use null or a value$/,
  });
});

test("statements can be spelled out", () => {
  assert.deepEqual(toStatement({ sql: "SELECT $1", params: [new Date(0)] }), {
    sql: "SELECT $1",
    params: ["1970-01-01T00:00:00.000Z"],
  });
});

test("property: array text survives the round trip", () => {
  fc.assert(
    fc.property(fc.array(fc.option(fc.string())), (items) => {
      assert.deepEqual(parseArray(String(toParam(items, 1))), items);
    }),
  );
});

/** A reader of one-dimensional array literals as PostgreSQL's array_in reads them. */
function parseArray(text: string): (string | null)[] {
  const items: (string | null)[] = [];
  let at = 1;
  while (text[at] !== "}") {
    if (text[at] === '"') {
      let item = "";
      for (at += 1; text[at] !== '"'; at += 1) {
        if (text[at] === "\\") at += 1;
        item += text[at] ?? "";
      }
      at += 1;
      items.push(item);
    } else {
      assert.equal(text.slice(at, at + 4), "NULL");
      at += 4;
      items.push(null);
    }
    if (text[at] === ",") at += 1;
  }
  return items;
}
