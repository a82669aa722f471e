// Locks that any role may take must not block keys, epochs or the maintenance of tables.
import { type Client } from "pg";
import { eventually } from "@highwater/lab-tools/process";
import { type Recipe } from "../recipe.ts";

const KEYS_OF_OLD = [7_240_519_001, 7_240_519_002, 7_240_519_003];
/** Less than the gateway's limits for an open transaction, which would free its locks. */
const REVOKE_LIMIT_MS = 45_000;
/** The attackers' sessions hold their locks until the recipe ends. */
const EPOCH_LIMIT_MS = 60_000;
const PROMOTION_LIMIT_MS = 60_000;
const HELD_MS = 500;

async function within<T>(limitMs: number, work: Promise<T>): Promise<T | "too late"> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<"too late">((resolve) => {
    timer = setTimeout(resolve, limitMs, "too late");
  });
  return Promise.race([work, limit]).finally(() => {
    clearTimeout(timer);
  });
}

/** Tries to lock everything of the service that a role could try to lock. Refusals are expected. */
async function grabAll(client: Client): Promise<void> {
  // A lock that another attacker holds already is just as good.
  await client.query(`SET lock_timeout TO ${String(HELD_MS)}`);
  for (const key of KEYS_OF_OLD)
    await client.query(`SELECT pg_advisory_lock(${String(key)})`).catch(() => undefined);
  await client.query("BEGIN").catch(() => undefined);
  for (const table of [
    "api_key",
    "epoch",
    "epoch_sentinel",
    "receipt",
    "witness",
    "retention",
    "event_counter",
  ]) {
    await client.query("SAVEPOINT grab").catch(() => undefined);
    await client
      .query(`LOCK TABLE highwater.${table} IN ACCESS SHARE MODE`)
      .catch(() => client.query("ROLLBACK TO SAVEPOINT grab"))
      .catch(() => undefined);
  }
}

/** More locks than the server has room for. The session keeps those before the error. */
const FLOOD = "SELECT count(pg_advisory_lock(n)) FROM generate_series(1, 1000000) n";

export const LOCKS: readonly Recipe[] = [
  {
    item: "1",
    title: "a key blocks its own revocation by advisory locks",
    run: async (target) => {
      // A read key cannot take any of them.
      const { writer, system } = target;
      const victim = await system.createKey({
        name: "to be revoked",
        owner: "acme",
        role: "acme_write",
        scopes: ["read", "write"],
      });
      const open = await writer.begin({});
      const statements = KEYS_OF_OLD.flatMap((key) => [
        `SELECT pg_advisory_xact_lock_shared(${String(key)})`,
        `SELECT U&"pg_advisory\\005flock"(${String(key)})`,
      ]);
      for (const [at, sql] of statements.entries())
        await writer.call(open, "statements", { seq: at + 1, statements: ["SAVEPOINT s", sql, "RELEASE s"] });
      const id = /^hwk_([a-z0-9]+)_/.exec(victim)?.[1] ?? "";
      const revoked = await within(
        REVOKE_LIMIT_MS,
        target.keysCommand("revoke", id).catch((cause: unknown) => String(cause)),
      );
      await writer.call(open, "rollback", { seq: statements.length + 1 });
      return revoked === "too late" || /error|fail/i.test(revoked)
        ? `the revocation: ${revoked.slice(0, 200)}`
        : null;
    },
  },
  {
    item: "1",
    title:
      "roles hold every lock they can get on all nodes, and one takes all that there are, while the primary fails",
    run: async (target) => {
      const { system, primary } = target;
      const replica = system.cluster.nodes.map(({ id }) => id).find((id) => id !== primary) ?? "";
      const holders: Client[] = [];
      try {
        for (const { id } of system.cluster.nodes)
          for (const role of ["reader", "writer"] as const) {
            const client = await target.psql(role, id);
            holders.push(client);
            await grabAll(client);
          }
        const flooder = await target.psql("writer", replica);
        holders.push(flooder);
        flooder.on("error", () => undefined);
        await flooder.query(FLOOD).catch(() => undefined);
        await system.cluster.kill(primary);
        // Tries again, as an operator would: while locks are used up, the server accepts no login.
        await eventually(
          "the replica is promoted",
          async () => {
            await system.cluster.promote(replica).catch(() => undefined);
            const [row] = await target.look("SELECT pg_is_in_recovery() AS replica", replica);
            return row?.["replica"] === false;
          },
          PROMOTION_LIMIT_MS,
        );
        const seq = `SELECT max(seq)::int AS seq FROM highwater.epoch WHERE start_offset IS NOT NULL AND node = '${replica}'`;
        await eventually(
          "the epoch begins",
          async () => (await target.look(seq, replica))[0]?.["seq"] != null,
          EPOCH_LIMIT_MS,
        );
        return null;
      } finally {
        await Promise.all(holders.map((client) => client.end().catch(() => undefined)));
      }
    },
  },
];
