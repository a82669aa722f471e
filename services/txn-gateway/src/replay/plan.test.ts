// Goal: only plans whose every written row is known by constants count. The plans are PostgreSQL's.
import assert from "node:assert/strict";
import { test } from "node:test";
import { readPlan, type TableFacts } from "./plan.ts";

const FACTS: TableFacts = {
  ...{ plain: true, chosen: [], chosenExpression: false, trigger: false, cascades: false, references: [] },
  key: [{ name: "id", type: "text", number: 1 }],
};

function plan(root: object, facts: Partial<TableFacts> = {}) {
  return readPlan(JSON.stringify([{ Plan: root }]), () => ({ ...FACTS, ...facts }));
}

const table = { Schema: "public", "Relation Name": "t" };
const write = (Operation: string, child: object, more: object = {}) => ({
  ...{ "Node Type": "ModifyTable", Operation, ...table, Plans: [child] },
  ...more,
});
const scan = (condition: string) => ({ "Node Type": "Index Scan", ...table, "Index Cond": condition });

test("an update is by primary key only if each of its columns is compared with a constant", () => {
  const keyOf = (condition: string, facts: Partial<TableFacts> = {}) => {
    const found = plan(write("Update", scan(condition)), facts);
    return found.kind === "write" ? Object.fromEntries(found.key ?? []) : found;
  };
  assert.deepEqual(keyOf("((t.id)::text = 'it''s ) AND (x = 1'::text)"), {
    id: "'it''s ) AND (x = 1'::text",
  });
  const two = { key: [...FACTS.key, { name: '"N"', type: "integer", number: 2 }] };
  assert.deepEqual(keyOf(`((t.id = 'a'::text) AND (t."N" = '-1'::integer))`, two), {
    id: "'a'::text",
    '"N"': "'-1'::integer",
  });
  const refused = { kind: "refused", why: "not_by_primary_key" };
  for (const condition of [
    "(t.id > 'a'::text)",
    "(t.id = other.id)",
    "(t.id = ANY ('{a,b}'::text[]))",
    "(t.id = ('a'::text || random()))",
    "(t.other = 'a'::text)",
    "((t.id = 'a'::text) OR (t.id = 'b'::text))",
  ])
    assert.deepEqual(keyOf(condition), refused, condition);
  assert.deepEqual(keyOf("(t.id = 'a'::text)", two), refused, "a part of the key");
});

test("an insert is of one row, with a constant key or one of a sequence", () => {
  const insert = (key: string, more: object = {}) =>
    plan(write("Insert", { "Node Type": "Result", Output: [key, "now()"] }, more));
  const found = insert("'a'::text");
  assert.ok(found.kind === "write" && found.key?.get("id") === "'a'::text" && !found.isGenerated);
  const generated = insert("nextval('s'::regclass)");
  assert.ok(generated.kind === "write" && generated.key === null && generated.isGenerated);
  assert.deepEqual(insert("(random())::text"), { kind: "refused", why: "key_not_constant" });
  assert.deepEqual(insert("'a'::text", { "Conflict Resolution": "UPDATE" }), {
    kind: "refused",
    why: "upsert",
  });
  const from = { ...scan("(t.id = 'b'::text)"), Output: ["'a'::text", "t.n"], Filter: "t.isOpen" };
  const returning = (...Output: string[]) => plan(write("Insert", from, { Alias: "t", Output }));
  const copied = returning("t.id", "t.n");
  assert.ok(copied.kind === "write" && copied.key?.get("id") === "'a'::text");
  for (const output of [["t.id"], ["t.id", "t.id"], ["t.id", "lower(t.n)"]])
    assert.deepEqual(returning(...output), { kind: "refused", why: "not_returned" }, output.join());
  const many = { ...from, "Index Cond": "(t.id > 'b'::text)" };
  const all = { Alias: "t", Output: ["t.id", "t.n"] };
  assert.deepEqual(plan(write("Insert", many, all)), { kind: "refused", why: "several_rows" });
  const rows = { "Node Type": "Values Scan", Output: ["a"] };
  assert.deepEqual(plan(write("Insert", rows)), { kind: "refused", why: "several_rows" });
});

test("what writes unseen is refused, and functions and operators are found, but not in texts and casts", () => {
  const child = scan("(t.id = 'a'::text)");
  for (const [facts, why] of [
    [{ trigger: true }, "trigger"],
    [{ cascades: true }, "cascade"],
    [{ plain: false }, "no_plain_table"],
    [{ key: [] }, "no_primary_key"],
  ] as const)
    assert.deepEqual(plan(write("Delete", child), facts), { kind: "refused", why });
  const nested = { ...child, Plans: [{ "Node Type": "Result" }] };
  assert.deepEqual(plan(write("Update", nested)), { kind: "refused", why: "several_tables" });
  const output = [`("My f"(x) + length('f('::text))`, "(n)::numeric(10,2)"];
  const found = plan({ "Node Type": "Seq Scan", Output: output });
  assert.deepEqual(found, { kind: "read", functions: ["My f", "length", "+"] });
});
