// Goal: a Kysely application runs on the service as on PostgreSQL, and gets a promise for each commit. Method: the
// published library on the whole system of three regions; the test checks the rows without the adapter.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { type System } from "@highwater/lab-system";
import {
  CamelCasePlugin,
  type ColumnType,
  type Generated,
  Kysely,
  type KyselyConfig,
  PostgresDialect,
  sql,
} from "kysely";
import { jsonArrayFrom } from "kysely/helpers/postgres";
import {
  bind,
  committed,
  HighwaterDialect,
  type HighwaterDialectConfig,
  transact,
  transactionOf,
} from "../../src/adapters/kysely/index.ts";
import { type Highwater, type InteractiveTransaction } from "../../src/index.ts";
import { ask, client, EAST, gate, losingFirstAnswers, refuses, startSystem } from "./support.ts";

interface Database {
  readonly person: {
    readonly id: Generated<number>;
    readonly name: string;
    readonly friends: Generated<bigint>;
    readonly born_at: ColumnType<Date | null, Date | undefined, Date>;
    readonly extra: ColumnType<{ readonly tags: string[] } | null, string | undefined, string>;
  };
  readonly pet: { readonly name: string; readonly owner: number };
  readonly account: { readonly id: number; readonly balance: bigint };
}

let system: System;
before(async () => {
  system = await startSystem([
    `CREATE TABLE person (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE,
       friends int8 NOT NULL DEFAULT 0, born_at timestamptz, extra jsonb)`,
    "CREATE TABLE pet (name text PRIMARY KEY, owner int NOT NULL REFERENCES person)",
    "CREATE TABLE account (id int PRIMARY KEY, balance int8 NOT NULL)",
    "INSERT INTO account SELECT n, 100 FROM generate_series(1, 9) AS n",
  ]);
});
after(() => system.close());

type Options = Omit<HighwaterDialectConfig, "client"> & Omit<KyselyConfig, "dialect">;
function database(hw: Highwater, { plugins, log, ...options }: Options = {}): Kysely<Database> {
  const dialect = new HighwaterDialect({ client: hw, ...options });
  return new Kysely<Database>({ dialect, ...(plugins && { plugins }), ...(log && { log }) });
}

const set = (db: Kysely<Database>, id: number, balance: bigint) =>
  db.updateTable("account").set({ balance }).where("id", "=", id);
const balanceOf = (hw: Highwater, id: number): Promise<unknown> =>
  ask(hw, "SELECT balance FROM account WHERE id = $1", id);

