// Receipts come and go by partitions: there is room for the time ahead, what is too old is dropped, and no transaction waits for that.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type pg from "pg";
import { eventually } from "@highwater/lab-tools/process";
import { type TxnId } from "@highwater/protocol";
import { uuidFloor } from "../src/postgres/prepare.ts";
import {
  commitOf,
  connect,
  errorOf,
  INSERT_RECEIPT,
  keyOf,
  newId,
  OneServer,
  RETENTION_MS,
  specOf,
} from "./postgres-cluster.ts";

describe("the retention of receipts on PostgreSQL", () => {
  let server: OneServer;

  before(async () => {
    server = await OneServer.start({});
  });

  after(() => server.close());

  const kindOf = async (id: TxnId): Promise<string | undefined> =>
    (await server.store.lookUp(server.node.id, [keyOf(id)])).receipts[0]?.kind;

  const partitions = async (): Promise<string[]> =>
    (
      await server.sql(
        "SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'highwater.receipt'::regclass ORDER BY 1",
      )
    ).map(({ name }) => String(name));

  it("has partitions for the time ahead, and drops those whose time is over", async () => {
    const old = specOf(server.epoch, ["SELECT 1"], { id: newId(0.95 * RETENTION_MS) });
    commitOf(await server.store.execute(server.node.id, old));
    // Once in a quarter of an hour there is a partition to make.
    const { all, before } = await eventually("there is nothing to do", async () => {
      const found = await partitions();
      const report = await server.store.maintain(server.node.id, { expireBeforeMs: null });
      return (await partitions()).join() === found.join() && { all: found, before: report };
    });
    assert.ok(before.ceilingMs >= before.serverTimeMs + 2 * RETENTION_MS);
    assert.ok(all.length >= 12 && all.length <= 14, String(all.length));

    const expireBeforeMs = before.serverTimeMs - RETENTION_MS / 2;
    const after = await server.store.maintain(server.node.id, { expireBeforeMs });
    assert.ok((await partitions()).length < all.length);
    assert.ok(after.expiredBeforeMs <= expireBeforeMs && after.expiredBeforeMs > before.expiredBeforeMs);
    assert.equal(await kindOf(old.id), "expired");
    const refused = await errorOf(server.store.execute(server.node.id, old));
    assert.deepEqual([refused.code, refused.outcome], ["id_expired", "unknown"]);
  });

  it("goes on under another retention, without a gap", async () => {
    const longer = server.another("longer", { retentionMs: 3 * RETENTION_MS });
    const { ceilingMs, serverTimeMs } = await longer.maintain(server.node.id, { expireBeforeMs: null });
    assert.ok(ceilingMs >= serverTimeMs + 6 * RETENTION_MS);
    for (const ahead of [0.5, 2, 2.5, 4, 5.5]) {
      const spec = specOf(server.epoch, ["SELECT 1"], { id: newId(-ahead * RETENTION_MS) });
      commitOf(await server.store.execute(server.node.id, spec));
    }
  });

  it("leaves no gap behind a clock that was ahead", async () => {
    // What a maintenance by such a clock has left: a partition far ahead, and nothing in between.
    const hours = (count: number): number => Math.floor(Date.now() + count * RETENTION_MS);
    const [from, to] = [hours(8), hours(8.1)];
    const hex = (ms: number): string => ms.toString(16).padStart(12, "0");
    const name = `highwater.receipt_${hex(from)}_${hex(to)}`;
    await server.sql(`CREATE TABLE ${name} (LIKE highwater.receipt INCLUDING ALL)`);
    await server.sql(
      `ALTER TABLE highwater.receipt ATTACH PARTITION ${name} FOR VALUES FROM ('${uuidFloor(from)}') TO ('${uuidFloor(to)}')`,
    );
    const longest = server.another("longest", { retentionMs: 5 * RETENTION_MS });
    const { ceilingMs, serverTimeMs } = await longest.maintain(server.node.id, { expireBeforeMs: null });
    assert.ok(ceilingMs >= serverTimeMs + 10 * RETENTION_MS);
    for (const ahead of [0, 5.9, 6.5, 7.9, 8.05, 8.2, 9.9]) {
      const spec = specOf(server.epoch, ["SELECT 1"], { id: newId(-ahead * RETENTION_MS) });
      commitOf(await server.store.execute(server.node.id, spec));
    }
  });

  const openReceipt = async (): Promise<pg.Client> => {
    const long = await connect(server.node.url);
    await long.query("BEGIN");
    await long.query(INSERT_RECEIPT, [newId(), newId(), server.epoch]);
    return long;
  };

  const tables = async (): Promise<string[]> =>
    (
      await server.sql(
        "SELECT relname AS name FROM pg_class WHERE relname ~ '^receipt_[0-9a-f_]+$' AND relkind = 'r' ORDER BY 1",
      )
    ).map(({ name }) => `highwater.${String(name)}`);

  it("finishes later what it could not finish in its time", async () => {
    const { serverTimeMs } = await server.store.maintain(server.node.id, { expireBeforeMs: null });
    const long = await openReceipt();
    const hasty = server.another("hasty", { callTimeoutMs: 300 });
    const expireBeforeMs = serverTimeMs - RETENTION_MS / 4;
    const { expiredBeforeMs } = await hasty.maintain(server.node.id, { expireBeforeMs });
    const [pending] = await server.sql("SELECT count(*)::int AS n FROM pg_inherits WHERE inhdetachpending");
    assert.equal(pending?.["n"], 1);
    await long.query("ROLLBACK");
    await long.end();
    await server.store.maintain(server.node.id, { expireBeforeMs });
    const left = await partitions();
    assert.deepEqual(await tables(), left);
    const ends = left.map((name) => Number.parseInt(name.slice(-12), 16));
    assert.ok(Math.min(...ends) > expiredBeforeMs);
  });

  it("keeps no one waiting while a long transaction blocks a drop", async () => {
    const all = await partitions();
    const oldestMs = Number.parseInt((all[0] ?? "").slice(-25, -13), 16);
    const kept = specOf(server.epoch, ["SELECT 1"], { id: newId(Date.now() - oldestMs - 1_000) });
    commitOf(await server.store.execute(server.node.id, kept));
    const long = await openReceipt();
    const { serverTimeMs } = await server.store.maintain(server.node.id, { expireBeforeMs: null });
    const dropping = server.store.maintain(server.node.id, { expireBeforeMs: serverTimeMs });
    await eventually(
      "it waits for the transaction",
      async () =>
        (await server.sql("SELECT FROM pg_locks WHERE NOT granted AND locktype = 'virtualxid'")).length > 0,
    );
    // A receipt that is being dropped is not found, and is not taken for absent.
    assert.equal(await kindOf(kept.id), "expired");
    for (let n = 0; n < 5; n++)
      commitOf(await server.store.execute(server.node.id, specOf(server.epoch, ["SELECT 1"])));
    assert.deepEqual(
      await server.sql("SELECT FROM pg_locks WHERE NOT granted AND locktype = 'relation'"),
      [],
    );
    // Others can prepare and maintain meanwhile.
    const second = server.another("second");
    await second.prepare(server.node.id);
    await second.maintain(server.node.id, { expireBeforeMs: serverTimeMs });
    await long.query("ROLLBACK");
    await long.end();
    const { expiredBeforeMs } = await dropping;
    assert.ok(expiredBeforeMs > serverTimeMs - RETENTION_MS && expiredBeforeMs <= serverTimeMs);
    const left = await partitions();
    assert.ok(left.length < all.length, `${String(left.length)} of ${String(all.length)} are left`);
    assert.deepEqual(await tables(), left, "what was detached is dropped");
  });
});
