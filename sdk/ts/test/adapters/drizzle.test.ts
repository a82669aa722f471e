// Goal: a Drizzle application runs on the service as on PostgreSQL, and gets a promise for each commit. Method: the
// published library on the whole system of three regions; the test checks the rows without the adapter.
import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { type System } from "@highwater/lab-system";
import { and, count, DrizzleQueryError, eq, relations, sql, TransactionRollbackError } from "drizzle-orm";
import { readMigrationFiles } from "drizzle-orm/migrator";
import {
  type AnyPgColumn,
  bigint,
  integer,
  jsonb,
  pgTable,
  serial,
  text,
  timestamp,
} from "drizzle-orm/pg-core";
import { drizzle as proxy } from "drizzle-orm/pg-proxy";
import {
  bind,
  committed,
  drizzle,
  type HighwaterDatabase,
  migrate,
  transact,
  transactionOf,
} from "../../src/adapters/drizzle/index.ts";
import { type Highwater, HighwaterError, type InteractiveTransaction } from "../../src/index.ts";
import { ask, client, EAST, gate, losingFirstAnswers, refuses, startSystem } from "./support.ts";

const person = pgTable("person", {
  id: serial().primaryKey(),
  name: text().notNull().unique(),
  friends: bigint({ mode: "bigint" }).notNull().default(0n),
  bornAt: timestamp("born_at", { withTimezone: true }),
  extra: jsonb().$type<unknown>(),
});
const pet = pgTable("pet", {
  name: text().primaryKey(),
  owner: integer()
    .notNull()
    .references((): AnyPgColumn => person.id),
});
const account = pgTable("account", {
  id: integer().primaryKey(),
  balance: bigint({ mode: "number" }).notNull(),
});
const schema = {
  ...{ person, pet, account },
  personRelations: relations(person, ({ many }) => ({ pets: many(pet) })),
  petRelations: relations(pet, ({ one }) => ({
    keeper: one(person, { fields: [pet.owner], references: [person.id] }),
  })),
};
type Database = HighwaterDatabase<typeof schema>;

let system: System;
before(async () => {
  system = await startSystem([
    `CREATE TABLE person (id serial PRIMARY KEY, name text NOT NULL UNIQUE, friends int8 NOT NULL DEFAULT 0,
       born_at timestamptz, extra jsonb)`,
    "CREATE TABLE pet (name text PRIMARY KEY, owner int NOT NULL REFERENCES person)",
    "CREATE TABLE account (id int PRIMARY KEY, balance int8 NOT NULL)",
    "INSERT INTO account SELECT n, 100 FROM generate_series(1, 9) AS n",
  ]);
});
after(() => system.close());

const set = (db: Pick<Database, "update">, id: number, balance: number) =>
  db.update(account).set({ balance }).where(eq(account.id, id));
const balanceOf = (hw: Highwater, id: number): Promise<unknown> =>
  ask(hw, "SELECT balance::int FROM account WHERE id = $1", id);

