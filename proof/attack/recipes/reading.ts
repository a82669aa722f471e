// Attempts to write with a read-only key.
import { newId } from "../caller.ts";
import { type Recipe } from "../recipe.ts";
import { type Target } from "../target.ts";

const INSERT = (id: string): string => `INSERT INTO acme.orders VALUES ('${id}', 'written by a reader')`;

async function isWritten(target: Target, id: string): Promise<string | null> {
  const rows = await target.count(`SELECT FROM acme.orders WHERE id = '${id}'`);
  return rows > 0 ? "a read key has written a row" : null;
}

/**
 * Names of statements that the service has prepared in the session; the longest list of several
 * attempts.
 */
async function preparedNames(target: Target): Promise<string[]> {
  const sql = "SELECT string_agg(name, ',') FROM pg_catalog.pg_prepared_statements";
  const { body } = await target.reader.read([sql]);
  const results = body["results"] as { rows: (string | null)[][] }[] | undefined;
  return (results?.[0]?.rows[0]?.[0] ?? "").split(",").filter((name) => name !== "");
}

export const READING: readonly Recipe[] = [
  {
    item: "8",
    title: "a read key ends its transaction through the service's prepared COMMIT, then writes",
    run: async (target) => {
      const known = await preparedNames(target);
      const names = [...new Set([...known, ...Array.from({ length: 20 }, (_, n) => `hw${String(n)}`)])];
      for (const name of names) {
        const id = newId();
        const open = await target.reader.begin({ readOnly: true });
        if (open.begun.status !== 200) return null;
        await target.reader.call(open, "statements", { seq: 1, statements: [`EXECUTE ${name}`] });
        await target.reader.call(open, "statements", { seq: 2, statements: [INSERT(id)] });
        await target.reader.call(open, "rollback", { seq: 3 });
        const hit = await isWritten(target, id);
        if (hit !== null) return `${hit}, by EXECUTE ${name}`;
      }
      return null;
    },
  },
  {
    item: "8",
    title: "a write key ends its transaction through the service's prepared COMMIT, then rolls it back",
    run: async (target) => {
      for (let number = 0; number < 12; number++) {
        const id = newId();
        const open = await target.writer.begin({ statements: [{ sql: INSERT(id) }] });
        if (open.begun.status !== 200) continue;
        await target.writer.call(open, "statements", { seq: 1, statements: [`EXECUTE hw${String(number)}`] });
        const { body } = await target.writer.call(open, "rollback", { seq: 2 });
        const rows = await target.count(`SELECT FROM acme.orders WHERE id = '${id}'`);
        if (rows > 0)
          return `the rollback was answered ${String(body["state"] ?? body["code"])}, and the row is there`;
      }
      return null;
    },
  },
  {
    item: "8",
    title: "a read key replaces a prepared statement of the service by one that writes",
    run: async (target) => {
      const id = newId();
      const names = await preparedNames(target);
      for (const name of names.slice(0, 20)) {
        const replace = `DO $$ BEGIN EXECUTE 'DEALLOCATE ${name}'; EXECUTE 'PREPARE ${name} AS ${INSERT(id).replaceAll("'", "''")}'; END $$`;
        await target.reader.read([replace]);
        await target.reader.read(["SELECT 1"]);
      }
      return isWritten(target, id);
    },
  },
  {
    item: "8",
    title: "a read key writes in every other way it can think of",
    run: async (target) => {
      for (const attempt of [
        (sql: string) => ["SET TRANSACTION READ WRITE", sql],
        (sql: string) => ["SELECT set_config('transaction_read_only', 'off', true)", sql],
        (sql: string) => [`SELECT U&"set\\005fconfig"('transaction_read_only', 'off', true)`, sql],
        (sql: string) => [`DO $$ BEGIN EXECUTE $q$${sql}$q$; END $$`],
        (sql: string) => [`WITH w AS (${sql} RETURNING 1) SELECT * FROM w`],
        (sql: string) => ["SET ROLE acme_write", sql],
        (sql: string) => ["SET SESSION AUTHORIZATION acme_write", sql],
        (sql: string) => [`SELECT query_to_xml($q$${sql} RETURNING 1$q$, true, false, '')`],
      ]) {
        const id = newId();
        await target.reader.read(attempt(INSERT(id)));
        await target.reader.run(attempt(INSERT(id)));
        const hit = await isWritten(target, id);
        if (hit !== null) return `${hit}, by ${attempt("…").join("; ")}`;
      }
      return null;
    },
  },
];
