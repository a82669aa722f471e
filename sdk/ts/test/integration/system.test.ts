// Goal: on the real product, a session goes on in another region, and values of every base type come back. Method: the whole system
// of three regions on this machine. The other main paths are in sdk/conformance/scenarios/system.
import assert from "node:assert/strict";
import { after, before, test, type TestContext } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { System } from "@highwater/lab-system";
import { Highwater, type HighwaterOptions, type Row, sql, type StatementInput } from "../../src/index.ts";
import { EDGES, WITHOUT_INPUT } from "./values.ts";

const [EAST, WEST] = ["us-east", "us-west"] as const;
let system: System;

before(async () => {
  system = await System.start();
  await using hw = new Highwater({ endpoints: await system.endpoints(EAST) });
  await hw.transaction(sql`CREATE TABLE note (text text UNIQUE)`, { ack: "durable", level: "global" });
});

after(() => system.close());

async function client(
  context: TestContext,
  from: string,
  options: Partial<HighwaterOptions> = {},
): Promise<Highwater> {
  // With other regions to go to it would take a busy machine's slowness for a failure, send again, and get no rows.
  const endpoints = (await system.endpoints(from)).slice(0, 1);
  const hw = new Highwater({ endpoints, requestTimeoutMs: 60_000, totalTimeoutMs: 120_000, ...options });
  context.after(() => hw.close());
  return hw;
}

test("a session: causal reads near the user, and what a later process learns", async (context) => {
  const [east, west] = [await client(context, EAST), await client(context, WEST)];
  const session = east.session();
  await session.transaction(sql`INSERT INTO note VALUES ('first')`);
  await session.transact((tx) => tx.query(sql`INSERT INTO note VALUES ('second')`));
  const later = west.session({ causal: true });
  const verdicts = await later.resume(session.token, { waitMs: 20_000 });
  assert.deepEqual(
    verdicts.map(({ verdict }) => verdict),
    ["durable", "durable"],
  );
  const read = await later.transaction(sql`SELECT count(*) FROM note`, { readOnly: true });
  assert.deepEqual(read.rows, [{ count: 2n }]);
  assert.ok(read.served !== undefined);
  await later.durable();
});

test("64 at the same time: each has its own answer, beside a conflict, an error, a huge result and one that is cancelled", async (context) => {
  const paths: string[] = [];
  const hw = await client(context, EAST, {
    fetch: (url, init) => {
      if (init.method === "POST") paths.push(new URL(url).pathname.replace("/v1/transactions", ""));
      return fetch(url, init);
    },
  });
  await hw.transaction([
    sql`CREATE TABLE many (id int PRIMARY KEY, n int)`,
    sql`INSERT INTO many VALUES (0, 0)`,
  ]);
  const witness = await client(context, EAST);
  const until = async (count: number, what: StatementInput): Promise<void> => {
    for (;;) {
      const { rows } = await witness.transaction(what, { isolation: "read committed" });
      if (rows[0]?.["n"] === count) return;
    }
  };
  const raise = sql`UPDATE many SET n = n + 1 WHERE id = 0`;
  const holder = await hw.begin();
  await holder.query(raise);
  paths.length = 0;

  const cancel = new AbortController();
  const cancelled = hw.transaction(sql`SELECT pg_sleep(600) AS sixty_four`, { signal: cancel.signal });
  const conflict = hw.transaction(raise, { maxAttempts: 1 });
  const failing = hw.transaction([
    sql`INSERT INTO many VALUES (1000, 1)`,
    sql`INSERT INTO many VALUES (0, 1)`,
  ]);
  const huge = hw.transaction(sql`SELECT repeat('x', 3000000) AS text`, { isolation: "read committed" });
  const keys = Array.from({ length: 60 }, (_, at) => at + 1);
  const plain = keys.map((key) =>
    hw.transaction(sql`INSERT INTO many VALUES (${key}, ${key * key}) RETURNING id, n`, {
      isolation: "read committed",
    }),
  );
  // Their waits come later.
  for (const each of [cancelled, conflict, failing]) each.catch(() => undefined);
  await until(
    1,
    sql`SELECT count(*)::int AS n FROM (SELECT FROM pg_locks WHERE NOT granted LIMIT 1) AS waiting`,
  );
  await holder.commit();
  assert.deepEqual(
    (await Promise.all(plain)).map(({ rows }) => rows[0]),
    keys.map((key) => ({ id: key, n: key * key })),
  );
  await assert.rejects(failing, {
    code: "constraint_violation",
    outcome: "not_applied",
    constraint: "many_pkey",
  });
  assert.equal((await huge).rows[0]?.["text"], "x".repeat(3_000_000));
  await assert.rejects(conflict, { code: "serialization_failure", outcome: "not_applied" });
  const shared = paths.filter((path) => !path.endsWith("/commit")).sort();
  assert.deepEqual(shared, ["", "/batch"], "all that cannot be cancelled share a request");
  const sleeping = sql`SELECT count(*)::int AS n FROM pg_stat_activity
    WHERE query LIKE '%sixty_four%' AND pid <> pg_backend_pid() AND state = 'active'`;
  await until(1, sleeping);
  cancel.abort();
  await assert.rejects(cancelled, { code: "call_aborted", outcome: "unknown" });
  await until(0, sleeping);
  const { rows } = await hw.transaction(sql`SELECT count(*)::int AS n, sum(n)::int AS sum FROM many`);
  assert.deepEqual(rows, [{ n: 61, sum: 1 + keys.reduce((sum, key) => sum + key * key, 0) }]);
});