describe("single statements", () => {
  it("insert, select, join, update, delete, count and raw SQL", async (context) => {
    const db = drizzle(await client(system, context), { schema });
    const bornAt = new Date("1815-12-10T12:00:00.123Z");
    const ada = { name: "Ada", friends: 2n ** 60n, bornAt, extra: { tags: ["a", 'b"'] } };
    const [inserted] = await db.insert(person).values(ada).returning();
    assert.deepEqual({ ...inserted, id: 0 }, { ...ada, id: 0 });
    const others = await db.insert(person).values([{ name: "Bert" }, { name: "Cleo", extra: "123" }]);
    assert.deepEqual([others.command, others.rowCount, others.rows], ["INSERT", 2, []]);
    await db.insert(pet).values({ name: "Cat", owner: inserted?.id ?? 0 });
    const joined = await db
      .select()
      .from(person)
      .leftJoin(pet, eq(pet.owner, person.id))
      .where(eq(person.name, "Bert"));
    assert.deepEqual(
      joined.map((row) => [row.person.name, row.person.bornAt, row.pet]),
      [["Bert", null, null]],
    );
    const partial = await db
      .select({ who: person.name, deep: { extra: person.extra } })
      .from(person)
      .orderBy(person.id);
    assert.deepEqual(partial, [
      { who: "Ada", deep: { extra: { tags: ["a", 'b"'] } } },
      { who: "Bert", deep: { extra: null } },
      // A text in a JSON column: parsed once, not twice.
      { who: "Cleo", deep: { extra: "123" } },
    ]);
    assert.equal(await db.$count(person), 3);
    assert.deepEqual(await db.select({ all: count() }).from(person), [{ all: 3 }]);
    const raw = await db.execute<{ n: string; j: unknown; at: string }>(
      sql`SELECT 1::int8 AS n, '{"a": 1}'::jsonb AS j, ${bornAt}::timestamptz AT TIME ZONE 'UTC' AS at`,
    );
    assert.deepEqual([raw.rows, raw.rowCount], [[{ n: "1", j: { a: 1 }, at: "1815-12-10 12:00:00.123" }], 1]);
    assert.equal((await db.delete(person).where(eq(person.name, "Cleo"))).rowCount, 1);
  });

  it("relational queries, prepared ones, placeholders, CTEs and the logger", async (context) => {
    const logged: [string, unknown[]][] = [];
    const logger = { logQuery: (query: string, params: unknown[]) => void logged.push([query, params]) };
    const db = drizzle({ client: await client(system, context), schema, logger });
    const people = await db.query.person.findMany({
      columns: { name: true, friends: true, bornAt: true },
      with: { pets: { with: { keeper: { columns: { name: true } } } } },
      where: eq(person.name, "Ada"),
    });
    const owner = await db.query.person.findFirst({ where: eq(person.name, "Ada") });
    assert.deepEqual(people, [
      {
        ...{ name: "Ada", friends: 2n ** 60n, bornAt: new Date("1815-12-10T12:00:00.123Z") },
        pets: [{ name: "Cat", owner: owner?.id, keeper: { name: "Ada" } }],
      },
    ]);
    const prepared = db
      .select({ name: person.name })
      .from(person)
      .where(and(eq(person.name, sql.placeholder("name"))))
      .prepare("by_name");
    assert.deepEqual(await prepared.execute({ name: "Bert" }), [{ name: "Bert" }]);
    assert.deepEqual(logged.at(-1), ['select "name" from "person" where "person"."name" = $1', ["Bert"]]);
    const found = db.$with("found").as(db.select().from(person).where(eq(person.name, "Bert")));
    assert.equal((await db.with(found).select().from(found)).length, 1);
  });

  it("errors are Drizzle's, and the service's is their cause", async (context) => {
    const db = drizzle(await client(system, context));
    const failed = await db
      .insert(account)
      .values({ id: 1, balance: 1 })
      .then(
        () => assert.fail("it was not refused"),
        (error: unknown) => error,
      );
    assert.ok(failed instanceof DrizzleQueryError && failed.cause instanceof HighwaterError);
    assert.deepEqual(
      [failed.cause.name, failed.cause.constraint, failed.cause.sqlstate, failed.cause.outcome],
      ["ConstraintError", "account_pkey", "23505", "not_applied"],
    );
    for (const statement of ["SET search_path TO nowhere", "SELECT pg_advisory_lock(1)", "LISTEN channel"])
      await refuses(db.execute(statement), { code: "session_bound" });
    await refuses(db.execute("COMMIT"), { code: "transaction_control" });
    await refuses(db.execute("SELECT generate_series(1, 1001)"), { code: "result_too_large" });
  });
});

