// How far up a read-only transaction reaches into the log: no less than what it saw, and no more than it must.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { eventually } from "@highwater/lab-tools/process";
import { type EpochId, type NodeSpec, type Offset } from "@highwater/protocol";
import { type TransactionSpec } from "../src/port.ts";
import { type PostgresStore } from "../src/postgres/adapter.ts";
import { commitOf, connect, specOf, OneServer } from "./postgres-cluster.ts";

const SNAPSHOT_LEVELS = ["repeatable read", "serializable"] as const;

describe("the position of a read-only transaction on PostgreSQL", () => {
  let server: OneServer;
  let node: NodeSpec;
  let store: PostgresStore;
  let epoch: EpochId;
  let sql: OneServer["sql"];

  before(async () => {
    server = await OneServer.start({ poolSize: 4 });
    ({ node, store, epoch, sql } = server);
    await server.sql("CREATE TABLE seen (id serial PRIMARY KEY, payload text)");
  });

  after(() => server.close());

  const INSERT_POSITION = "SELECT (pg_current_wal_insert_lsn() - '0/0')::text AS at";

  const end = async (): Promise<bigint> => BigInt(String((await sql(INSERT_POSITION))[0]?.["at"]));

  const write = async (): Promise<Offset> =>
    commitOf(await store.execute(node.id, specOf(epoch, ["INSERT INTO seen DEFAULT VALUES"]))).offset;

  const COUNT = { sql: "SELECT count(*) FROM seen" };

  const reader = (more: Partial<TransactionSpec> = {}): TransactionSpec =>
    specOf(epoch, [COUNT.sql], { readOnly: true, isolation: "repeatable read", ...more });

  const read = async (more: Partial<TransactionSpec> = {}): Promise<Offset> =>
    commitOf(await store.execute(node.id, reader(more))).offset;

  for (const isolation of SNAPSHOT_LEVELS)
    it(`of ${isolation} is above a TRUNCATE that its snapshot does not show and its rows do`, async () => {
      await sql("CREATE TABLE IF NOT EXISTS emptied (id int)");
      await sql("INSERT INTO emptied VALUES (1)");
      const rival = await connect(node.url);
      await rival.query("BEGIN");
      await rival.query("TRUNCATE emptied");
      const statements = [{ sql: "SELECT count(*) FROM emptied" }];
      const waiting = store.execute(node.id, reader({ isolation, statements }));
      const isWaiting = "SELECT FROM pg_locks WHERE NOT granted AND relation = 'emptied'::regclass";
      await eventually("it waits for the table", async () => (await sql(isWaiting)).length === 1);
      await write();
      const above = await end();
      await rival.query("COMMIT");
      await rival.end();
      const { offset, results } = commitOf(await waiting);
      assert.deepEqual(results[0]?.rows, [["0"]], "TRUNCATE is seen whatever the snapshot is");
      assert.ok(offset > above, `${String(offset)}, not above ${String(above)}`);
    });

  it("of READ COMMITTED lies behind its last statement", async () => {
    const opening = await store.begin(node.id, reader({ isolation: "read committed" }));
    assert.ok(opening.kind === "open");
    const seen = await write();
    const last = await opening.transaction.run([COUNT]);
    assert.notDeepEqual(last[0]?.rows, opening.results[0]?.rows);
    const seenLast = await write();
    const { offset, results } = commitOf(await opening.transaction.commit([COUNT]));
    assert.notDeepEqual(results[0]?.rows, last[0]?.rows);
    assert.ok(offset >= seenLast && seenLast > seen);
    assert.ok((await read({ isolation: "read committed" })) >= seenLast);
  });

  it("is not above what an open bulk load writes, and is above its commit", async () => {
    const BULK = 10_000_000;
    const limits = ["read committed", ...SNAPSHOT_LEVELS] as const;
    await write();
    const before = await read();
    const began = await end();
    const loader = await connect(node.url);
    await loader.query("BEGIN");
    await loader.query(
      "INSERT INTO seen (payload) SELECT repeat(md5(i::text), 300) FROM generate_series(1, 3000) i",
    );
    await loader.query("SELECT pg_logical_emit_message(true, 'bulk', repeat('x', $1))", [BULK]);
    assert.ok((await end()) > began + BigInt(BULK));
    for (const isolation of limits) assert.equal(await read({ isolation }), before, isolation);
    const { rows } = await loader.query<{ at: string }>(INSERT_POSITION);
    await loader.query("COMMIT");
    for (const isolation of limits)
      assert.ok((await read({ isolation })) > BigInt(rows[0]?.at ?? ""), isolation);
    await loader.end();
  });

  it("is forgotten with its epoch's snapshots, not carried to another transaction's", async () => {
    const offsets: Offset[] = [];
    for (let i = 0; i < 10; i++) {
      const written = await write();
      const offset = await read();
      assert.ok(offset >= written);
      assert.equal(await read(), offset, "nothing has happened since");
      offsets.push(offset);
    }
    assert.deepEqual(
      offsets,
      [...offsets].sort((a, b) => (a < b ? -1 : 1)),
    );
  });

  it("is that of the safe snapshot for which a deferrable one waits", async () => {
    const written = await write();
    const rival = await connect(node.url);
    await rival.query("BEGIN ISOLATION LEVEL SERIALIZABLE");
    await rival.query("SELECT count(*) FROM seen");
    await rival.query("INSERT INTO seen DEFAULT VALUES");
    const waiting = store.execute(node.id, reader({ isolation: "serializable", deferrable: true }));
    const isWaiting = "SELECT FROM pg_stat_activity WHERE wait_event = 'SafeSnapshot'";
    await eventually("it waits for a safe snapshot", async () => (await sql(isWaiting)).length === 1);
    await rival.query("COMMIT");
    await rival.end();
    const { offset, results } = commitOf(await waiting);
    assert.equal(results[0]?.rowCount, 1);
    assert.ok(offset >= written);
  });

  it("bounds every row that was seen, among many writers and readers", async () => {
    const WRITERS = 4;
    const ROWS_EACH = 120;
    await sql("TRUNCATE seen");
    /** By row: where the log ended before its COMMIT. The commit's record ends above that. */
    const committedAbove = new Map<string, bigint>();
    const writers = await Promise.all(Array.from({ length: WRITERS }, () => connect(node.url)));
    let writing = WRITERS;
    const writeAll = async (client: (typeof writers)[number]): Promise<void> => {
      await client.query("SET synchronous_commit TO off");
      for (let i = 0; i < ROWS_EACH; i++) {
        await client.query("BEGIN");
        const inserted = await client.query<{ id: string; at: string }>(
          `WITH row AS (INSERT INTO seen DEFAULT VALUES RETURNING id)
           SELECT id::text, (pg_current_wal_insert_lsn() - '0/0')::text AS at FROM row`,
        );
        const { rows } = await client.query<{ at: string }>(INSERT_POSITION);
        committedAbove.set(inserted.rows[0]?.id ?? "", BigInt(rows[0]?.at ?? ""));
        await client.query("COMMIT");
      }
      writing--;
      await client.end();
    };
    const readings: { readonly ids: readonly string[]; readonly offset: Offset }[] = [];
    const readAll = async (isolation: TransactionSpec["isolation"]): Promise<void> => {
      while (writing > 0) {
        const spec = reader({ isolation, statements: [{ sql: "SELECT id FROM seen" }] });
        const { offset, results } = commitOf(await store.execute(node.id, spec));
        readings.push({ ids: (results[0]?.rows ?? []).map(([id]) => id ?? ""), offset });
      }
    };
    await Promise.all([
      ...writers.map(writeAll),
      readAll("read committed"),
      readAll("repeatable read"),
      readAll("serializable"),
    ]);
    assert.equal(committedAbove.size, WRITERS * ROWS_EACH);
    assert.ok(readings.some(({ ids }) => ids.length > 0 && ids.length < committedAbove.size));
    for (const { ids, offset } of readings)
      for (const id of ids) {
        const bound = committedAbove.get(id) ?? assert.fail(`row ${id} was seen, and no one wrote it`);
        assert.ok(
          offset > bound,
          `row ${id}, committed above ${String(bound)}, was read at ${String(offset)}`,
        );
      }
  });
});