describe("single statements", () => {
  it("insert, select, update and delete, with the types of the client", async (context) => {
    const db = database(await client(system, context));
    const bornAt = new Date("1815-12-10T12:00:00Z");
    const ada = { name: "Ada", born_at: bornAt, extra: JSON.stringify({ tags: ["a", "b"] }) };
    const inserted = await db.insertInto("person").values(ada).returningAll().executeTakeFirstOrThrow();
    assert.deepEqual({ ...inserted, id: 0 }, { ...ada, id: 0, friends: 0n, extra: { tags: ["a", "b"] } });
    const [many] = await db
      .insertInto("person")
      .values([{ name: "Bert" }, { name: "Cleo" }])
      .execute();
    assert.equal(many?.numInsertedOrUpdatedRows, 2n);
    const [pets] = await db.insertInto("pet").values({ name: "Cat", owner: inserted.id }).execute();
    assert.equal(pets?.numInsertedOrUpdatedRows, 1n);
    const found = await db
      .selectFrom("person")
      .select((eb) => [
        "name",
        jsonArrayFrom(eb.selectFrom("pet").select("pet.name").whereRef("owner", "=", "person.id")).as("pets"),
      ])
      .where("name", "in", ["Ada", "Bert"])
      .orderBy("name")
      .execute();
    assert.deepEqual(found, [
      { name: "Ada", pets: [{ name: "Cat" }] },
      { name: "Bert", pets: [] },
    ]);
    const updated = await db
      .updateTable("person")
      .set({ friends: 2n ** 60n })
      .where("name", "<>", "Ada")
      .execute();
    assert.equal(updated[0]?.numUpdatedRows, 2n);
    const { rows } = await sql<{
      friends: bigint;
    }>`SELECT friends FROM person WHERE name = ${"Bert"}`.execute(db);
    assert.deepEqual(rows, [{ friends: 2n ** 60n }]);
    const deleted = await db.deleteFrom("person").where("name", "in", ["Bert", "Cleo"]).executeTakeFirst();
    assert.equal(deleted.numDeletedRows, 2n);
  });

  it("errors are those of the service, and types can be another choice", async (context) => {
    const hw = await client(system, context);
    const db = database(hw, { types: { 20: Number } });
    const duplicate = db.insertInto("account").values({ id: 1, balance: 1n }).execute();
    await refuses(duplicate, {
      ...{ name: "ConstraintError", constraint: "account_pkey", sqlstate: "23505", outcome: "not_applied" },
    });
    const first = await db.selectFrom("account").selectAll().where("id", "=", 9).execute();
    assert.deepEqual(first, [{ id: 9, balance: 100 }]);
  });

  it("what would need a session of the database is refused", async (context) => {
    const db = database(await client(system, context));
    const statements = [
      sql`SET search_path TO nowhere`,
      sql`SELECT pg_advisory_lock(1)`,
      sql`CREATE TEMPORARY TABLE t (a int)`,
      sql`LISTEN channel`,
    ];
    for (const each of statements) await refuses(each.execute(db), { code: "session_bound" });
    await refuses(sql`COMMIT`.execute(db), { code: "transaction_control" });
    await db.transaction().execute(async (trx) => {
      await sql`SET LOCAL search_path TO nowhere`.execute(trx);
      await sql`CREATE TEMPORARY TABLE t (a int) ON COMMIT DROP`.execute(trx);
      await sql`INSERT INTO pg_temp.t VALUES (1)`.execute(trx);
    });
  });

  it("rows over the service's limit are an error, and not silently fewer", async (context) => {
    const hw = await client(system, context);
    const db = database(hw);
    await refuses(sql`SELECT generate_series(1, 1001)`.execute(db), { code: "result_too_large" });
    const written =
      sql`INSERT INTO account SELECT n, 0 FROM generate_series(10001, 11001) n RETURNING id`.execute(db);
    await refuses(written, { code: "result_too_large", outcome: "applied" });
    assert.equal(await ask(hw, "SELECT count(*) FROM account WHERE id > 10000"), 1001n);
    await ask(hw, "DELETE FROM account WHERE id > 10000 RETURNING 1");
  });
});

describe("the promise of a commit", () => {
  it("of one query, beside what execute() gives; with plugins and logging as ever", async (context) => {
    const logged: string[] = [];
    const db = new Kysely<{ person: { name: string; bornAt: Date | null } }>({
      dialect: new HighwaterDialect({ client: await client(system, context) }),
      plugins: [new CamelCasePlugin()],
      log: ({ level, query }) => {
        logged.push(`${level} ${query.sql}`);
      },
    });
    const query = db
      .insertInto("person")
      .values({ name: "Dora", bornAt: null })
      .returning(["name", "bornAt"]);
    const { result, transaction } = await committed(db, query);
    assert.deepEqual(result, [{ name: "Dora", bornAt: null }]);
    assert.equal((await transaction.durable({ level: "region", timeoutMs: 60_000 })).verdict, "durable");
    assert.deepEqual(logged, [
      'query insert into "person" ("name", "born_at") values ($1, $2) returning "name", "born_at"',
    ]);
    const raw = await committed(db, sql<{ one: number }>`SELECT 1 AS one`, {
      ack: "durable",
      level: "region",
    });
    assert.deepEqual([raw.result.rows, raw.transaction.state], [[{ one: 1 }], "durable"]);
  });

  it("of several queries, which are one transaction in one request", async (context) => {
    let requests = 0;
    const hw = await client(system, context, {
      fetch: (url, init) => {
        requests += url.endsWith("/v1/transactions") ? 1 : 0;
        return fetch(url, init);
      },
    });
    const db = database(hw);
    const { result, transaction } = await committed(db, [
      set(db, 1, 90n),
      set(db, 2, 110n).returning("balance"),
      sql<{ written: bigint }>`SELECT count(DISTINCT xmin::text) AS written FROM account WHERE id < 3`,
    ]);
    assert.equal(result[0][0]?.numUpdatedRows, 1n);
    assert.deepEqual(result[1], [{ balance: 110n }]);
    assert.deepEqual(result[2].rows, [{ written: 1n }]);
    assert.equal(requests, 1);
    await transaction.durable({ timeoutMs: 60_000 });
    const broken = committed(db, [set(db, 1, 0n), db.insertInto("account").values({ id: 2, balance: 0n })]);
    await refuses(broken, { code: "constraint_violation", statement: 1 });
    assert.equal(await balanceOf(hw, 1), 90n);
    await refuses(committed(db, []), { code: "invalid_options" });
  });

  it("with ack durable for the whole database, statements resolve when they are durable", async (context) => {
    const hw = await client(system, context);
    const db = database(hw, { transaction: { ack: "durable", level: "global", timeoutMs: 60_000 } });
    const verdicts: string[] = [];
    hw.onDurable(({ verdict }) => verdicts.push(verdict));
    await set(db, 3, 1n).execute();
    const { transaction } = await committed(db, set(db, 3, 2n));
    assert.equal(transaction.verdict({ level: "global" })?.verdict, "durable");
    const open = await db.transaction().execute(async (trx) => {
      await set(trx, 3, 3n).execute();
      return transactionOf(trx);
    });
    assert.equal(open.committed?.verdict({ level: "global" })?.verdict, "durable");
  });
});

