// Goal: with `highwater.reads = durable` a session never gets what a failure takes back, and with
// its floor the next one never goes back. Method: two regions whose link is cut; then the replica
// crashes and applies its log late; at last the primary's region is lost. A session without the
// setting shows in each case what the other must not.
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { eventually } from "@highwater/lab-system/testing";
import { bind, execute, parse, query, ServerAnswer, SYNC, WireClient } from "./client.ts";
import { AWAY, HOME, WireSystem } from "./system.ts";

let wire: WireSystem;
before(async () => {
  wire = await WireSystem.start();
});
after(async () => {
  await wire[Symbol.asyncDispose]();
});

const KEYS = "SELECT key FROM kv WHERE value > 0 ORDER BY key";
const keysIn = ({ rows }: ServerAnswer): (string | null)[] => rows.map(([key = null]) => key);

async function reader(region: string, floor = "", url = wire.system.pgReadUrl(region)): Promise<WireClient> {
  const options = [
    "-c highwater.reads=durable",
    "-c highwater.max_wait=400ms",
    ...(floor === "" ? [] : [`-c highwater.after=${floor}`]),
  ];
  return WireClient.open(url, { parameters: { options: options.join(" ") } });
}

/** By a session that waits for durability, or for nothing. */
async function commit(key: string, ack: "durable" | "commit"): Promise<void> {
  const client = await wire.open();
  await client.query(`SET highwater.ack = ${ack}`);
  assert.equal((await client.query(`INSERT INTO kv VALUES ('${key}', 1)`)).code, "");
  client.end();
}

it("says how old its answer is, and what the next session must not fall behind", async () => {
  await commit("kept", "durable");
  for (const region of [AWAY, HOME]) {
    const client = await reader(region);
    for (const how of ["query", "extended"] as const) {
      const answer = await eventually(`${region} shows it`, async () => {
        const next = await client[how](KEYS);
        return next.rows.length === 1 && next;
      });
      assert.match(answer.parameter("highwater.floor") ?? "", /^hw2_/);
      const age = answer.parameter("highwater.age_ms") ?? "";
      assert.match(age, /^\d+$/);
      assert.ok(Number(age) < 30_000, age);
    }
    client.end();
  }
});

it("what may still be lost is refused, in the place of its rows", async () => {
  const session = await reader(HOME, "", wire.url);
  await wire.cut();
  await commit("doomed", "commit");
  const usual = await wire.open();
  assert.deepEqual(keysIn(await usual.query(KEYS)), ["doomed", "kept"]);
  usual.end();
  for (const how of ["query", "extended"] as const) {
    const refused = await session[how](KEYS);
    assert.deepEqual([refused.code, refused.status, refused.rows], ["57014", "I", []], how);
  }
  // An error may show a row, too.
  const division = await session.query("SELECT 1 / (count(*) - 2) FROM kv WHERE value > 0");
  assert.deepEqual([division.code, division.status], ["57014", "I"]);
  // In a pipeline, or in a block, only the end of the session can take the place of rows.
  const one = [parse("", KEYS), bind("", ""), execute(""), SYNC];
  const piped = await reader(HOME, "", wire.url);
  piped.send(...one, ...one);
  const block = await reader(HOME, "", wire.url);
  await block.query("BEGIN READ ONLY");
  block.send(query(KEYS));
  for (const client of [piped, block]) {
    await client.closed();
    const rest = new ServerAnswer(client.untaken);
    assert.deepEqual([rest.code, rest.rows], ["57014", []]);
  }
  await wire.heal();
  const answer = await eventually("it is durable", async () => {
    const next = await session.query(KEYS);
    return next.code === "" && next;
  });
  assert.deepEqual(keysIn(answer), ["doomed", "kept"]);
  session.end();
});

it("a transaction that writes is refused by name, and reads = wait only waits", async () => {
  const client = await reader(HOME, "", wire.url);
  for (const how of ["query", "extended"] as const) {
    const refused = await client[how]("INSERT INTO kv VALUES ('refused', 0)");
    assert.deepEqual([refused.code, refused.status], ["25006", "I"]);
    assert.match(refused.error, /highwater\.reads/);
  }
  await client.query("BEGIN");
  await client.query("SET LOCAL highwater.reads = 'wait'");
  assert.equal((await client.query("INSERT INTO kv VALUES ('mixed', 0)")).code, "");
  await client.query("SET LOCAL highwater.reads = 'durable'");
  assert.equal((await client.query(KEYS)).code, "25006");
  await client.query("ROLLBACK");
  const wrong = await client.query("SET highwater.reads = 'sometimes'");
  const next = await client.query("SELECT 1");
  assert.match(wrong.notice + next.notice, /must be committed, wait or durable/);
  await client.query("SET highwater.reads = 'wait'");
  assert.equal((await client.query("INSERT INTO kv VALUES ('waits', 0)")).code, "");
  client.end();
});

