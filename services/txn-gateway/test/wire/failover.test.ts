// Goal: after a failover no session stays at the old node, no held answer reports a lost commit,
// and new sessions reach the new primary. Method: cut off and promote a replica meanwhile.
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { eventually, starve, verdicts } from "@highwater/lab-system/testing";
import { ServerAnswer, query, WireClient } from "./client.ts";
import { AWAY, HOME, WireSystem } from "./system.ts";

let wire: WireSystem;
before(async () => {
  wire = await WireSystem.start();
});
after(async () => {
  await wire[Symbol.asyncDispose]();
});

it(
  "held answers and idle sessions end with 57P01 between frames; new ones reach the new primary",
  { timeout: 180_000 },
  async () => {
    const held = await wire.open();
    const fast = await wire.open();
    await fast.query("SET highwater.ack = 'commit'");
    const idle = await wire.open();
    await idle.query("SELECT 1");
    const broken = await wire.open();
    await broken.query("INSERT INTO kv VALUES ('before', 1)");
    const early = await wire.open();
    // Long enough for its position to be known by then; without that it has no token.
    await early.query("SET highwater.max_wait = 1000");
    await starve(wire.system, AWAY);
    const { token } = await early.query("INSERT INTO kv VALUES ('early', 1)");
    held.send(query("INSERT INTO kv VALUES ('held', 1)"));
    assert.match((await fast.query("INSERT INTO kv VALUES ('fast', 1)")).token ?? "", /^hw2_/);
    assert.deepEqual(held.untaken, []);
    await wire.system.cluster.kill(HOME);
    await wire.system.cluster.promote(AWAY);
    for (const client of [held, fast, idle, broken]) await client.closed();
    for (const client of [held, idle]) {
      const types = client.untaken.map(({ type }) => type).join("");
      assert.ok(types === "E" || types === "", types);
      assert.equal(client.rest.length, 0, "no part of a frame");
      if (types === "E") assert.match(client.untaken[0]?.bytes.toString() ?? "", /57P01/);
    }
    const again = await eventually("a session at the new primary", async () => {
      const client = await wire.open().catch(() => undefined);
      if (client === undefined) return undefined;
      const answer = await client
        .query("SELECT key FROM kv WHERE key IN ('held', 'fast', 'early', 'before')")
        .catch(() => undefined);
      return answer;
    });
    assert.deepEqual(again.rows, [["before"]]);
    // The gateway asks the one that it can reach first, and each of them judges for itself.
    for (const region of [HOME, AWAY]) {
      const [judged] = await verdicts(wire.system.tracker(region).url, [token ?? ""]);
      assert.deepEqual([judged?.verdict, judged?.rule], ["unknown", "R11 no receipt"], region);
    }
    // The other region's gateway notices the promotion by itself; until then it opens no session there.
    const read = await eventually("a session of the read port, at the new primary", async () => {
      const reader = await WireClient.open(wire.system.pgReadUrl(AWAY)).catch(() => undefined);
      await reader?.query(`SET highwater.after = '${token ?? ""}'`).catch(() => undefined);
      const answer = await reader?.query("SELECT key FROM kv").catch(() => undefined);
      reader?.end();
      return answer;
    });
    assert.equal(read.code, "40003");
  },
);

it("when a backend ends and the epoch goes on, a held answer is delivered when it is durable", async () => {
  const own = await WireSystem.start();
  try {
    const client = await own.open();
    const { rows } = await client.query("SELECT pg_backend_pid()");
    await own.cut();
    client.send(query("INSERT INTO kv VALUES ('kept', 1)"));
    await eventually("it has committed", async () => {
      const found = await own.system.cluster.query(HOME, "SELECT FROM kv WHERE key = 'kept'");
      return found.length === 1;
    });
    await own.system.cluster.query(HOME, `SELECT pg_terminate_backend(${String(rows[0]?.[0])})`);
    await new Promise((resolve) => setTimeout(resolve, 500));
    assert.deepEqual(client.untaken, []);
    await own.heal();
    const answer = new ServerAnswer(await client.until("Z"));
    assert.deepEqual(answer.tags, ["INSERT 0 1"]);
    await client.closed();
  } finally {
    await own[Symbol.asyncDispose]();
  }
});