describe("the promise of a commit", () => {
  it("of one query of any kind, beside what await gives", async (context) => {
    const db = drizzle(await client(system, context), { schema });
    const { result, transaction } = await committed(
      db,
      db.insert(person).values({ name: "Dora" }).returning(),
    );
    assert.equal(result[0]?.name, "Dora");
    assert.equal((await transaction.durable({ level: "region", timeoutMs: 60_000 })).verdict, "durable");
    const options = { ack: "durable", level: "region" } as const;
    const raw = await committed(db, db.execute<{ one: number }>(sql`SELECT 1 AS one`), options);
    assert.deepEqual([raw.result.rows, raw.transaction.state], [[{ one: 1 }], "durable"]);
    const related = await committed(
      db,
      db.query.person.findFirst({ columns: { name: true }, where: eq(person.name, "Dora") }),
    );
    assert.deepEqual(related.result, { name: "Dora" });
  });

  it("of several queries, which are one transaction in one request", async (context) => {
    let requests = 0;
    const hw = await client(system, context, {
      fetch: (url, init) => {
        requests += url.endsWith("/v1/transactions") ? 1 : 0;
        return fetch(url, init);
      },
    });
    const db = drizzle(hw);
    const { result, transaction } = await committed(db, [
      set(db, 1, 90),
      set(db, 2, 110).returning(),
      db.select({ balance: account.balance }).from(account).where(eq(account.id, 1)),
    ]);
    assert.deepEqual(
      [result[0].rowCount, result[1], result[2]],
      [1, [{ id: 2, balance: 110 }], [{ balance: 90 }]],
    );
    assert.equal(requests, 1);
    await transaction.durable({ timeoutMs: 60_000 });
    const broken = committed(db, [set(db, 1, 0), db.insert(account).values({ id: 2, balance: 0 })]);
    await refuses(broken, { code: "constraint_violation", statement: 1 });
    assert.equal(await balanceOf(hw, 1), 90);
    await refuses(committed(db, []), { code: "invalid_options" });
  });

  it("with ack durable for the whole database, statements resolve when they are durable", async (context) => {
    const hw = await client(system, context);
    const db = drizzle(hw, { transaction: { ack: "durable", level: "global", timeoutMs: 60_000 } });
    const { transaction } = await committed(db, set(db, 3, 2));
    assert.equal(transaction.verdict({ level: "global" })?.verdict, "durable");
    const open = await db.transaction(async (tx) => {
      await set(tx, 3, 3);
      return transactionOf(tx);
    });
    assert.equal(open.committed?.verdict({ level: "global" })?.verdict, "durable");
  });
});

describe("what is known, and what is not", () => {
  it("a transaction whose durability could not be waited for has committed all the same", async (context) => {
    const hw = await client(system, context);
    const db = drizzle(hw, {
      transaction: { ack: "durable", level: "region", timeoutMs: 5_000, maxWaitMs: 1_000 },
    });
    const pending = { code: "durability_timeout", outcome: "applied", retry: "wait" };
    await system.cluster.isolate(EAST);
    try {
      await refuses(set(db, 3, 41).execute(), pending);
      let open: InteractiveTransaction | undefined;
      const whole = db.transaction(async (tx) => {
        open = transactionOf(tx);
        await set(tx, 3, 42);
      });
      await refuses(whole, pending);
      assert.equal(await balanceOf(hw, 3), 42);
      await system.cluster.healAll();
      assert.equal((await open?.durable({ level: "region", timeoutMs: 60_000 }))?.verdict, "durable");
    } finally {
      await system.cluster.healAll();
    }
  });

  it("an answer that was lost is found again: it ran once, and its rows are not made up", async (context) => {
    const db = drizzle(await client(system, context, { fetch: losingFirstAnswers() }));
    const insert = db.insert(account).values({ id: 31, balance: 1 }).returning();
    await refuses(insert.execute(), { code: "results_not_kept", outcome: "applied" });
    const hw = await client(system, context);
    assert.equal(await ask(hw, "SELECT count(*)::int FROM account WHERE id = 31"), 1);
  });
});

