// Receipts forged by SQL, so that a victim's request would be answered as a replay and never run.
import { createHash } from "node:crypto";
import { newId } from "../caller.ts";
import { type Recipe } from "../recipe.ts";
import { type Target } from "../target.ts";

/** The receipt's columns, from the catalogue, and values for each that an attacker can make up. */
async function guesses(target: Target, id: string): Promise<string[]> {
  const columns = await target.look(
    "SELECT attname::text AS name, atttypid::regtype::text AS type FROM pg_attribute WHERE attrelid = 'highwater.receipt'::regclass AND attnum > 0 ORDER BY attnum",
  );
  const owner = createHash("sha256").update("crane").digest();
  const values: Record<string, readonly string[]> = {
    id: [`'${id}'`],
    epoch: ["(SELECT id FROM highwater.epoch_sentinel)", "'00000000-0000-4000-8000-000000000000'", "NULL"],
    owner: [String(owner.readBigInt64BE(0)), "0"],
    tag: [
      `'${owner.subarray(0, 16).toString("hex")}'`,
      "'00000000-0000-0000-0000-000000000000'",
      "gen_random_uuid()",
    ],
    digest: ["0"],
    kind: ["'commit'", "'aborted'", "'lost'"],
  };
  const names = columns.map(({ name }) => String(name));
  const combine = (rest: readonly string[]): string[][] => {
    const [first, ...others] = rest;
    if (first === undefined) return [[]];
    const tails = combine(others);
    return (values[first] ?? ["DEFAULT"]).flatMap((value) => tails.map((tail) => [value, ...tail]));
  };
  const without = names.filter((name) => name !== "kind");
  return [names, without].flatMap((used) =>
    combine(used).map(
      (row) => `INSERT INTO highwater.receipt (${used.join(", ")}) VALUES (${row.join(", ")})`,
    ),
  );
}

async function runsOnce(target: Target, id: string): Promise<string | null> {
  const order = `INSERT INTO crane.orders VALUES ('${id}', 'must run') RETURNING id`;
  const answer = await target.other.run([order], { id, ack: "durable", maxWaitMs: 20_000 });
  const rows = await target.count(`SELECT FROM crane.orders WHERE id = '${id}'`);
  if (rows === 1) return null;
  return `the victim's INSERT was answered ${String(answer.status)} ${String(answer.body["state"] ?? answer.body["code"])} and has ${String(rows)} rows`;
}

export const RECEIPTS: readonly Recipe[] = [
  {
    item: "7",
    title: "a write key inserts receipts under another tenant's next id, by HTTP",
    run: async (target) => {
      const id = newId();
      for (const sql of await guesses(target, id)) await target.writer.run([sql]);
      return runsOnce(target, id);
    },
  },
  {
    item: "7",
    title: "a role with a password does the same by SQL, into the partitions and by COPY too",
    run: async (target) => {
      const id = newId();
      const client = await target.psql("writer");
      try {
        const sqls = await guesses(target, id);
        const [partition] = await target.look(
          `SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'highwater.receipt'::regclass ORDER BY 1 DESC LIMIT 1`,
        );
        for (const sql of [
          "SET row_security TO off",
          ...sqls,
          ...sqls.map((each) => each.replace("highwater.receipt", String(partition?.["name"]))),
          `SELECT id FROM highwater.receipt WHERE id = '${id}' FOR UPDATE`,
          "LOCK TABLE highwater.receipt IN ACCESS EXCLUSIVE MODE",
          "DELETE FROM highwater.receipt",
        ])
          await client.query(sql).catch(() => undefined);
        return await runsOnce(target, id);
      } finally {
        await client.end().catch(() => undefined);
      }
    },
  },
  {
    item: "7",
    title: "a role holds an uncommitted receipt of another tenant's next id",
    run: async (target) => {
      const id = newId();
      const client = await target.psql("writer");
      try {
        await client.query("BEGIN");
        for (const sql of await guesses(target, id)) {
          await client.query("SAVEPOINT guess");
          await client.query(sql).catch(() => client.query("ROLLBACK TO SAVEPOINT guess"));
        }
        return await runsOnce(target, id);
      } finally {
        await client.end().catch(() => undefined);
      }
    },
  },
];
