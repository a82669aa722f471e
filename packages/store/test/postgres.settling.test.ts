// Goal: those who hold ids keep no other from being settled. Method: a session that has inserted the receipts of hundreds of
// tickets, and leaves its transaction open.
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import type pg from "pg";
import { type ReceiptKey, type ReceiptState } from "../src/port.ts";
import { connect, INSERT_RECEIPT, keyOf, newId, OneServer } from "./postgres-cluster.ts";

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
