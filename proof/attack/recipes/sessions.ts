// State that one request leaves in a pooled session for the next. packages/store tests the whole
// list against the pool; these entries did harm when a stranger tried them.
import { firstRow, newId } from "../caller.ts";
import { type Recipe } from "../recipe.ts";
import { type Target } from "../target.ts";

const TRIES = 12;

/**
 * Leaves state behind several times, and checks each time whether the next user of a session finds
 * it.
 */
async function leaks(
  target: Target,
  leave: readonly string[],
  look: string,
  expected: string | null,
): Promise<string | null> {
  const clean = firstRow(await target.writer.run([look]))[0] ?? null;
  for (let attempt = 0; attempt < TRIES; attempt++) {
    await target.reader.read(leave);
    await target.writer.run(leave);
    const found = firstRow(await target.writer.run([look]))[0] ?? null;
    if (found === expected && found !== clean) return `${look} says ${String(found)} in another request`;
  }
  return null;
}

const setting = (name: string, value: string): Recipe => ({
  item: "3",
  title: `${name} set by one request is seen by the next`,
  run: (target) =>
    leaks(
      target,
      [`SELECT U&"set\\005fconfig"('${name}', '${value}', false)`],
      `SELECT current_setting('${name}')`,
      value,
    ),
});

export const SESSIONS: readonly Recipe[] = [
  setting("client_encoding", "LATIN1"),
  setting("search_path", "crane"),
  setting("DateStyle", "SQL, DMY"),
  setting("standard_conforming_strings", "off"),
  {
    item: "3",
    title: "a temporary table of one request swallows the INSERT of the next",
    run: async (target) => {
      for (let attempt = 0; attempt < TRIES; attempt++) {
        const id = newId();
        await target.writer.run(["CREATE TABLE pg_temp.orders (id text PRIMARY KEY, item text)"]);
        await target.writer.run([
          "SET LOCAL search_path TO acme",
          `INSERT INTO orders VALUES ('${id}', 'for the real table')`,
        ]);
        const rows = await target.count(`SELECT FROM acme.orders WHERE id = '${id}'`);
        if (rows === 0) return "an INSERT that was answered as committed is not in the table";
      }
      return null;
    },
  },
  {
    item: "3",
    title: "a read key sees the SQL of other keys of its database in pg_prepared_statements",
    run: async (target) => {
      const secret = newId();
      for (let attempt = 0; attempt < TRIES; attempt++) {
        await target.writer.run([`SELECT '${secret}'`]);
        const sql =
          "SELECT count(*) FROM pg_catalog.pg_prepared_statements WHERE statement LIKE '%' || $1 || '%'";
        const { body } = await target.reader.run([], {
          readOnly: true,
          statements: [{ sql, params: [secret] }],
        });
        const results = body["results"] as { rows: (string | null)[][] }[] | undefined;
        if (Number(results?.[0]?.rows[0]?.[0] ?? 0) > 0) return "another key's literals are readable";
      }
      return null;
    },
  },
];