it("a session with a floor does not go back to a replica that has gone back", async () => {
  const { cluster } = wire.system;
  await cluster.query(HOME, "CHECKPOINT");
  await eventually("the replica has taken a restart point", async () => {
    await cluster.query(AWAY, "CHECKPOINT");
    const sql = "SELECT pg_last_wal_replay_lsn() - redo_lsn < 1000000 AS near FROM pg_control_checkpoint()";
    return (await cluster.query(AWAY, sql))[0]?.["near"] === true;
  });
  await commit("later", "durable");
  const session = await reader(AWAY);
  const shown = await eventually("the replica shows it", async () => {
    const answer = await session.query(KEYS);
    return keysIn(answer).includes("later") && answer;
  });
  const floor = shown.parameter("highwater.floor") ?? "";
  const applyLate = async (time: string): Promise<void> => {
    await cluster.query(AWAY, `ALTER SYSTEM SET recovery_min_apply_delay = '${time}'`);
    await cluster.query(AWAY, "SELECT pg_reload_conf()");
  };
  await applyLate("1h");
  await cluster.stop(AWAY, "immediate");
  await session.closed();
  await cluster.start(AWAY);
  await eventually("the replica has gone back", async () => {
    const rows = await cluster.query(AWAY, "SELECT FROM kv WHERE key = 'later'").catch(() => null);
    return rows?.length === 0;
  });
  // Nothing becomes durable while the only replica receives nothing, so most are refused.
  for (let turn = 0; turn < 5; turn++) {
    const client = await reader(AWAY, floor).catch(() => null);
    const answer = await client?.query(KEYS).catch(() => null);
    client?.end();
    if (answer?.code === "") assert.ok(keysIn(answer).includes("later"), "it has gone back");
  }

  // It receives the log again, and stays behind: now it may serve, and only the floor helps.
  await applyLate("0");
  const isAway = async (): Promise<boolean> => {
    const client = await WireClient.open(wire.system.pgReadUrl(AWAY)).catch(() => null);
    const answer = await client?.query("SELECT pg_is_in_recovery()").catch(() => null);
    client?.end();
    return answer?.rows[0]?.[0] === "t";
  };
  await eventually("the replica serves again", isAway);
  await applyLate("1h");
  await commit("newest", "durable");
  const near = await reader(HOME);
  const newest = await eventually("the primary shows it", async () => {
    const answer = await near.query(KEYS);
    return keysIn(answer).includes("newest") && answer;
  });
  near.end();
  const usual = await reader(AWAY);
  const behind = await eventually("the replica serves a session without a floor", async () => {
    const answer = await usual.query(KEYS);
    return answer.code === "" && answer;
  });
  assert.ok(!keysIn(behind).includes("newest"), "it has gone back");
  usual.end();
  const floored = await reader(AWAY, newest.parameter("highwater.floor") ?? "");
  const refused = await floored.query(KEYS);
  assert.deepEqual([refused.code, refused.rows], ["57014", []]);
  await applyLate("0");
  const late = await eventually("the replica has caught up", async () => {
    const answer = await floored.query(KEYS);
    return answer.code === "" && answer;
  });
  assert.deepEqual(keysIn(late), keysIn(newest));
  floored.end();
});

it("the loss of the primary's region takes back nothing that was shown", { timeout: 180_000 }, async () => {
  const session = await reader(HOME, "", wire.url);
  const before = await eventually("a floor", async () => {
    const answer = await session.query(KEYS);
    return answer.code === "" && answer;
  });
  await wire.cut();
  await commit("lost", "commit");
  const usual = await wire.open();
  assert.ok(keysIn(await usual.query(KEYS)).includes("lost"), "a session without the setting shows it");
  await session.query("SET highwater.max_wait = 0");
  session.send(query(KEYS));
  await wire.holding(1);
  await wire.system.cluster.kill(HOME);
  await wire.system.cluster.promote(AWAY);
  // The gateway beside the old primary learns of the new one.
  await wire.heal();
  await session.closed();
  assert.ok(!session.untaken.some(({ type }) => type === "D"), "what was held is dropped");
  const after = await eventually("the new primary serves the floor", async () => {
    const client = await reader(AWAY, before.parameter("highwater.floor") ?? "").catch(() => null);
    // No other region is left for a stronger level.
    await client?.query("SET highwater.level = 'disk'").catch(() => null);
    const answer = await client?.query(KEYS).catch(() => null);
    client?.end();
    return answer?.code === "" && answer;
  });
  assert.deepEqual(keysIn(after), keysIn(before));
});