describe("what is known, and what is not", () => {
  it("a transaction whose durability could not be waited for has committed all the same", async (context) => {
    const hw = await client(system, context);
    const db = database(hw, {
      transaction: { ack: "durable", level: "region", timeoutMs: 5_000, maxWaitMs: 1_000 },
    });
    const pending = { code: "durability_timeout", outcome: "applied", retry: "wait" };
    await system.cluster.isolate(EAST);
    try {
      const update = set(db, 3, 41n);
      await refuses(update.execute(), pending);
      let open: InteractiveTransaction | undefined;
      const whole = db.transaction().execute(async (trx) => {
        open = await transactionOf(trx);
        await set(trx, 3, 42n).execute();
      });
      await refuses(whole, pending);
      assert.equal(await balanceOf(hw, 3), 42n);
      await system.cluster.healAll();
      assert.equal((await open?.durable({ level: "region", timeoutMs: 60_000 }))?.verdict, "durable");
    } finally {
      await system.cluster.healAll();
    }
  });

  it("an answer that was lost is found again: it ran once, and its rows are not made up", async (context) => {
    const db = database(await client(system, context, { fetch: losingFirstAnswers() }));
    const insert = db.insertInto("account").values({ id: 31, balance: 1n }).returning("id");
    await refuses(insert.execute(), { code: "results_not_kept", outcome: "applied" });
    const hw = await client(system, context);
    assert.equal(await ask(hw, "SELECT count(*) FROM account WHERE id = 31"), 1n);
  });
});

