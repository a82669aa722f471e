// Goal: in commit mode a transaction that begins to write while too much is not durable is refused, and its block fails at the server as
// well; safe sessions and transactions that have begun to write go on. Method: a low limit, and a link that is cut.
import assert from "node:assert/strict";
import { it } from "node:test";
import { eventually } from "@highwater/lab-system/testing";
import { ServerAnswer, bind, execute, parse, query, SYNC } from "./client.ts";
import { WireSystem } from "./system.ts";

const LIMIT = 2;

it("at the limit of exposure a fast transaction's first write fails with 53400", async () => {
  await using wire = await WireSystem.start({ GATEWAY_EXPOSURE_TRANSACTIONS: String(LIMIT) });
  const client = await wire.open();
  const begun = await wire.open();
  const named = await wire.open();
  for (const fast of [client, begun, named]) await fast.query("SET highwater.ack = 'commit'");
  named.send(parse("insert", "INSERT INTO kv VALUES ($1, 1)"), SYNC);
  await named.until("Z");
  await begun.query("BEGIN");
  await begun.query("INSERT INTO kv VALUES ('begun', 1)");
  await wire.cut();
  for (let at = 0; at < LIMIT; at++)
    assert.match(
      (await client.query(`INSERT INTO kv VALUES ('full ${String(at)}', 1)`)).token ?? "",
      /^hw2_/,
    );

  for (const answer of [
    await client.query("INSERT INTO kv VALUES ('refused', 1)"),
    await client.extended("INSERT INTO kv VALUES ('refused', 1)"),
  ]) {
    assert.deepEqual([answer.code, answer.status, answer.tags], ["53400", "I", []]);
    assert.match(answer.error, /not yet durable/);
  }
  named.send(bind("", "insert", ["refused"]), execute(""), SYNC);
  assert.equal(new ServerAnswer(await named.until("Z")).code, "53400");
  assert.deepEqual((await client.query("SELECT 1")).rows, [["1"]]);

  for (const how of ["query", "extended"] as const) {
    await client[how]("BEGIN");
    assert.deepEqual((await client[how]("SELECT 1")).rows, [["1"]]);
    const refused = await client[how]("INSERT INTO kv VALUES ('refused', 1)");
    assert.deepEqual([refused.code, refused.status], ["53400", "E"]);
    assert.equal((await client[how]("SELECT 1")).code, "25P02");
    assert.deepEqual((await client[how]("COMMIT")).tags, ["ROLLBACK"]);
  }

  // What has begun to write is not refused, and a safe one only waits.
  assert.equal((await begun.query("INSERT INTO kv VALUES ('begun too', 1)")).code, "");
  begun.send(query("COMMIT"));
  const safe = await wire.open();
  safe.send(query("INSERT INTO kv VALUES ('safe', 1)"));
  await wire.heal();
  for (const waiting of [begun, safe]) assert.equal(new ServerAnswer(await waiting.until("Z")).status, "I");
  await eventually("there is room again", async () => {
    const answer = await client.query("INSERT INTO kv VALUES (gen_random_uuid()::text, 1)");
    return answer.code === "";
  });
  assert.deepEqual((await client.query("SELECT key FROM kv WHERE key = 'refused'")).rows, []);
});
