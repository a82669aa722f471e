// Goal: the owner of the database may rewrite the service's tables while they are used. That loses nothing, so no epoch begins with the
// cause `restored`, and everything that has committed is carried over. After such a statement, rows that a crash loses do not count as kept.
// Method: one real server; the statements run as the superuser, and the store does what a service does when its epoch has ended.
import assert from "node:assert/strict";
import { after, before, beforeEach, describe, it } from "node:test";
import { type Cluster } from "@highwater/lab-cluster";
import { type EpochId, type EpochRecord, type NodeSpec, type Offset, parseOffset } from "@highwater/protocol";
import { type PostgresStore } from "../src/postgres/adapter.ts";
import { NEWEST_MIGRATION } from "../src/postgres/prepare.ts";
import { type TransactionSpec } from "../src/port.ts";
import { commitOf, makeStore, MINT, nodeSpecs, specOf, startTestCluster } from "./postgres-cluster.ts";

const [EAST, WEST] = ["us-east", "us-west"] as const;
const SENTINEL = "highwater.epoch_sentinel";
const MIGRATION = "0022-opened-epoch.sql";

describe("a rewrite of the service's tables", () => {
  let cluster: Cluster;
  let node: NodeSpec;
  let store: PostgresStore;
  let epoch: EpochId;

  const sql = (text: string): Promise<Record<string, unknown>[]> => cluster.query(EAST, text);

  const mint = async (): Promise<EpochRecord> => {
    store.forget(EAST);
    const record = await store.mint(EAST, MINT).catch(() => store.mint(EAST, MINT));
    epoch = record.id as EpochId;
    return record;
  };

  const put = async (): Promise<{ spec: TransactionSpec; offset: Offset }> => {
    const spec = specOf(epoch, ["INSERT INTO kv VALUES (gen_random_uuid()::text)"]);
    return { spec, offset: commitOf(await store.execute(EAST, spec)).offset };
  };

  const isKept = async ({ spec }: { spec: TransactionSpec }): Promise<boolean> => {
    const [receipt] = (await store.lookUp(EAST, [spec])).receipts;
    return typeof receipt === "object" && receipt.kind === "commit";
  };

  /** As a service: a new epoch where the one before has ended. The record of the new one, or null. */
  const goOn = async (): Promise<EpochRecord | null> => {
    const { current } = await store.probe(EAST);
    return current === epoch ? null : mint();
  };

  const crash = async (): Promise<void> => {
    await cluster.crashBackend(EAST);
    store.forget(EAST);
    await store.probe(EAST).catch(() => store.probe(EAST));
  };

  before(async () => {
    cluster = await startTestCluster({ nodes: [{ id: EAST, region: EAST }] });
    [node] = (await nodeSpecs(cluster)) as [NodeSpec];
    store = makeStore([node], "one");
    await store.prepare(EAST);
    await mint();
    await sql("CREATE TABLE kv (key text PRIMARY KEY)");
  });

  after(async () => {
    await store.close();
    await cluster.close();
  });

  // In each epoch the owner rewrites anew.
  beforeEach(async () => {
    await cluster.restart(EAST);
    await mint();
  });

  it("by any statement, of any table, is no restore, and keeps everything", async () => {
    const tables = await sql(
      `SELECT c.oid::regclass::text AS name, i.indexrelid::regclass::text AS key, c.relpersistence = 'u' AS unlogged,
         NOT EXISTS (SELECT FROM pg_constraint f WHERE f.contype = 'f' AND c.oid IN (f.conrelid, f.confrelid)) AS alone
       FROM pg_class c LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
       WHERE c.relnamespace = 'highwater'::regnamespace AND c.relkind = 'r' AND NOT c.relispartition
       ORDER BY c.relname <> 'epoch_sentinel', c.relname`,
    );
    assert.ok(tables.length > 10 && tables[0]?.["name"] === SENTINEL);
    for (const { name, key, unlogged, alone } of tables) {
      const table = `ALTER TABLE ${String(name)}`;
      const [there, back] = unlogged === true ? ["LOGGED", "UNLOGGED"] : ["UNLOGGED", "LOGGED"];
      const index = typeof key === "string" ? key.replace("highwater.", "") : null;
      for (const statement of [
        `VACUUM FULL ${String(name)}`,
        ...(index === null ? [] : [`CLUSTER ${String(name)} USING ${index}`]),
        // PostgreSQL refuses it where a foreign key leads to another table.
        ...(alone === true ? [`${table} SET ${there}`, `${table} SET ${back}`] : []),
        `${table} ADD COLUMN of_the_owner uuid DEFAULT gen_random_uuid()`,
        `${table} DROP COLUMN of_the_owner`,
      ]) {
        const ended = epoch;
        const written = await put();
        await sql(statement);
        const record = await goOn();
        if (record !== null) {
          assert.equal(name, SENTINEL, `${statement} ends no epoch`);
          assert.deepEqual([record.cause, record.previous], ["clean_restart", ended], statement);
          assert.ok(
            (parseOffset(record.forkOffset) ?? 0n) >= written.offset,
            "what was read there is kept, too",
          );
          assert.equal(record.forkLimit, null);
        }
        assert.ok(await isKept(written), statement);
        assert.ok(await isKept(await put()), statement);
        const [persistence] = await sql(
          `SELECT relpersistence = 'u' AS unlogged FROM pg_class WHERE oid = '${SENTINEL}'::regclass`,
        );
        assert.equal(persistence?.["unlogged"], true, "the next crash empties it");
      }
    }
  });

  it("is known in an epoch that an older version began, from the migration on", async () => {
    await sql("DROP TABLE highwater.opened_epoch");
    await sql(`DELETE FROM highwater.migration WHERE name = '${MIGRATION}'`);
    await sql("COMMENT ON SCHEMA highwater IS '0021-audited.sql'");
    assert.equal((await store.probe(EAST)).prepared, false);
    const written = await put();
    await store.prepare(EAST);
    assert.ok(NEWEST_MIGRATION >= MIGRATION);
    assert.equal((await store.probe(EAST)).current, epoch, "and it goes on");
    await sql(`ALTER TABLE ${SENTINEL} SET LOGGED`);
    assert.equal((await goOn())?.cause, "clean_restart");
    assert.ok(await isKept(written));
  });

  it("that is followed by a crash proves no more than the crash has left", async () => {
    const ended = epoch;
    const { offset } = await put();
    await store.helpFlush(EAST, epoch);
    await sql(`ALTER TABLE ${SENTINEL} SET LOGGED`);
    await crash();
    assert.equal((await sql(`SELECT FROM ${SENTINEL}`)).length, 1, "the crash has not emptied it");
    const record = await mint();
    assert.deepEqual([record.cause, record.previous], ["crash_recovery", ended]);
    assert.ok((parseOffset(record.forkOffset) ?? 0n) >= offset, "the witness proves it");
    assert.notEqual(record.forkLimit, null);
  });

  it("that is followed by a restart is no restore", async () => {
    const written = await put();
    await store.helpFlush(EAST, epoch);
    await sql(`ALTER TABLE ${SENTINEL} SET LOGGED`);
    await cluster.restart(EAST);
    const record = await mint();
    assert.equal(record.cause, "crash_recovery");
    assert.equal(record.forkLimit, null, "the restarted server does not say how far it had recovered before");
    assert.ok((parseOffset(record.forkOffset) ?? 0n) >= written.offset, "its witness says that it is there");
    assert.ok(await isKept(written));
  });

  it("does not hide that a tracker has seen the log go back", async () => {
    await put();
    await store.disownEpoch(EAST, epoch);
    await sql(`ALTER TABLE ${SENTINEL} SET LOGGED`);
    assert.equal((await goOn())?.cause, "restored");
  });

  it("counts as a restore where nothing is left that was not rewritten", async () => {
    const written = await put();
    await sql("ALTER TABLE highwater.opened_epoch SET UNLOGGED");
    await sql(`ALTER TABLE ${SENTINEL} SET LOGGED`);
    assert.equal((await goOn())?.cause, "restored");
    assert.ok(await isKept(written));
  });

  it("is not excused by what an epoch of before has left, when an older version has begun this one", async () => {
    await sql("CREATE TABLE older AS SELECT * FROM highwater.opened_epoch");
    await crash();
    await mint();
    await sql("UPDATE highwater.opened_epoch n SET id = o.id FROM older o");
    await sql(`UPDATE highwater.opened_epoch SET writer = pg_current_xact_id()::xid`);
    await sql("DROP TABLE older");
    assert.equal((await store.probe(EAST)).current, epoch);
    await sql(`ALTER TABLE ${SENTINEL} SET LOGGED`);
    assert.equal((await goOn())?.cause, "restored");
  });
});

it("a promotion of a replica that has got the rewritten row is no restore", async () => {
  const others = [EAST, WEST].map((id) => ({ id, region: id }));
  await using cluster = await startTestCluster({ nodes: others });
  const store = makeStore(await nodeSpecs(cluster), "one");
  try {
    await store.prepare(EAST);
    const ended = await store.mint(EAST, MINT);
    const { offset } = commitOf(await store.execute(EAST, specOf(ended.id as EpochId, ["SELECT 1"])));
    await store.helpFlush(EAST, ended.id as EpochId);
    await cluster.query(EAST, `ALTER TABLE ${SENTINEL} SET LOGGED`);
    await cluster.waitForStreaming([WEST]);
    await cluster.kill(EAST);
    await cluster.promote(WEST, { command: false, repoint: false });
    assert.equal((await cluster.query(WEST, `SELECT FROM ${SENTINEL}`)).length, 1);
    const record = await store.mint(WEST, MINT);
    assert.deepEqual([record.cause, record.previous], ["promotion", ended.id]);
    assert.ok((parseOffset(record.forkOffset) ?? 0n) >= offset, "its witness came along");
  } finally {
    await store.close();
  }
});
