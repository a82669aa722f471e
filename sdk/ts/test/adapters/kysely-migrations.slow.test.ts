// Goal: Kysely's migrator and introspector work, two migrators at once too. Method: the published library on the whole system.
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { type System } from "@highwater/lab-system";
import { Kysely, sql } from "kysely";
import { type Migration, type MigrationProvider, Migrator } from "kysely/migration";
import { HighwaterDialect } from "../../src/adapters/kysely/index.ts";
import { type Highwater } from "../../src/index.ts";
import { ask, client, startSystem } from "./support.ts";

let system: System;
before(async () => {
  system = await startSystem(["CREATE TABLE witness (name text NOT NULL)"]);
});
after(() => system.close());

const migrations: Record<string, Migration> = {
  "1_toy": {
    async up(db) {
      await db.schema
        .createTable("toy")
        .addColumn("id", "serial", (column) => column.primaryKey())
        .addColumn("price", "numeric(10, 2)", (column) => column.notNull().defaultTo(1))
        .execute();
      await sql`INSERT INTO witness VALUES ('1_toy')`.execute(db);
    },
    async down(db) {
      await db.schema.dropTable("toy").execute();
    },
  },
  "2_index": {
    async up(db) {
      await db.schema.createIndex("toy_price").on("toy").column("price").execute();
      await sql`INSERT INTO witness VALUES ('2_index')`.execute(db);
    },
    async down(db) {
      await db.schema.dropIndex("toy_price").execute();
    },
  },
};

function migrator(hw: Highwater, own: Record<string, Migration> = migrations): Migrator {
  const provider: MigrationProvider = { getMigrations: async () => own };
  return new Migrator({
    db: new Kysely<unknown>({ dialect: new HighwaterDialect({ client: hw }) }),
    provider,
  });
}

it("two migrators at once run each migration once, and what is there can be looked at", async (context) => {
  const [first, second] = [await client(system, context), await client(system, context)];
  const outcomes = await Promise.all([migrator(first).migrateToLatest(), migrator(second).migrateToLatest()]);
  assert.deepEqual(
    outcomes.map(({ error }) => error),
    [undefined, undefined],
  );
  assert.equal(outcomes.flatMap(({ results }) => results ?? []).length, 2);
  assert.equal(await ask(first, "SELECT string_agg(name, ',' ORDER BY name) FROM witness"), "1_toy,2_index");

  const db = new Kysely<unknown>({ dialect: new HighwaterDialect({ client: first }) });
  const toy = (await db.introspection.getTables()).find(({ name }) => name === "toy");
  assert.deepEqual(
    toy?.columns.map(({ name, dataType, isNullable, isAutoIncrementing }) => ({
      ...{ name, dataType, isNullable, isAutoIncrementing },
    })),
    [
      { name: "id", dataType: "int4", isNullable: false, isAutoIncrementing: true },
      { name: "price", dataType: "numeric", isNullable: false, isAutoIncrementing: false },
    ],
  );
});

it("one that fails leaves nothing, and one step down undoes the last", async (context) => {
  const hw = await client(system, context);
  assert.equal((await migrator(hw).migrateToLatest()).error, undefined);
  const failing: Migration = {
    async up(db) {
      await db.schema.createTable("half").addColumn("id", "integer").execute();
      await sql`SELECT 1 / 0`.execute(db);
    },
  };
  const { error, results } = await migrator(hw, { ...migrations, "3_fails": failing }).migrateToLatest();
  assert.equal((error as { sqlstate?: string }).sqlstate, "22012");
  assert.equal(results?.at(-1)?.status, "Error");
  assert.equal(await ask(hw, "SELECT to_regclass('half')::text"), null);
  const down = await migrator(hw).migrateDown();
  assert.deepEqual(
    down.results?.map(({ migrationName, status }) => [migrationName, status]),
    [["2_index", "Success"]],
  );
  assert.equal(await ask(hw, "SELECT to_regclass('toy_price')::text"), null);
});

it("inside a transaction of one's own, and never without one", async (context) => {
  const hw = await client(system, context);
  const db = new Kysely<unknown>({ dialect: new HighwaterDialect({ client: hw }) });
  const provider: MigrationProvider = { getMigrations: async () => migrations };
  const inside = db
    .transaction()
    .setIsolationLevel("read committed")
    .execute((trx) => new Migrator({ db: trx, provider }).migrateToLatest());
  assert.equal((await inside).error, undefined);
  const { error } = await migrator(hw).migrateToLatest({ disableTransactions: true });
  assert.equal((error as { code?: string }).code, "session_bound");
});
