// Goal: the main paths hold on the real product: interactive transactions, conflicts, a gateway that dies, causal reads and the
// session of a process that is gone, and values of every base type. Method: the whole system of three regions on this machine.
import assert from "node:assert/strict";
import { after, before, test, type TestContext } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { System } from "@highwater/lab-system";
import { Highwater, type HighwaterOptions, type Row, sql, type StatementInput } from "../../src/index.ts";
import { gate } from "../adapters/support.ts";
import { EDGES, WITHOUT_INPUT } from "./values.ts";

const [EAST, WEST] = ["us-east", "us-west"] as const;
let system: System;

before(async () => {
  system = await System.start({
    env: {
      GATEWAY_IDLE_TIMEOUT_MS: "20000",
    },
  });
  await using hw = new Highwater({ endpoints: await system.endpoints(EAST) });
  await hw.transaction(
    [
      sql`CREATE TABLE account (id int PRIMARY KEY, balance int8 NOT NULL)`,
      sql`INSERT INTO account SELECT i, 100 FROM generate_series(1, 9) AS i`,
      sql`CREATE TABLE note (text text UNIQUE)`,
    ],
    { ack: "durable", level: "global" },
  );
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

test("an interactive transaction: rows, savepoints, commit, durable; and nothing of one that is left open", async (context) => {
  const hw = await client(context, EAST);
  const tx = await hw.begin({ isolation: "read committed" });
  const { rows } = await tx.query<{ balance: bigint }>(sql`SELECT balance FROM account WHERE id = ${1}`);
  assert.deepEqual(rows, [{ balance: 100n }]);
  assert.ok((tx.expiresAt?.getTime() ?? 0) > 0);
  await tx.execute([sql`UPDATE account SET balance = balance - 10 WHERE id = 1`, sql`SAVEPOINT a`]);
  await assert.rejects(tx.query(sql`INSERT INTO account VALUES (1, 1)`), {
    ...{ name: "ConstraintError", constraint: "account_pkey", sqlstate: "23505", open: true },
  });
  await tx.query(sql`ROLLBACK TO SAVEPOINT a`);
  const committed = await tx.commit({ statements: [sql`SELECT balance FROM account WHERE id = 1`] });
  assert.deepEqual(committed.rows, [{ balance: 90n }]);
  assert.equal((await tx.durable({ level: "region" })).verdict, "durable");
  {
    await using open = await hw.begin();
    await open.query(sql`UPDATE account SET balance = 0 WHERE id = 1`);
  }
  const read = await hw.transaction(sql`SELECT balance FROM account WHERE id = 1`, { readOnly: true });
  assert.deepEqual(read.rows, [{ balance: 90n }]);
});

test("transact under contention: every body takes effect exactly once", async (context) => {
  const hw = await client(context, EAST, { totalTimeoutMs: 120_000 });
  let runs = 0;
  // All of them have read before the first one writes.
  const met = gate(4);
  const add = (): Promise<void> =>
    hw.transact(
      async (tx) => {
        runs += 1;
        const { rows } = await tx.query<{ balance: bigint }>(sql`SELECT balance FROM account WHERE id = 2`);
        await met();
        await tx.query(sql`UPDATE account SET balance = ${(rows[0]?.balance ?? 0n) + 1n} WHERE id = 2`);
      },
      { isolation: "serializable", maxAttempts: 200 },
    );
  await Promise.all([add(), add(), add(), add()]);
  const { rows } = await hw.transaction(sql`SELECT balance FROM account WHERE id = 2`);
  assert.deepEqual(rows, [{ balance: 104n }]);
  assert.ok(runs > 4, "they have met");
});

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

test("a time limit rolls an idle transaction back, and says so", async (context) => {
  const hw = await client(context, EAST);
  const tx = await hw.begin();
  await tx.query(sql`SELECT 1`);
  const untilMs = performance.now() + 90_000;
  while ((await hw.status(tx.id, { waitMs: 30_000 })).state === "active")
    assert.ok(performance.now() < untilMs, "it is rolled back in time");
  await assert.rejects(tx.query(sql`SELECT 1`), {
    code: "transaction_expired",
    name: "TransactionAbortedError",
  });
});

test("a gateway that dies: its open transaction is gone, and transact goes on at another one", async (context) => {
  const hw = await client(context, EAST, {
    endpoints: await system.endpoints(EAST),
    requestTimeoutMs: 10_000,
  });
  const tx = await hw.begin();
  await tx.query(sql`SELECT 1`);
  let runs = 0;
  const done = hw.transact(
    async (inner) => {
      runs += 1;
      await inner.query(sql`UPDATE account SET balance = balance + 1 WHERE id = 3`);
      if (runs === 1) await system.gateway(EAST).kill();
      await inner.query(sql`UPDATE account SET balance = balance + 1 WHERE id = 4`);
    },
    { ack: "durable", level: "region" },
  );
  await done;
  await assert.rejects(tx.commit(), {
    name: /TransactionAbortedError/,
    retry: "transaction",
    outcome: "not_applied",
  });
  const { rows } = await hw.transaction(sql`SELECT balance FROM account WHERE id IN (3, 4)`);
  assert.deepEqual(rows, [{ balance: 101n }, { balance: 101n }]);
  assert.equal(runs, 2);
});