test("values of every base type, and arrays of them, come back as they were sent", async (context) => {
  const hw = await client(context, EAST, { totalTimeoutMs: 120_000 });
  const { rows: types } = await hw.transaction(
    sql`SELECT format_type(oid, NULL) AS type, typname AS name FROM pg_type
        WHERE typtype IN ('b', 'r', 'm') AND (typcategory <> 'A' OR typname IN ('int2vector', 'oidvector')) AND typnamespace = 'pg_catalog'::regnamespace`,
  );
  const names = types.map(({ name }) => String(name)).filter((name) => !WITHOUT_INPUT.includes(name));
  const unquoted = Object.keys(EDGES).map((name) => name.replaceAll('"', ""));
  assert.deepEqual(names.sort(), unquoted.sort(), "every base type of the server is tried");

  const cases = Object.entries(EDGES).flatMap(([type, texts]) => texts.map((text) => ({ type, text })));
  const run = async (
    statementOf: (each: (typeof cases)[number], index: number) => StatementInput,
  ): Promise<Row[]> => {
    const statements = cases.map(statementOf);
    const { results } = await hw.transaction([sql`SET LOCAL TimeZone TO 'UTC'`, ...statements]);
    return (results ?? []).slice(1).map(({ rows: [row] }) => row ?? {});
  };
  // A typed parameter would be of length 1 for "bit" and "bpchar": a column type without its length is not.
  const there = await run(({ type, text }) => {
    const cast = sql.raw(`$1::${type === "bit" ? "varbit" : type}`);
    const of = cast.text;
    return {
      sql: `SELECT ${of} AS value, (${of})::text AS text, ARRAY[${of}, NULL] AS list`,
      params: [text],
    };
  });
  const decoded: Readonly<Record<string, string>> = {
    ...{ bool: "boolean", int8: "bigint", int2: "number", int4: "number", oid: "number" },
    ...{ float4: "number", float8: "number", json: "object", jsonb: "object", bytea: "object" },
  };
  const faults: unknown[] = [];
  for (const [index, { type, text }] of cases.entries()) {
    const { value, list } = there[index] ?? {};
    const far = type === "timestamptz" && text.startsWith("294276");
    const expected = type === "timestamptz" && !far ? (text.includes("inf") ? "number" : "object") : "string";
    if (typeof value !== (decoded[type] ?? expected)) faults.push([type, text, value]);
    // The elements of an array of boxes stand between semicolons: it stays text.
    if (type !== "box" && !isDeepStrictEqual(list, [value, null])) faults.push([type, text, list]);
  }
  assert.deepEqual(faults, [], "what came is not what types decode to");
  const back = await run(({ type }, index) => {
    const { value, list } = there[index] ?? {};
    const isJson = type === "json" || type === "jsonb";
    const of = type === "bit" ? "varbit" : type;
    const statement = sql`SELECT (${isJson ? sql.json(value) : (value as string)}::${sql.raw(of)})::text AS text,
                                 (${list as string[]}::${sql.raw(of)}[])[1]::text AS element`;
    return statement;
  });
  const changed: unknown[] = [];
  for (const [index, { type, text }] of cases.entries()) {
    const sent = there[index]?.["text"];
    const { text: again, element } = back[index] ?? {};
    const same = (each: unknown): unknown => (type === "json" ? JSON.parse(String(each)) : each);
    if (!isDeepStrictEqual([same(again), same(element)], [same(sent), same(sent)]))
      changed.push([type, text, sent, again, element]);
  }
  assert.deepEqual(changed, [], "what was sent back is not what came");
});