describe("transactions", () => {
  it("commit, with the isolation level and access mode they ask for", async (context) => {
    const hw = await client(system, context);
    const db = database(hw);
    const level = (trx: Kysely<Database>): Promise<{ rows: unknown[] }> =>
      sql`SELECT current_setting('transaction_isolation') AS is`.execute(trx);
    const run = db.transaction();
    assert.deepEqual((await run.execute(level)).rows, [{ is: "serializable" }]);
    for (const isolation of ["read committed", "repeatable read", "serializable"] as const)
      assert.deepEqual((await run.setIsolationLevel(isolation).execute(level)).rows, [{ is: isolation }]);
    await refuses(run.setIsolationLevel("snapshot").execute(level), { code: "invalid_request" });
    const write = run
      .setAccessMode("read only")
      .execute((trx) => trx.updateTable("account").set({ balance: 0n }).execute());
    await refuses(write, { code: "statement_failed", sqlstate: "25006" });
    const open = await run.execute(async (trx) => {
      await set(trx, 4, 7n).execute();
      assert.equal(await balanceOf(hw, 4), 100n);
      return transactionOf(trx);
    });
    assert.equal((await open.durable({ level: "region", timeoutMs: 60_000 })).verdict, "durable");
    assert.equal(await balanceOf(hw, 4), 7n);
    await refuses(transactionOf(db), { code: "invalid_options" });
  });

  it("roll back when the body throws, and when an error was swallowed", async (context) => {
    const hw = await client(system, context);
    const db = database(hw);
    const change = (trx: Kysely<Database>): Promise<unknown> => set(trx, 5, 0n).execute();
    const thrown = db.transaction().execute(async (trx) => {
      await change(trx);
      throw new Error("no");
    });
    await assert.rejects(thrown, /^Error: no$/);
    const swallowed = db.transaction().execute(async (trx) => {
      await change(trx);
      await sql`SELECT 1 / 0`.execute(trx).catch(() => undefined);
    });
    await assert.rejects(swallowed);
    const inside = db.transaction().execute(async (trx) => committed(trx, sql`SELECT 1`));
    await refuses(inside, { code: "invalid_options" });
    assert.equal(await balanceOf(hw, 5), 100n);
  });

  it("under control: savepoints, commit and rollback", async (context) => {
    const hw = await client(system, context);
    const trx = await database(hw).startTransaction().execute();
    await set(trx, 6, 1n).execute();
    const saved = await trx.savepoint('it"s').execute();
    await set(trx, 6, 2n).execute();
    await refuses(trx.insertInto("account").values({ id: 6, balance: 0n }).execute(), { sqlstate: "23505" });
    await saved.rollbackToSavepoint('it"s').execute();
    await saved.releaseSavepoint('it"s').execute();
    const open = await transactionOf(trx);
    await trx.commit().execute();
    assert.equal((await open.durable({ timeoutMs: 60_000 })).verdict, "durable");
    assert.equal(await balanceOf(hw, 6), 1n);
    const other = await database(hw).startTransaction().execute();
    await set(other, 6, 0n).execute();
    await other.rollback().execute();
    assert.equal(await balanceOf(hw, 6), 1n);
  });

  it("transact runs the body again after a conflict, and each takes effect once", async (context) => {
    const hw = await client(system, context);
    const db = database(hw);
    let runs = 0;
    // All have read before the first of them writes: so all but one conflict.
    const allHaveRead = gate(4);
    const add = async (): Promise<void> => {
      const { result, transaction } = await transact(
        db,
        async (trx) => {
          runs += 1;
          const row = await trx
            .selectFrom("account")
            .select("balance")
            .where("id", "=", 7)
            .executeTakeFirstOrThrow();
          await allHaveRead();
          await set(trx, 7, row.balance + 1n).execute();
          return row.balance + 1n;
        },
        { isolation: "serializable", maxAttempts: 200 },
      );
      assert.ok(result > 100n);
      await transaction.durable({ timeoutMs: 60_000 });
    };
    await Promise.all([add(), add(), add(), add()]);
    assert.equal(await balanceOf(hw, 7), 104n);
    assert.ok(runs >= 7, `${String(runs)} runs`);
  });

  it("in an open transaction of the client, and in a session", async (context) => {
    const hw = await client(system, context);
    const db = database(hw);
    const tx = await hw.begin();
    const inside = bind(db, tx);
    await set(inside, 8, 8n).execute();
    assert.throws(() => inside.transaction(), /not supported/);
    assert.equal(await balanceOf(hw, 8), 100n);
    await tx.commit();
    assert.equal(await balanceOf(hw, 8), 8n);

    const session = hw.session({ causal: true });
    const own = bind(db, session);
    await set(own, 8, 9n).execute();
    await own.transaction().execute((trx) => trx.insertInto("person").values({ name: "Emil" }).execute());
    assert.equal(session.token.split(".").filter((part) => part !== "").length > 2, true);
    await session.durable({ level: "region", timeoutMs: 60_000 });
    const reads = bind(own, session, { readOnly: true, mode: "local" });
    const { result, transaction } = await committed(
      reads,
      reads.selectFrom("account").selectAll().where("id", "=", 8),
    );
    assert.deepEqual(result, [{ id: 8, balance: 9n }]);
    assert.ok(transaction.served !== undefined, "it went with the session's token");
    await refuses(reads.updateTable("account").set({ balance: 0n }).execute(), { sqlstate: "25006" });
  });

  it("another dialect is refused", async () => {
    const elsewhere = new Kysely<Database>({
      dialect: new PostgresDialect({
        pool: {
          connect: async () => ({ query: () => undefined, release: () => undefined }),
          end: async () => undefined,
        } as never,
      }),
    });
    await refuses(committed(elsewhere, elsewhere.selectFrom("account").selectAll()), {
      code: "invalid_options",
    });
  });
});

