// Goal: a session that holds an id keeps no other id from being settled, and its own only for a
// bounded time. Method: sessions that have inserted receipts, of one id or of hundreds of tickets,
// and leave their transactions open.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type pg from "pg";
import { eventually } from "@highwater/lab-tools/process";
import { type EpochId, type NodeSpec } from "@highwater/protocol";
import { type ReceiptKey, type ReceiptState } from "../src/port.ts";
import { type PostgresStore } from "../src/postgres/adapter.ts";
import {
  commitOf,
  connect,
  errorOf,
  INSERT_RECEIPT,
  keyOf,
  newId,
  OneServer,
  specOf,
} from "./postgres-cluster.ts";

const MANY = 200;

let server: OneServer;
let holder: pg.Client;
let held: readonly ReceiptKey[];

before(async () => {
  server = await OneServer.start({});
  holder = await connect(server.node.url);
  held = Array.from({ length: MANY }, () => keyOf(newId()));
  await holder.query("BEGIN");
  for (const { id, tag } of held) await holder.query(INSERT_RECEIPT, [id, tag, server.epoch]);
});

after(async () => {
  await holder.end();
  await server.close();
});

async function settle(keys: readonly ReceiptKey[], patienceMs: number): Promise<ReceiptState["kind"][]> {
  const { store, node, epoch } = server;
  const { receipts } = await store.settle(node.id, { epoch, keys, tombstone: "aborted", patienceMs });
  return receipts.map(({ kind }) => kind);
}

it("ids behind hundreds that one session holds are settled in the same call, with patience or without", async () => {
  for (const patienceMs of [500, 0]) {
    const others = Array.from({ length: 20 }, () => keyOf(newId()));
    const kinds = await settle([...held, ...others], patienceMs);
    assert.deepEqual(new Set(kinds.slice(0, MANY)), new Set(["held"]));
    assert.deepEqual(new Set(kinds.slice(MANY)), new Set(["aborted"]), `patience ${String(patienceMs)}`);
  }
});

it("a call that waits for held ids delays none that does not wait, and settles them when they are free", async () => {
  let isOver = false;
  const waiting = settle(held, 600_000).finally(() => (isOver = true));
  for (let at = 0; at < 3; at++) assert.deepEqual(await settle([keyOf(newId())], 0), ["aborted"]);
  assert.equal(isOver, false);
  await holder.query("ROLLBACK");
  assert.deepEqual(new Set(await waiting), new Set(["aborted"]));
});

describe("an id that a session holds", () => {
  let node: NodeSpec;
  let store: PostgresStore;
  let epoch: EpochId;
  let sql: OneServer["sql"];
  let another: OneServer["another"];

  before(() => {
    ({ node, store, epoch, sql, another } = server);
  });

  /** A session of a gateway that is gone; the server has not noticed. */
  async function orphanOf(key: ReceiptKey): Promise<{ readonly ended: Promise<void> }> {
    const orphan = await connect(node.url);
    await orphan.query("BEGIN ISOLATION LEVEL READ COMMITTED");
    await orphan.query(INSERT_RECEIPT, [key.id, key.tag, epoch]);
    return { ended: new Promise<void>((resolve) => orphan.once("end", resolve)) };
  }

  it("is settled when the time of all gateways is over, and its orphaned session with it", async () => {
    const key = keyOf(newId());
    const { ended } = await orphanOf(key);
    const settle = { epoch, tombstone: "aborted" } as const;
    const keys = [keyOf(newId()), key, keyOf(newId())];
    const states = async (by = store, patienceMs = 100): Promise<unknown[]> => {
      const { receipts } = await by.settle(node.id, { ...settle, keys, patienceMs });
      return receipts.map(({ kind }) => kind);
    };
    // No gateway has said how long its transactions may take, so this one may take any time.
    assert.deepEqual(await states(), ["aborted", "held", "aborted"]);
    commitOf(await another("long").execute(node.id, specOf(epoch, ["SELECT 1"], { limitMs: 600_000 })));
    commitOf(await another("short").execute(node.id, specOf(epoch, ["SELECT 1"], { limitMs: 1 })));
    assert.deepEqual(await states(), ["aborted", "held", "aborted"], "the longest counts");
    await sql("UPDATE highwater.transaction_limit SET limit_ms = 1");
    // Two that settle wait for the same orphan; neither may take the other for the culprit. An orphan's end takes a while.
    const both = await Promise.all([states(store, 10_000), states(another("settler"), 10_000)]);
    for (const each of both) assert.deepEqual(each, ["aborted", "aborted", "aborted"]);
    await ended;
    await sql("DELETE FROM highwater.transaction_limit");
  });

  it("is also blocked by a lock on the table, and no service may end that session", async () => {
    const [key, operator] = [keyOf(newId()), await connect(node.url)];
    await sql("INSERT INTO highwater.transaction_limit VALUES ($1, 'short', 1)", [newId()]);
    await operator.query("BEGIN");
    await operator.query("LOCK TABLE highwater.receipt IN SHARE MODE");
    const settle = { epoch, keys: [key], tombstone: "aborted", patienceMs: 100 } as const;
    assert.equal((await store.settle(node.id, settle)).receipts[0]?.kind, "held");
    await operator.query("ROLLBACK");
    await operator.end();
    assert.equal((await store.settle(node.id, settle)).receipts[0]?.kind, "aborted");
    await sql("DELETE FROM highwater.transaction_limit");
  });

  it("waits for a transaction that ends in time", async () => {
    const slow = await connect(node.url);
    const key = keyOf(newId());
    await slow.query("BEGIN ISOLATION LEVEL READ COMMITTED");
    await slow.query(INSERT_RECEIPT, [key.id, key.tag, epoch]);
    const settling = store.settle(node.id, { epoch, keys: [key], tombstone: "lost", patienceMs: 10_000 });
    await eventually(
      "it waits",
      async () => (await sql("SELECT FROM pg_locks WHERE NOT granted")).length > 0,
    );
    await slow.query("COMMIT");
    await slow.end();
    assert.equal((await settling).receipts[0]?.kind, "commit");
  });

  it("is in progress to those who would run it", async () => {
    const holder = await connect(node.url);
    const key = keyOf(newId());
    await holder.query("BEGIN ISOLATION LEVEL READ COMMITTED");
    await holder.query(INSERT_RECEIPT, [key.id, key.tag, epoch]);
    const hurried = another("hurried", { statementTimeoutMs: 1_000 });
    const error = await errorOf(hurried.execute(node.id, specOf(epoch, ["SELECT 1"], { id: key.id })));
    assert.deepEqual([error.code, error.outcome], ["transaction_in_progress", "unknown"]);
    await holder.query("ROLLBACK");
    await holder.end();
    commitOf(await store.execute(node.id, specOf(epoch, ["SELECT 1"], { id: key.id })));
  });
});
