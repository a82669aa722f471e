// Goal: a cancel reaches its session at whichever gateway it arrives, and only with the whole key.
// Method: two gateways in one region and one in another, and cancels for sessions of another
// gateway than the one that gets them.
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { eventually } from "@highwater/lab-system/testing";
import { writeCancel } from "../../src/wire/startup/packet.ts";
import { query, ServerAnswer, WireClient } from "./client.ts";
import { AWAY, HOME, WireSystem } from "./system.ts";

const SECOND = `${HOME}-2`;

let wire: WireSystem;
before(async () => {
  wire = await WireSystem.start();
  await wire.system.addGateway(HOME);
});
after(() => wire[Symbol.asyncDispose]());

/** Resolves when the gateway has done all that it does about the cancel. */
async function cancel(key: Buffer, url: string): Promise<void> {
  const canceller = await WireClient.dial(url);
  canceller.send(writeCancel(key));
  await canceller.closed();
}

for (const version of [196_608, 196_610])
  it(`the wait of a commit ends by a cancel at another gateway, with its key of version ${String(version)}`, async () => {
    const client = await wire.open({ version });
    await client.query("SELECT 1");
    await wire.cut();
    client.send(query("INSERT INTO kv VALUES (gen_random_uuid()::text, 1)"));
    await wire.holding(1);
    const wrong = Buffer.from(client.key);
    wrong.writeUInt8(wrong.readUInt8(wrong.length - 1) ^ 1, wrong.length - 1);
    await cancel(wrong, wire.system.pgUrl(SECOND));
    await cancel(wrong, wire.url);
    await wire.holding(1);
    assert.deepEqual(client.untaken, []);
    await cancel(client.key, wire.system.pgUrl(SECOND));
    const released = new ServerAnswer(await client.until("Z"));
    assert.match(released.notice, /canceling wait for synchronous replication/);
    assert.deepEqual(released.tags, ["INSERT 0 1"]);
    await wire.heal();
    client.end();
    await wire.empty();
  });

it("a statement at a replica ends by a cancel at a gateway of another region, on the main port", async () => {
  const client = await WireClient.open(wire.system.pgReadUrl(AWAY));
  assert.deepEqual((await client.query("SELECT pg_is_in_recovery()")).rows, [["t"]]);
  client.send(query("SELECT pg_sleep(600)"));
  // A cancel has no effect before the statement runs.
  await eventually("the statement ends", async () => {
    await cancel(client.key, wire.url);
    return client.untaken.length > 0;
  });
  assert.equal(new ServerAnswer(await client.until("Z")).code, "57014");
  client.end();
});

it("a cancel for no session ends, and changes nothing", async () => {
  const client = await wire.open();
  const stranger = Buffer.from("0000162e5b0d9c41", "hex");
  for (const name of [HOME, SECOND, AWAY]) await cancel(stranger, wire.system.pgUrl(name));
  assert.deepEqual((await client.query("SELECT 1")).rows, [["1"]]);
  client.end();
});