describe("transactions", () => {
  it("commit, with the isolation level and access mode they ask for", async (context) => {
    const hw = await client(system, context);
    const db = drizzle(hw);
    const level = async (tx: Pick<Database, "execute">): Promise<unknown> =>
      (await tx.execute(sql`SELECT current_setting('transaction_isolation') AS is`)).rows[0]?.["is"];
    assert.equal(await db.transaction(level), "serializable");
    for (const isolationLevel of ["read committed", "repeatable read", "serializable"] as const)
      assert.equal(await db.transaction(level, { isolationLevel }), isolationLevel);
    assert.equal(await db.transaction(level, { isolationLevel: "read uncommitted" }), "read committed");
    const late = db.transaction((tx) => tx.setTransaction({ isolationLevel: "repeatable read" }));
    await refuses(late, { code: "statement_failed", sqlstate: "25001" });
    await refuses(
      db.transaction((tx) => set(tx, 1, 0), { accessMode: "read only", deferrable: true }),
      { code: "statement_failed", sqlstate: "25006" },
    );
    const open = await db.transaction(async (tx) => {
      await set(tx, 4, 7);
      assert.equal(await balanceOf(hw, 4), 100);
      return transactionOf(tx);
    });
    assert.equal((await open.durable({ level: "region", timeoutMs: 60_000 })).verdict, "durable");
    assert.equal(await balanceOf(hw, 4), 7);
  });

  it("roll back when the body throws, by tx.rollback(), and when an error was swallowed", async (context) => {
    const hw = await client(system, context);
    const db = drizzle(hw);
    await assert.rejects(
      db.transaction(async (tx) => {
        await set(tx, 5, 0);
        throw new Error("no");
      }),
      /^Error: no$/,
    );
    await assert.rejects(
      db.transaction(async (tx) => {
        await set(tx, 5, 0);
        tx.rollback();
      }),
      TransactionRollbackError,
    );
    await assert.rejects(
      db.transaction(async (tx) => {
        await set(tx, 5, 0);
        await tx.execute("SELECT 1 / 0").catch(() => undefined);
      }),
    );
    await refuses(
      db.transaction((tx) => committed(tx, tx.execute("SELECT 1"))),
      { code: "invalid_options" },
    );
    assert.equal(await balanceOf(hw, 5), 100);
  });

  it("in one another are savepoints", async (context) => {
    const hw = await client(system, context);
    await drizzle(hw).transaction(async (tx) => {
      await set(tx, 6, 1);
      await tx.transaction(async (inner) => {
        await set(inner, 6, 2);
        await assert.rejects(
          inner.transaction(async (innermost) => {
            await set(innermost, 6, 3);
            await innermost.insert(account).values({ id: 6, balance: 0 });
          }),
          DrizzleQueryError,
        );
      });
      await assert.rejects(
        tx.transaction(async (inner) => {
          await set(inner, 6, 4);
          inner.rollback();
        }),
        TransactionRollbackError,
      );
    });
    assert.equal(await balanceOf(hw, 6), 2);
  });

  it("transact runs the body again after a conflict, and each takes effect once", async (context) => {
    const hw = await client(system, context);
    const db = drizzle(hw, { schema });
    let runs = 0;
    // All have read before the first of them writes: so all but one conflict.
    const allHaveRead = gate(4);
    const add = async (): Promise<void> => {
      const { result, transaction } = await transact(
        db,
        async (tx) => {
          runs += 1;
          const row = await tx.query.account.findFirst({ where: eq(account.id, 7) });
          await allHaveRead();
          await tx.transaction((inner) => set(inner, 7, (row?.balance ?? 0) + 1));
          return row?.balance ?? 0;
        },
        { isolation: "serializable", maxAttempts: 200 },
      );
      assert.ok(result >= 100);
      await transaction.durable({ timeoutMs: 60_000 });
    };
    await Promise.all([add(), add(), add(), add()]);
    assert.equal(await balanceOf(hw, 7), 104);
    assert.ok(runs >= 7, `${String(runs)} runs`);
  });

  it("in an open transaction of the client, and in a session", async (context) => {
    const hw = await client(system, context);
    const db = drizzle(hw, { schema });
    const tx = await hw.begin();
    await set(bind(db, tx), 8, 8);
    assert.equal(await balanceOf(hw, 8), 100);
    await tx.commit();
    assert.equal(await balanceOf(hw, 8), 8);

    const session = hw.session({ causal: true });
    const own = bind(db, session);
    await set(own, 8, 9);
    await own.transaction((inner) => inner.insert(person).values({ name: "Emil" }));
    await session.durable({ level: "region", timeoutMs: 60_000 });
    const reads = bind(own, session, { readOnly: true, mode: "local" });
    const { result, transaction } = await committed(
      reads,
      reads.query.account.findFirst({ where: eq(account.id, 8) }),
    );
    assert.deepEqual(result, { id: 8, balance: 9 });
    assert.ok(transaction.served !== undefined, "it went with the session's token");
    await refuses(set(reads, 8, 0).execute(), { sqlstate: "25006" });
  });

  it("another driver is refused", async () => {
    const elsewhere = proxy(async () => ({ rows: [] }));
    assert.throws(() => transactionOf(elsewhere as never), { code: "invalid_options" });
  });
});

