// Goal: a gateway that shuts down ends each session after its current transaction, and not before
// the client has the whole answer. Method: sessions that are idle, in a block, and in a statement
// that ends when the test lets it, while the gateway drains.
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { eventually } from "@highwater/lab-system/testing";
import { type Frame, query, ServerAnswer, type WireClient } from "./client.ts";
import { HOME, WireSystem } from "./system.ts";

const STOP_LIMIT_MS = 60_000;

let wire: WireSystem;
before(async () => {
  wire = await WireSystem.start();
});
after(() => wire[Symbol.asyncDispose]());

/** The frames up to the connection's end. */
async function rest(client: WireClient): Promise<readonly Frame[]> {
  await client.closed();
  return client.untaken;
}

it("a session that ends has sent the whole answer of its last transaction", async () => {
  const lock = "pg_advisory_lock(1)";
  const holder = await wire.direct();
  await holder.query(`SELECT ${lock}`);
  const [idle, block, running] = await Promise.all([1, 2, 3].map(() => wire.open()));
  assert.ok(idle !== undefined && block !== undefined && running !== undefined);
  await block.query("BEGIN");
  running.send(query(`SELECT 'done' FROM ${lock}`));
  await eventually("the statement runs", async () => {
    const { rows } = await holder.query("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'advisory'");
    return rows.length === 1;
  });
  const gateway = wire.system.gateway(HOME);
  const stopped = gateway.stop(STOP_LIMIT_MS);
  const isDraining = async (): Promise<boolean> => (await fetch(`${gateway.url}/readyz`)).status === 503;
  await eventually("the gateway drains", isDraining);
  assert.equal(new ServerAnswer(await rest(idle)).code, "57P01");
  block.send(query("COMMIT"));
  const ended = new ServerAnswer(await rest(block));
  assert.deepEqual([ended.types, ended.tags, ended.code], ["CZE", ["COMMIT"], "57P01"]);
  holder.end();
  const answered = new ServerAnswer(await rest(running));
  assert.deepEqual([answered.types, answered.rows, answered.code], ["TDCZE", [["done"]], "57P01"]);
  await stopped;
});
