// postgres.js: pipelined queries on one connection, COPY and cursors.
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import postgres from "postgres";
import { Cases, fieldsOf } from "../src/cases.ts";
import { type Suite } from "../src/rig.ts";

export const postgresJs: Suite = {
  name: "postgres.js",
  run: async ({ url }) => {
    const cases = new Cases();
    const notices: unknown[] = [];
    const sql = postgres(url, { max: 1, onnotice: (notice) => notices.push(fieldsOf(notice)) });
    try {
      await cases.see("tables", () =>
        sql.unsafe("CREATE TABLE item (id int PRIMARY KEY, text text); CREATE TABLE log (n int)").simple(),
      );
      await cases.see("a pipeline of transactions", async () => {
        const all = Array.from(
          { length: 50 },
          (_, n) => sql`INSERT INTO item VALUES (${n}, ${`t${String(n)}`})`,
        );
        return (await Promise.all(all)).map(({ command, count }) => [command, count]);
      });
      await cases.see("a pipeline with failures inside", async () => {
        const all = [100, 1, 101, 2, 102].map((n) =>
          sql`INSERT INTO item VALUES (${n}, 'x')`.then(({ count }) => count, fieldsOf),
        );
        return Promise.all(all);
      });
      await cases.see("begin", async () =>
        sql.begin(async (tx) => {
          await tx`INSERT INTO log VALUES (1)`;
          const rows = await Promise.all([tx`SELECT count(*)::int FROM log`, tx`SELECT 2 AS two`]);
          return rows.map((each) => [...each]);
        }),
      );
      await cases.see("begin that fails", () =>
        sql.begin(async (tx) => {
          await tx`INSERT INTO log VALUES (2)`;
          await tx`SELECT 1 / 0`;
        }),
      );
      await cases.see("savepoint", () =>
        sql.begin(async (tx) => {
          await tx`INSERT INTO log VALUES (3)`;
          await tx.savepoint((inner) => inner`INSERT INTO item VALUES (1, 'again')`).catch(() => undefined);
          return [...(await tx`SELECT n FROM log ORDER BY n`)];
        }),
      );
      await cases.see("a cursor in portions", async () => {
        const sizes: number[] = [];
        for await (const rows of sql`SELECT generate_series(1, 25) AS n`.cursor(10)) sizes.push(rows.length);
        return sizes;
      });
      await cases.see("a cursor that is left", async () => {
        for await (const rows of sql`SELECT generate_series(1, 1000) AS n`.cursor(10)) return rows.length;
        return 0;
      });
      await cases.see("copy in", async () => {
        const lines = Array.from({ length: 5_000 }, (_, n) => `${String(n + 1_000)}\tcopied ${String(n)}\n`);
        await pipeline(Readable.from(lines), await sql`COPY item FROM STDIN`.writable());
        return [...(await sql`SELECT count(*)::int, max(id) FROM item`)];
      });
      await cases.see("copy out", async () => {
        let bytes = 0;
        const stream = await sql`COPY (SELECT * FROM item ORDER BY id) TO STDOUT`.readable();
        for await (const chunk of stream) bytes += (chunk as Buffer).length;
        return bytes;
      });
      await cases.see("a description", async () => {
        const { columns, types } = await sql`SELECT id, text FROM item WHERE id = ${1}`.describe();
        return [columns.map(({ name, type }) => [name, type]), types];
      });
      await cases.see("a cancelled query", async () => {
        const slow = sql`SELECT pg_sleep(600)`;
        const ended = slow.catch(fieldsOf);
        const timer = setInterval(() => {
          slow.cancel();
        }, 200);
        try {
          return [await ended, [...(await sql`SELECT 1 AS one`)]];
        } finally {
          clearInterval(timer);
        }
      });
      await cases.see("notices", async () => {
        await sql`DO $$ BEGIN RAISE NOTICE 'hello'; END $$`;
        return notices;
      });
      await cases.see("a notification", async () => {
        const received = Promise.withResolvers<string>();
        const listening = await sql.listen("news", (text) => {
          received.resolve(text);
        });
        await sql.notify("news", "from postgres.js");
        const text = await received.promise;
        await listening.unlisten();
        return text;
      });
      await cases.see("a reserved connection", async () => {
        const own = await sql.reserve();
        await own`CREATE TEMP TABLE t (n int)`;
        await own`INSERT INTO t VALUES (1)`;
        const rows = [...(await own`SELECT * FROM t`)];
        own.release();
        return rows;
      });
    } finally {
      await sql.end();
    }
    return cases.transcript;
  },
};
