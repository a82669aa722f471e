// Kysely and Drizzle on node-postgres: an application's statements, and the resulting data.
import { sql as drizzleSql, eq } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { integer, pgTable, text } from "drizzle-orm/pg-core";
import { type Generated, Kysely, PostgresDialect, sql as kyselySql } from "kysely";
import pg from "pg";
import { Cases } from "../src/cases.ts";
import { type Suite } from "../src/rig.ts";

interface Database {
  readonly account: { id: Generated<number>; owner: string; balance: number };
}

const TABLE =
  "CREATE TABLE account (id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY, owner text UNIQUE, balance int CHECK (balance >= 0))";

/** The servers may end a connection that is being closed. Its error belongs to no case. */
function quietPool(connectionString: string, max: number): pg.Pool {
  const pool = new pg.Pool({ connectionString, max });
  pool.on("error", () => undefined);
  pool.on("connect", (client) => client.on("error", () => undefined));
  return pool;
}

export const kysely: Suite = {
  name: "Kysely",
  run: async ({ url }) => {
    const cases = new Cases();
    const pool = quietPool(url, 4);
    const db = new Kysely<Database>({ dialect: new PostgresDialect({ pool }) });
    const add = (owner: string): Promise<unknown> =>
      db.insertInto("account").values({ owner, balance: 10 }).returningAll().executeTakeFirst();
    const all = (): Promise<unknown> =>
      db.selectFrom("account").select(["owner", "balance"]).orderBy("id").execute();
    try {
      await cases.see("schema", () => kyselySql.raw(TABLE).execute(db));
      await cases.see("insert returning", () => add("ada"));
      await cases.see("a duplicate", () => add("ada"));
      await cases.see("upsert", () =>
        db
          .insertInto("account")
          .values({ owner: "ada", balance: 20 })
          .onConflict((on) => on.column("owner").doUpdateSet({ balance: 20 }))
          .execute(),
      );
      await cases.see("transaction", () =>
        db.transaction().execute(async (tx) => {
          await tx.insertInto("account").values({ owner: "bob", balance: 1 }).execute();
          return tx.selectFrom("account").selectAll().orderBy("id").execute();
        }),
      );
      await cases.see("a transaction that fails", () =>
        db
          .transaction()
          .setIsolationLevel("serializable")
          .execute(async (tx) => {
            await tx.insertInto("account").values({ owner: "cyd", balance: 1 }).execute();
            await tx.updateTable("account").set({ balance: -1 }).execute();
          }),
      );
      await cases.see("update and delete counts", async () => [
        await db.updateTable("account").set({ balance: 5 }).where("owner", "=", "nobody").executeTakeFirst(),
        await db.deleteFrom("account").where("owner", "=", "bob").executeTakeFirst(),
      ]);
      await cases.see("what there is", all);
      await cases.see("introspection", async () => {
        const tables = await db.introspection.getTables();
        return tables.filter(({ name }) => name === "account").map(({ columns }) => columns);
      });
    } finally {
      await db.destroy();
    }
    return cases.transcript;
  },
};

const account = pgTable("account", {
  id: integer().primaryKey().generatedAlwaysAsIdentity(),
  owner: text().unique(),
  balance: integer(),
});

export const drizzleOrm: Suite = {
  name: "Drizzle",
  run: async ({ url }) => {
    const cases = new Cases();
    const pool = quietPool(url, 4);
    const db = drizzle({ client: pool, schema: { account } });
    try {
      await cases.see("schema", async () => (await db.execute(drizzleSql.raw(TABLE))).command);
      await cases.see("insert returning", () =>
        db
          .insert(account)
          .values([
            { owner: "ada", balance: 10 },
            { owner: "bob", balance: 20 },
          ])
          .returning(),
      );
      await cases.see("transaction with a nested one that fails", () =>
        db.transaction(async (tx) => {
          await tx.update(account).set({ balance: 11 }).where(eq(account.owner, "ada"));
          await tx
            .transaction(async (inner) => {
              await inner.insert(account).values({ owner: "bob", balance: 1 });
            })
            .catch(() => undefined);
          return tx.select().from(account).orderBy(account.id);
        }),
      );
      await cases.see("a transaction that is rolled back", async () => {
        const failed = db.transaction(
          async (tx) => {
            await tx.delete(account);
            tx.rollback();
          },
          { isolationLevel: "serializable" },
        );
        await failed.catch(() => undefined);
        return db.$count(account);
      });
      await cases.see("relational query", () => db.query.account.findMany({ orderBy: account.id }));
      await cases.see("prepared", async () => {
        const by = db
          .select()
          .from(account)
          .where(eq(account.id, drizzleSql.placeholder("id")))
          .prepare("by_id");
        return [await by.execute({ id: 1 }), await by.execute({ id: 2 })];
      });
      await cases.see("a duplicate", async () => {
        try {
          await db.insert(account).values({ owner: "ada", balance: 1 });
          return "inserted";
        } catch (error) {
          return (error as { cause?: { code?: string } }).cause?.code;
        }
      });
    } finally {
      await pool.end();
    }
    return cases.transcript;
  },
};
