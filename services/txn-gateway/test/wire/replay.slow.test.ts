// Goal: an answer that a replica cannot send does not stop its replay. Method: one client of the
// read port reads nothing of a large result, and a cut link keeps another large result held; the
// primary then cleans rows that the first one's snapshot can still see.
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { eventually } from "@highwater/lab-system/testing";
import { query, ServerAnswer, WireClient } from "./client.ts";
import { AWAY, HOME, WireSystem } from "./system.ts";

const LARGE = "SELECT repeat('x', 100000) FROM generate_series(1, 2000)";
/** Longer than the limit of such sessions, and shorter than every other one. */
const PATIENCE_MS = 100_000;

let wire: WireSystem;
before(async () => {
  wire = await WireSystem.start();
});
after(async () => {
  await wire[Symbol.asyncDispose]();
});

it("a client that stops reading stops the replay no longer than PostgreSQL lets a query", async () => {
  const writer = await wire.open();
  await writer.query("SET highwater.ack = 'commit'");
  await writer.query("INSERT INTO kv SELECT n::text, n FROM generate_series(1, 1000) AS n");
  const away = wire.system.pgReadUrl(AWAY);
  const unread = await WireClient.open(away, { parameters: { application_name: "unread" } });
  unread.socket.pause();
  unread.send(query(LARGE));
  await eventually("the replica cannot send", async () => {
    const sql =
      "SELECT FROM pg_stat_activity WHERE application_name = 'unread' AND wait_event = 'ClientWrite'";
    return (await wire.system.cluster.query(AWAY, sql)).length === 1;
  });
  await writer.query("DELETE FROM kv");
  await wire.system.cluster.query(HOME, "VACUUM kv");
  const { token = "" } = await writer.query("INSERT INTO kv VALUES ('after the vacuum', 1)");
  const reader = await WireClient.open(away);
  await reader.query(`SET highwater.max_wait = ${String(PATIENCE_MS)}`);
  await reader.query(`SET highwater.after = '${token}'`);
  reader.send(query("SELECT key FROM kv"));
  await reader.next(PATIENCE_MS);
  assert.deepEqual(new ServerAnswer(await reader.until("Z")).rows, [["after the vacuum"]]);
  unread.socket.destroy();
  reader.end();
  writer.end();
});

it("a large answer that is held ends with its session", async () => {
  const held = await WireClient.open(wire.system.pgReadUrl(AWAY));
  await held.query("SET highwater.read_ack = 'durable'");
  await wire.system.cluster.link(HOME, AWAY).cut();
  held.send(query(LARGE));
  await held.until("T");
  const error = await held.next(PATIENCE_MS);
  assert.match(error.bytes.toString(), /57P01/);
  await held.closed();
  await wire.heal();
});