it("the cache: reads come from it, and what is committed in it invalidates", async (context) => {
  const mutations: unknown[] = [];
  const kept = new Map<string, unknown[]>();
  const cache = {
    strategy: () => "all" as const,
    get: async (key: string) => kept.get(key),
    put: async (key: string, rows: unknown) =>
      void kept.set(key, JSON.parse(JSON.stringify(rows)) as unknown[]),
    onMutate: async (mutation: { tables?: unknown }) => {
      mutations.push(mutation.tables);
      kept.clear();
    },
  };
  const hw = await client(system, context);
  const db = drizzle(hw, { cache: cache });
  const read = (): Promise<unknown> => db.select().from(account).where(eq(account.id, 9));
  assert.deepEqual(await read(), [{ id: 9, balance: 100 }]);
  await ask(hw, "UPDATE account SET balance = 1 WHERE id = 9 RETURNING 1");
  assert.deepEqual(await read(), [{ id: 9, balance: 100 }]);
  await committed(db, set(db, 9, 2));
  assert.deepEqual(await read(), [{ id: 9, balance: 2 }]);
  assert.deepEqual(mutations, [["account"]]);
  // It commits, and its answer is lost.
  const lossy = drizzle(await client(system, context, { fetch: losingFirstAnswers() }), { cache: cache });
  await refuses(committed(lossy, set(lossy, 9, 3)), { code: "results_not_kept", outcome: "applied" });
  assert.deepEqual(await read(), [{ id: 9, balance: 3 }]);
});

it("migrations", async (context) => {
  const folder = await mkdtemp(join(tmpdir(), "highwater-drizzle-"));
  context.after(() => rm(folder, { recursive: true, force: true }));
  await mkdir(join(folder, "meta"));
  const entries = [{ idx: 0, version: "7", when: 1, tag: "0000_toy", breakpoints: true }];
  await writeFile(join(folder, "meta", "_journal.json"), JSON.stringify({ entries }));
  await writeFile(
    join(folder, "0000_toy.sql"),
    "CREATE TABLE toy (id int PRIMARY KEY);\n--> statement-breakpoint\nINSERT INTO toy VALUES (1);",
  );
  const hw = await client(system, context);
  const db = drizzle(hw);
  for (const _time of [1, 2]) await migrate(db, readMigrationFiles({ migrationsFolder: folder }));
  assert.equal(await ask(hw, "SELECT count(*)::int FROM toy"), 1);
});
