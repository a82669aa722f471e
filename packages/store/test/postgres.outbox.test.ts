// Goal: a key's rows come out in the order in which their transactions committed, each to one consumer at a time. A row that fails
// stops its key and no other one. A login role gets only what it may, and what others have under its topic costs it nothing.
// Method: the functions of migrations 0031 and 0039 on a real server, called by plain sessions of several login roles.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, it } from "node:test";
import pg from "pg";
import { type Cluster } from "@highwater/lab-cluster";
import { makeStore, nodeSpecs, startTestCluster } from "./postgres-cluster.ts";

interface Taken {
  readonly id: string;
  readonly key: string;
  readonly payload: number;
  readonly attempt: number;
}

const WRITERS = 16;
const LEASE_MS = 60_000;
/** What another role has under the topic; each takes at least one page to walk over. */
const FOREIGN_ROWS = 5_000;
/** A call for one row of its own reads some thirty. */
const PAGES_MAX = 150;

describe("the outbox on PostgreSQL", () => {
  let cluster: Cluster;
  const sessions: pg.Client[] = [];

  async function session(user: string): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: await cluster.connectionString("a", { user }) });
    sessions.push(client);
    await client.connect();
    return client;
  }

  before(async () => {
    cluster = await startTestCluster({ nodes: [{ id: "a", region: "a" }] });
    const store = makeStore(await nodeSpecs(cluster), "outbox");
    await store.prepare("a");
    await store.close();
    for (const role of ["shop", "bank"])
      await cluster.query("a", `CREATE ROLE ${role} LOGIN IN ROLE highwater_app`);
    await cluster.query(
      "a",
      "CREATE TABLE history (n bigint GENERATED ALWAYS AS IDENTITY, topic text, key text, payload int)",
    );
    await cluster.query("a", "GRANT ALL ON history TO shop, bank");
  });

  after(async () => {
    for (const client of sessions) await client.end();
    await cluster.close();
  });

  const put = (client: pg.Client, topic: string, key: string, payload: number): Promise<unknown> =>
    client.query("INSERT INTO highwater.outbox (topic, key, payload) VALUES ($1, $2, to_jsonb($3::int))", [
      topic,
      key,
      payload,
    ]);

  async function take(
    client: pg.Client,
    topic: string,
    { claim = randomUUID(), leaseMs = LEASE_MS, limit = 100, maxAttempts = 3 } = {},
  ): Promise<{ claim: string; rows: Taken[] }> {
    const values = [topic, claim, leaseMs, limit, maxAttempts];
    const { rows } = await client.query<Taken>(
      "SELECT * FROM highwater.outbox_take($1, $2, $3, $4, $5)",
      values,
    );
    return { claim, rows };
  }

  const ack = async (client: pg.Client, claim: string, rows: readonly Taken[]): Promise<number> => {
    const ids = rows.map(({ id }) => id);
    const { rows: found } = await client.query<{ n: number }>("SELECT highwater.outbox_ack($1, $2) AS n", [
      claim,
      ids,
    ]);
    return Number(found[0]?.n);
  };

  const release = (client: pg.Client, claim: string): Promise<unknown> =>
    client.query("SELECT highwater.outbox_release($1)", [claim]);

  const payloads = (rows: readonly Taken[]): number[] => rows.map(({ payload }) => payload);

  it("16 writers of one key: the order is that of their commits, and a rolled back row is not there", async () => {
    // The key's counter is read behind its lock, so the test's own table has the order of commits.
    const counter = "UPDATE commits SET n = n + 1 RETURNING n";
    await cluster.query("a", "CREATE TABLE commits (n int)");
    await cluster.query("a", "INSERT INTO commits VALUES (0)");
    await cluster.query("a", "GRANT ALL ON commits TO shop");
    await Promise.all(
      Array.from({ length: WRITERS }, async (_, writer) => {
        const client = await session("shop");
        for (let at = 0; at < 20; at += 1) {
          await client.query("BEGIN");
          await put(client, "orders", "hot", -1 - writer);
          // From here on no other writer is here until this transaction has ended.
          const { rows } = await client.query<{ n: number }>(counter);
          await put(client, "orders", "hot", rows[0]?.n ?? 0);
          await client.query(at % 5 === 4 ? "ROLLBACK" : "COMMIT");
        }
      }),
    );
    const consumer = await session("shop");
    const { claim, rows } = await take(consumer, "orders", { limit: 10_000 });
    const committed = payloads(rows).filter((n) => n > 0);
    assert.equal(rows.length, WRITERS * 16 * 2);
    assert.deepEqual(
      committed,
      Array.from({ length: WRITERS * 16 }, (_, at) => at + 1),
    );
    assert.equal(await ack(consumer, claim, rows), rows.length);
    await release(consumer, claim);
    assert.deepEqual((await take(consumer, "orders")).rows, []);
    const left = await cluster.query(
      "a",
      "SELECT FROM highwater.outbox_key UNION ALL SELECT FROM highwater.outbox_hold",
    );
    assert.equal(left.length, 0, "nothing is left of a key without rows");
  });

  it("a snapshot from before another writer's commit is refused, not put in the wrong place", async () => {
    const [stale, fresh] = [await session("shop"), await session("shop")];
    await put(fresh, "stale", "k", 1);
    await stale.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
    await stale.query("SELECT 1 FROM history");
    await put(fresh, "stale", "k", 2);
    await assert.rejects(put(stale, "stale", "k", 3), { code: "40001" });
    await stale.query("ROLLBACK");
    // The same when the key was forgotten and made again in between.
    await stale.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
    await stale.query("SELECT 1 FROM history");
    const { claim, rows } = await take(fresh, "stale");
    assert.equal(await ack(fresh, claim, rows), 2);
    await release(fresh, claim);
    await put(fresh, "stale", "k", 4);
    await assert.rejects(put(stale, "stale", "k", 5), { code: "40001" });
    await stale.query("ROLLBACK");
    assert.deepEqual(payloads((await take(fresh, "stale")).rows), [4]);
  });

  it("one key has one consumer at a time, and a claim that is taken over acknowledges nothing", async () => {
    const [one, two] = [await session("shop"), await session("shop")];
    for (const n of [1, 2]) await put(one, "lease", "a", n);
    const first = await take(one, "lease", { leaseMs: 300, limit: 1 });
    assert.deepEqual(payloads(first.rows), [1]);
    await put(one, "lease", "b", 3);
    const second = await take(two, "lease");
    assert.deepEqual(payloads(second.rows), [3], "the other key is free");
    let third = await take(two, "lease");
    while (third.rows.length === 0) third = await take(two, "lease");
    assert.deepEqual(payloads(third.rows), [1], "the lease is over: its row comes again, alone");
    assert.equal(third.rows[0]?.attempt, 2);
    assert.equal(third.rows[0].id, first.rows[0]?.id, "under the same id");
    assert.equal(await ack(one, first.claim, first.rows), 0);
    assert.equal(await ack(two, third.claim, third.rows), 1);
    await release(two, third.claim);
    assert.deepEqual(payloads((await take(one, "lease")).rows), [2]);
  });

  it("many consumers at once: every row once, and none of one key to two of them", async () => {
    const writer = await session("shop");
    for (let n = 0; n < 400; n += 1) await put(writer, "many", `key ${String(n % 40)}`, n);
    const got = new Map<string, number[]>();
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        const client = await session("shop");
        for (;;) {
          const { claim, rows } = await take(client, "many", { limit: 7 });
          if (rows.length === 0) return;
          for (const { key, payload } of rows) got.set(key, [...(got.get(key) ?? []), payload]);
          assert.equal(await ack(client, claim, rows), rows.length);
          await release(client, claim);
        }
      }),
    );
    assert.equal(got.size, 40);
    for (const [key, all] of got)
      assert.deepEqual(
        all,
        Array.from({ length: 10 }, (_, at) => at * 40 + Number(key.slice(4))),
        key,
      );
  });

  it("a row that fails stops its key, is parked in the end, and goes on by command", async () => {
    const client = await session("shop");
    for (const n of [1, 2, 3]) await put(client, "poison", "bad", n);
    await put(client, "poison", "good", 4);
    const first = await take(client, "poison", { maxAttempts: 2 });
    assert.equal(first.rows.length, 4);
    const row = first.rows.find(({ payload }) => payload === 1);
    assert.ok(row !== undefined);
    const fail = "SELECT highwater.outbox_fail($1, $2, $3, 0, 2) AS failed";
    assert.deepEqual((await client.query(fail, [first.claim, row.id, "no"])).rows, [{ failed: true }]);
    await release(client, first.claim);
    const second = await take(client, "poison", { maxAttempts: 2 });
    assert.deepEqual(
      second.rows.map(({ payload, attempt }) => [payload, attempt]).sort(),
      [
        [1, 2],
        [4, 2],
      ],
      "the row that failed comes alone",
    );
    const good = second.rows.filter(({ payload }) => payload === 4);
    assert.equal(await ack(client, second.claim, good), 1);
    await client.query(fail, [second.claim, row.id, "no, again"]);
    await release(client, second.claim);
    assert.deepEqual((await take(client, "poison", { maxAttempts: 2 })).rows, []);
    const parked = await client.query(
      "SELECT id, last_error, attempts, behind::int FROM highwater.outbox_parked('poison')",
    );
    assert.deepEqual(parked.rows, [{ id: row.id, last_error: "no, again", attempts: 2, behind: 2 }]);
    const unpark = "SELECT highwater.outbox_unpark($1, $2) AS unparked";
    assert.deepEqual((await client.query(unpark, [first.rows[2]?.id, true])).rows, [{ unparked: false }]);
    assert.deepEqual((await client.query(unpark, [row.id, true])).rows, [{ unparked: true }]);
    assert.deepEqual(payloads((await take(client, "poison")).rows), [2, 3]);
  });

  it("a consumer that dies each time uses up the attempts of the row that it began with", async () => {
    const client = await session("shop");
    for (const n of [1, 2]) await put(client, "deadly", "k", n);
    for (const attempt of [1, 2]) {
      const { rows } = await take(client, "deadly", { leaseMs: 0, maxAttempts: 2 });
      assert.equal(rows[0]?.attempt, attempt);
    }
    assert.deepEqual((await take(client, "deadly", { leaseMs: 0, maxAttempts: 2 })).rows, []);
    assert.equal((await client.query("SELECT FROM highwater.outbox_parked('deadly')")).rowCount, 1);
    // What was never begun is no attempt.
    await put(client, "deadly", "other", 3);
    for (let n = 0; n < 5; n += 1) {
      const { claim, rows } = await take(client, "deadly", { maxAttempts: 2 });
      assert.deepEqual(payloads(rows), [3]);
      await client.query("SELECT highwater.outbox_release($1, $2)", [claim, rows.map(({ id }) => id)]);
    }
  });

  it("a login role gets its own rows and those of roles that it is a member of, and can do no more", async () => {
    const [shop, bank] = [await session("shop"), await session("bank")];
    await put(shop, "rights", "k", 1);
    const open = await session("bank");
    await open.query("BEGIN");
    // The same key of another role is another key: neither waits.
    await put(open, "rights", "k", 2);
    await put(shop, "rights", "k", 3);
    await open.query("COMMIT");
    assert.deepEqual(payloads((await take(bank, "rights")).rows), [2]);
    await cluster.query("a", "CREATE ROLE relay LOGIN IN ROLE shop");
    assert.deepEqual(payloads((await take(await session("relay"), "rights")).rows), [1, 3]);
    for (const text of [
      "SELECT FROM highwater.outbox",
      "DELETE FROM highwater.outbox",
      "INSERT INTO highwater.outbox (topic, key, payload, writer) VALUES ('rights', 'k', '1', 'bank')",
      "SELECT FROM highwater.outbox_key FOR UPDATE",
      "UPDATE highwater.outbox_hold SET held_until = 'infinity'",
    ])
      await assert.rejects(shop.query(text), { code: "42501" }, text);
  });

  it("rows, claims and parked keys of another role under the topic cost a consumer nothing", async () => {
    const topic = "flooded";
    const foreign = await session("bank");
    const fill = (prefix: string): Promise<unknown> =>
      foreign.query(
        "INSERT INTO highwater.outbox (topic, key, payload) SELECT $1, $2 || n, '0' FROM generate_series(1, $3::int) n",
        [topic, prefix, FOREIGN_ROWS],
      );
    /** Runs the call. Returns how many pages of tables and indexes it read. */
    const pagesOf = async (client: pg.Client, call: string, values: readonly unknown[]): Promise<number> => {
      const { rows } = await client.query<{ "QUERY PLAN": { Plan: Record<string, number> }[] }>(
        `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM highwater.${call}`,
        [...values],
      );
      const plan = rows[0]?.["QUERY PLAN"][0]?.Plan ?? {};
      return (plan["Shared Hit Blocks"] ?? 0) + (plan["Shared Read Blocks"] ?? 0);
    };
    /** Of the whole life of a claim of one row. */
    const pagesOfRound = async (client: pg.Client): Promise<Record<string, number>> => {
      await put(client, topic, "own", 1);
      const claim = randomUUID();
      const taken = await pagesOf(client, "outbox_take($1, $2, $3, 1, 3)", [topic, claim, LEASE_MS]);
      const own = await cluster.query(
        "a",
        `SELECT id FROM highwater.outbox WHERE topic = '${topic}' AND writer = 'shop'`,
      );
      assert.equal(own.length, 1);
      return {
        take: taken,
        ack: await pagesOf(client, "outbox_ack($1, $2)", [claim, own.map((row) => row["id"])]),
        release: await pagesOf(client, "outbox_release($1)", [claim]),
        parked: await pagesOf(client, "outbox_parked($1)", [topic]),
      };
    };
    const assertFew = (pages: Record<string, number>, when: string): void => {
      for (const [call, count] of Object.entries(pages))
        assert.ok(count < PAGES_MAX, `${when}, outbox_${call} read ${String(count)} pages`);
    };

    // They plan while the tables are all but empty, and keep these plans.
    const early: pg.Client[] = [];
    for (const maintenance of [
      "TRUNCATE highwater.outbox, highwater.outbox_key, highwater.outbox_hold",
      "VACUUM ANALYZE",
    ]) {
      await cluster.query("a", maintenance);
      const client = await session("shop");
      for (let round = 0; round < 7; round += 1) await pagesOfRound(client);
      early.push(client);
    }
    await fill("claimed ");
    assert.equal((await take(foreign, topic, { limit: FOREIGN_ROWS })).rows.length, FOREIGN_ROWS);
    await fill("parked ");
    assert.equal((await take(foreign, topic, { limit: FOREIGN_ROWS, maxAttempts: 0 })).rows.length, 0);
    await fill("waiting ");
    for (const client of early) {
      await pagesOfRound(client);
      assertFew(await pagesOfRound(client), "with the plans of before");
    }
    for (const statistics of ["none", "new"]) {
      if (statistics === "new") await cluster.query("a", "ANALYZE");
      for (const mode of ["force_custom_plan", "force_generic_plan"]) {
        const late = await session("shop");
        await late.query(`SET plan_cache_mode = ${mode}`);
        // Reads the system's tables, too.
        await pagesOfRound(late);
        assertFew(await pagesOfRound(late), `statistics: ${statistics}, ${mode}`);
      }
    }
  });

  it("a claim in a snapshot that stands still is refused", async () => {
    const client = await session("shop");
    await client.query("BEGIN ISOLATION LEVEL SERIALIZABLE");
    await assert.rejects(
      take(client, "x"),
      /outbox_take runs in READ COMMITTED transactions only, not in SERIALIZABLE/,
    );
    await client.query("ROLLBACK");
  });
});