describe("streams", () => {
  const numbers = (db: Kysely<Database>, count: number) =>
    db.selectFrom(sql<{ n: number }>`generate_series(1, ${count}::int)`.as<"s">(sql`s(n)`)).select("s.n");

  it("come by a cursor in chunks, in a transaction of their own or in the open one", async (context) => {
    const hw = await client(system, context);
    const sizes: number[] = [];
    const db = database(hw);
    const seen: number[] = [];
    // More rows than one answer may have.
    for await (const { n } of numbers(db, 1_205).stream(500)) seen.push(n);
    assert.deepEqual([seen.length, seen[0], seen.at(-1)], [1_205, 1, 1_205]);
    await db.transaction().execute(async (trx) => {
      await set(trx, 9, 55n).execute();
      for await (const { balance } of trx
        .selectFrom("account")
        .select("balance")
        .where("id", "=", 9)
        .stream(1))
        sizes.push(Number(balance));
      for await (const { n } of numbers(trx, 10).stream(3)) {
        if (n === 2) break;
      }
      await trx.selectFrom("account").selectAll().execute();
    });
    assert.deepEqual(sizes, [55]);
  });

  it("end early, fail, and change rows", async (context) => {
    const hw = await client(system, context);
    const db = database(hw);
    const isOpen =
      "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND query LIKE 'FETCH%'";
    for await (const { n } of numbers(db, 1_000).stream(10)) {
      if (n < 15) continue;
      assert.equal(await ask(hw, isOpen), 1n, "until it ends it can be seen");
      break;
    }
    assert.equal(await ask(hw, isOpen), 0n);
    const failing = db
      .selectFrom("account")
      .select(sql<number>`1 / (id - 2)`.as("x"))
      .orderBy("id")
      .stream(1);
    const drain = async (): Promise<void> => {
      for await (const row of failing) assert.ok(row);
    };
    await refuses(drain(), { sqlstate: "22012" });
    const returned: number[] = [];
    const inserting = db
      .insertInto("account")
      .values([
        { id: 21, balance: 1n },
        { id: 22, balance: 1n },
      ])
      .returning("id");
    for await (const { id } of inserting.stream()) returned.push(id);
    assert.deepEqual(returned, [21, 22]);
    assert.equal(await ask(hw, "SELECT count(*) FROM account WHERE id IN (21, 22)"), 2n);
  });

  it("run inside one another, and behind a return to a savepoint", async (context) => {
    const db = database(await client(system, context));
    const { result } = await transact(db, async (trx) => {
      const pairs: string[] = [];
      await sql`SAVEPOINT before`.execute(trx);
      for await (const outer of numbers(trx, 9).stream(1)) {
        for await (const inner of numbers(trx, 2).stream(1)) pairs.push(`${outer.n}/${inner.n}`);
        if (outer.n < 2) continue;
        // It ends the cursor.
        await sql`ROLLBACK TO SAVEPOINT before`.execute(trx);
        break;
      }
      await set(trx, 1, 77n).execute();
      return pairs;
    });
    assert.deepEqual(result, ["1/1", "1/2", "2/1", "2/2"]);
    assert.equal(await balanceOf(await client(system, context), 1), 77n);
  });

  it("a SELECT whose CTE changes rows runs as a whole", async (context) => {
    const db = database(await client(system, context));
    const inserting = db
      .with("added", (qb) => qb.insertInto("account").values({ id: 23, balance: 1n }).returning("id"))
      .selectFrom("added")
      .select("id");
    const returned: number[] = [];
    for await (const { id } of inserting.stream()) returned.push(id);
    assert.deepEqual(returned, [23]);
  });
});
