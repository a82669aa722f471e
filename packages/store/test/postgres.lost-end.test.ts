// Goal: where the server does not say how far the previous epoch's log goes in this history, the log's present end is not taken for
// that. An id that every level had, and that may be missing, never commits again. Where the server does say so, the epoch's record
// names that very place. Method: a real primary that is put back to an older copy, recovered, promoted, written to and restarted in many orders
// before the next epoch begins.
import assert from "node:assert/strict";
import { appendFile, chown, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { type Cluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { type EpochId, type EpochRecord, parseOffset } from "@highwater/protocol";
import { type TransactionSpec } from "../src/port.ts";
import { type PostgresStore } from "../src/postgres/adapter.ts";
import {
  commitOf,
  errorOf,
  makeStore,
  MINT,
  newId,
  nodeSpecs,
  specOf,
  startTestCluster,
} from "./postgres-cluster.ts";

const NODE = "us-east";
const FILL = "INSERT INTO dba SELECT repeat('x', 500) FROM generate_series(1, 2000)";

describe("the end of the previous epoch's log", () => {
  let cluster: Cluster;
  let store: PostgresStore;
  let epoch: EpochId;

  before(async () => {
    cluster = await startTestCluster({ nodes: [{ id: NODE, region: NODE }] });
    store = makeStore(await nodeSpecs(cluster), "one");
    await store.prepare(NODE);
    epoch = (await store.mint(NODE, MINT)).id as EpochId;
    await cluster.query(NODE, "CREATE TABLE kv (key text PRIMARY KEY)");
    await cluster.query(NODE, "CREATE TABLE dba (text text)");
  });

  after(async () => {
    await store.close();
    await cluster.close();
  });

  interface Durable {
    readonly spec: TransactionSpec;
    readonly offset: bigint;
  }

  /** A transaction that every level has, in an epoch of its own. */
  async function commit(): Promise<Durable> {
    const spec = specOf(epoch, ["INSERT INTO kv VALUES (gen_random_uuid()::text)"], { id: newId() });
    const { offset } = commitOf(await store.execute(NODE, spec));
    await store.helpFlush(NODE, epoch);
    return { spec, offset };
  }

  async function begin({ offset }: Durable): Promise<EpochRecord> {
    store.forget(NODE);
    const all = String(offset);
    const record = await eventually("an epoch begins", () =>
      store
        .mint(NODE, {
          ...MINT,
          finalMarks: { [epoch]: { disk: all, region: all, global: all } },
          everywhere: { [epoch]: all },
        })
        .catch(() => undefined),
    );
    assert.equal(record.previous, epoch);
    epoch = record.id as EpochId;
    return record;
  }

  const idsFrom = async (): Promise<unknown> =>
    (await cluster.query(NODE, "SELECT ids_from::text FROM highwater.epoch ORDER BY seq DESC LIMIT 1"))[0]?.[
      "ids_from"
    ];

  async function signal(name: string): Promise<void> {
    const dataDir = cluster.nodes.find(({ id }) => id === NODE)?.dataDir ?? "";
    const { uid, gid } = await stat(path.join(dataDir, "PG_VERSION"));
    await writeFile(path.join(dataDir, name), "");
    await chown(path.join(dataDir, name), uid, gid);
    await appendFile(path.join(dataDir, "postgresql.auto.conf"), "\nrestore_command = 'false'\n");
  }

  const isPrimary = (): Promise<unknown> =>
    eventually("the server is a primary", async () =>
      cluster.query(NODE, "SELECT pg_is_in_recovery() AS recovers").then(
        ([row]) => row?.["recovers"] === false,
        () => false,
      ),
    );

  /** Once a file that is written now is younger than the server's processes by its time in whole seconds. */
  const nextSecond = (): Promise<unknown> =>
    eventually("a second is over", async () => {
      const [row] = await cluster.query(
        NODE,
        `SELECT date_trunc('second', clock_timestamp()) > max(backend_start) AS over FROM pg_stat_activity WHERE backend_type = 'checkpointer'`,
      );
      return row?.["over"] === true;
    });

  async function restart(): Promise<void> {
    await cluster.stop(NODE);
    await cluster.start(NODE);
  }

  async function crash(): Promise<void> {
    await cluster.crashBackend(NODE);
    await isPrimary();
  }

  const fill = (): Promise<unknown> => cluster.query(NODE, FILL);
  const pointInTime = async (): Promise<void> => {
    await signal("recovery.signal");
    await cluster.start(NODE);
    await isPrimary();
  };

  const restores: Record<string, { start: () => Promise<void>; then: readonly (() => Promise<unknown>)[] }> =
    {
      "a backup, nothing else": { start: () => cluster.start(NODE), then: [] },
      "a backup, written to": { start: () => cluster.start(NODE), then: [fill] },
      "a backup, written to, and a checkpoint": {
        start: () => cluster.start(NODE),
        then: [fill, () => cluster.query(NODE, "CHECKPOINT"), fill],
      },
      "a backup, written to, and restarted": { start: () => cluster.start(NODE), then: [fill, restart] },
      "a point in time": { start: pointInTime, then: [] },
      "a point in time, written to": { start: pointInTime, then: [fill] },
      "a point in time, written to, and a checkpoint": {
        start: pointInTime,
        then: [fill, () => cluster.query(NODE, "CHECKPOINT"), fill],
      },
      "a point in time, written to, and restarted": { start: pointInTime, then: [fill, restart] },
      "a point in time, written to, and crashed": { start: pointInTime, then: [fill, crash] },
    };

  for (const [form, { start, then }] of Object.entries(restores))
    it(`is not above what a restore lacks, and the lost id never commits again: ${form}`, async () => {
      const kept = await commit();
      const snapshot = await cluster.snapshot(NODE);
      const lost = await commit();
      await cluster.kill(NODE);
      await cluster.restore(NODE, snapshot, { as: "primary" });
      await start();
      for (const step of then) await step();

      const ended = epoch;
      const record = await begin(lost);
      assert.equal(record.cause, start === pointInTime ? "promotion" : "crash_recovery");
      const limit = record.forkLimit === null ? null : parseOffset(record.forkLimit);
      assert.ok(limit == null || limit < lost.offset, "the log was left below what is lost");
      if (start !== pointInTime) assert.equal(limit === null, then.includes(restart));
      assert.ok((parseOffset(record.forkOffset) ?? 0n) < lost.offset);
      assert.equal((await store.execute(NODE, { ...kept.spec, epoch })).kind, "already_settled");
      const again = await errorOf(store.execute(NODE, { ...lost.spec, epoch }));
      assert.deepEqual([again.code, again.outcome], ["id_expired", "unknown"]);
      const { receipts } = await store.lookUp(NODE, [kept.spec, lost.spec]);
      const [first, second] = receipts;
      assert.deepEqual(
        [typeof first === "object" && "epoch" in first && first.epoch, second?.kind],
        [ended, "absent"],
      );
    });

  const failovers: Record<string, () => Promise<void>> = {
    "a crash of a backend": crash,
    "a crash of the host": async () => {
      await cluster.kill(NODE);
      await cluster.start(NODE);
      await isPrimary();
    },
    "a crash, and a checkpoint since": async () => {
      await crash();
      await fill();
      await cluster.query(NODE, "CHECKPOINT");
    },
    // As Patroni does it with a primary that has crashed.
    "a crash, and a promotion without any stream": async () => {
      await cluster.kill(NODE);
      await signal("standby.signal");
      await cluster.start(NODE);
      await nextSecond();
      await cluster.query(NODE, "SELECT pg_promote()");
      await isPrimary();
      await fill();
      await cluster.query(NODE, "CHECKPOINT");
    },
  };

  for (const [form, fail] of Object.entries(failovers))
    it(`is known after ${form}, and no id is refused that was never lost`, async () => {
      const kept = await commit();
      const before = await idsFrom();
      await fail();
      const [server] = await cluster.query(NODE, "SELECT pg_current_wal_insert_lsn() - '0/0' AS end");
      const ended = epoch;
      const record = await begin(kept);
      const limit = parseOffset(record.forkLimit ?? "");
      assert.ok(limit !== undefined && limit >= kept.offset, "what every level had is within the limit");
      assert.ok(limit <= BigInt(String(server?.["end"])));
      assert.equal(await idsFrom(), before);
      const execution = await store.execute(NODE, { ...kept.spec, epoch });
      assert.equal(execution.kind, "already_settled");
      const { receipts } = await store.lookUp(NODE, [kept.spec]);
      assert.ok(typeof receipts[0] === "object" && "epoch" in receipts[0] && receipts[0].epoch === ended);
    });

  it("is not all that may be missing: an id of an epoch that the new one gives up never commits again", async () => {
    const kept = await commit();
    const snapshot = await cluster.snapshot(NODE);
    await restart();
    await begin(kept);
    const givenUp = epoch;
    const lost = await commit();
    await cluster.kill(NODE);
    await cluster.restore(NODE, snapshot, { as: "primary" });
    await cluster.start(NODE);
    store.forget(NODE);
    const everywhere = { [givenUp]: String(lost.offset) };
    const request = { ...MINT, supersedes: [givenUp], everywhere };
    const record = await eventually("an epoch begins", () =>
      store.mint(NODE, request).catch(() => undefined),
    );
    assert.notEqual(record.previous, givenUp);
    epoch = record.id as EpochId;
    const again = await errorOf(store.execute(NODE, { ...lost.spec, epoch }));
    assert.deepEqual([again.code, again.outcome], ["id_expired", "unknown"]);
  });

  it("is not known after a crash and a clean restart, and then only what is proven keeps older ids alive", async () => {
    const kept = await commit();
    await store.helpFlush(NODE, epoch);
    const before = await idsFrom();
    await crash();
    await restart();
    const record = await begin(kept);
    assert.deepEqual([record.cause, record.forkLimit], ["crash_recovery", null]);
    assert.ok((parseOffset(record.forkOffset) ?? 0n) >= kept.offset, "its witness proves it");
    assert.equal(await idsFrom(), before);
  });
});

const LOAD =
  "SET synchronous_commit = off; INSERT INTO dba SELECT repeat('x', 3000) FROM generate_series(1, 400)";

/** The highest position that `sql` has shown while the primary wrote as fast as it could, until it was killed. */
async function killUnderLoad(cluster: Cluster, sql: string): Promise<bigint> {
  let [isOver, highest] = [false, 0n];
  const during = async (work: () => Promise<unknown>): Promise<void> => {
    while (!isOver) await work().catch(() => undefined);
  };
  const look = async (): Promise<void> => {
    const [row] = await cluster.query(NODE, sql);
    if (typeof row?.["at"] === "string") highest = BigInt(row["at"]);
  };
  const load = [
    during(() => cluster.query(NODE, LOAD)),
    during(() => cluster.query(NODE, LOAD)),
    during(look),
  ];
  let began = 0n;
  await eventually("much is written", () => {
    if (began === 0n) began = highest;
    return Promise.resolve(highest - began > 10_000_000n);
  });
  await cluster.kill(NODE);
  isOver = true;
  await Promise.all(load);
  return highest;
}

const failuresUnderLoad = {
  "a crash": {
    sql: "SELECT (pg_current_wal_flush_lsn() - '0/0')::text AS at",
    to: NODE,
    fail: (cluster: Cluster) => cluster.start(NODE),
  },
  "a promotion": {
    sql: "SELECT (flush_lsn - '0/0')::text AS at FROM pg_stat_replication",
    to: "us-west",
    fail: (cluster: Cluster) => cluster.promote("us-west", { command: false, repoint: false }),
  },
};

for (const [form, { sql, to, fail }] of Object.entries(failuresUnderLoad))
  it(`what was on a disk is within the limit after ${form} under load, also part of a record`, async () => {
    await using cluster = await startTestCluster({
      nodes: [NODE, "us-west"].map((id) => ({ id, region: id })),
    });
    const store = makeStore(await nodeSpecs(cluster), "one");
    try {
      await store.prepare(NODE);
      await store.mint(NODE, MINT);
      await cluster.query(NODE, "CREATE TABLE dba (text text)");
      await cluster.waitForStreaming(["us-west"]);
      const onDisk = await killUnderLoad(cluster, sql);
      await fail(cluster);
      const record = await eventually("an epoch begins", () => store.mint(to, MINT).catch(() => undefined));
      assert.ok((parseOffset(record.forkLimit ?? "") ?? 0n) >= onDisk, "no promise is called broken");
    } finally {
      await store.close();
    }
  });
