// Goal: a read with `reads: durable` never shows what a failure takes back, and in a session never
// goes back itself. Method: the whole product over three regions; the test cuts links so that a
// replica is ahead of the mark, loses a region, and crashes a replica that then applies its log
// late. A read without the option shows in each case what the durable one must not.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Problem, TransactionRequest, TransactionResponse } from "@highwater/protocol";
import { System } from "../src/index.ts";
import { commit, createTable, eventually, newId, post, put } from "../src/testing.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;

async function ask(
  url: string,
  request: Partial<TransactionRequest>,
): Promise<{ status: number; body: Partial<TransactionResponse & Problem>; keys: string[] }> {
  const { status, body } = await post<Partial<TransactionResponse & Problem>>(`${url}/v1/transactions`, {
    id: newId(),
    readOnly: true,
    statements: [{ sql: "SELECT key FROM kv ORDER BY key" }],
    ...request,
  });
  return { status, body, keys: (body.results?.[0]?.rows ?? []).map(([key]) => key ?? "") };
}

const DURABLE = { reads: "durable", level: "global", maxWaitMs: 30_000 } as const;

test("a replica that is ahead of the mark serves no durable read until the mark has caught up", async () => {
  await using system = await System.start();
  const { cluster } = system;
  await createTable(system, EAST);
  const west = system.gateway(WEST).url;
  await commit(system.gateway(EAST).url, [put("old")], { ack: "durable", level: "global" });
  const calm = await eventually("the replica serves a durable read", async () => {
    const answer = await ask(west, DURABLE);
    return answer.body.served?.role === "replica" && answer;
  });
  assert.deepEqual([calm.status, calm.body.state, calm.keys], [200, "durable", ["old"]]);
  const age = calm.body.served?.ageMs;
  assert.ok(typeof age === "number" && age >= 0, `ageMs: ${String(age)}`);

  await cluster.isolate(EUROPE);
  await commit(system.gateway(EAST).url, [put("new")]);
  await eventually("the replica shows it to a committed read", async () => {
    const answer = await ask(west, { mode: "local" });
    return answer.body.served?.role === "replica" && answer.keys.includes("new");
  });
  const refused = await ask(west, { ...DURABLE, maxWaitMs: 300 });
  assert.deepEqual([refused.status, refused.body.code, refused.keys], [503, "read_unconfirmed", []]);
  // The primary is no way around it.
  const east = await ask(system.gateway(EAST).url, { ...DURABLE, maxWaitMs: 300 });
  assert.deepEqual([east.status, east.body.code], [503, "read_unconfirmed"]);
  // It is durable in two regions, so a reader at that level gets it.
  const regional = await ask(west, { ...DURABLE, level: "region" });
  assert.deepEqual([regional.status, regional.keys], [200, ["new", "old"]]);

  const waiting = ask(west, DURABLE);
  await cluster.healAll();
  const served = await waiting;
  assert.deepEqual([served.status, served.body.state, served.keys], [200, "durable", ["new", "old"]]);
});

test("the loss of a region shows no lost row to durable readers", async () => {
  await using system = await System.start();
  const { cluster } = system;
  await createTable(system, EAST);
  await commit(system.gateway(EAST).url, [put("kept")], { ack: "durable", level: "global" });
  const before = await ask(system.gateway(WEST).url, { ...DURABLE, level: "region" });
  assert.deepEqual(before.keys, ["kept"]);

  await cluster.isolate(EAST);
  await commit(system.gateway(EAST).url, [put("doomed")]);
  const fast = await ask(system.gateway(EAST).url, { mode: "local" });
  assert.deepEqual(fast.keys, ["doomed", "kept"], "a committed read shows what is lost soon");
  const refused = await ask(system.gateway(EAST).url, { ...DURABLE, level: "region", maxWaitMs: 500 });
  assert.deepEqual([refused.status, refused.keys], [503, []]);
  // This one still waits when the region is lost.
  const waiting = ask(system.gateway(EAST).url, { ...DURABLE, level: "region" }).catch(() => null);

  await system.killRegion(EAST);
  await cluster.promote(await cluster.mostAdvancedReplica());
  const ended = await waiting;
  assert.deepEqual(ended?.keys ?? [], []);
  for (const region of [WEST, EUROPE]) {
    const answer = await eventually(`${region} serves durable reads again`, async () => {
      const next = await ask(system.gateway(region).url, {
        ...DURABLE,
        level: "region",
        after: before.body.token ?? "",
      });
      return next.status === 200 && next;
    });
    assert.deepEqual(answer.keys, ["kept"], region);
  }
});

test("a replica that goes back after a crash serves nothing below the floor", async () => {
  await using system = await System.start();
  const { cluster } = system;
  await createTable(system, EAST);
  const west = system.gateway(WEST).url;
  await commit(system.gateway(EAST).url, [put("first")], { ack: "durable", level: "global" });
  // Restarted, the replica begins here.
  await cluster.query(EAST, "CHECKPOINT");
  await eventually("the replica has taken a restart point there", async () => {
    await cluster.query(WEST, "CHECKPOINT");
    const [row] = await cluster.query(
      WEST,
      "SELECT redo_lsn > '0/0' AND pg_last_wal_replay_lsn() - redo_lsn < 1000000 AS near FROM pg_control_checkpoint()",
    );
    return row?.["near"] === true;
  });
  await commit(system.gateway(EAST).url, [put("second")], { ack: "durable", level: "global" });
  const floor = await eventually("the replica serves both", async () => {
    const answer = await ask(west, DURABLE);
    return answer.body.served?.role === "replica" && answer.keys.length === 2 && answer;
  });

  // It comes back as it was at the restart point, and applies later commits in an hour.
  await cluster.query(WEST, "ALTER SYSTEM SET recovery_min_apply_delay = '1h'");
  await cluster.stop(WEST, "immediate");
  await cluster.start(WEST);
  await eventually("the replica has gone back", async () => {
    const rows = await cluster.query(WEST, "SELECT key FROM kv").catch(() => []);
    return rows.length === 1 && rows[0]?.["key"] === "first";
  });
  const next = await eventually("a durable reader with the floor is served", async () => {
    const answer = await ask(west, { ...DURABLE, level: "region", after: floor.body.token ?? "" });
    return answer.status === 200 && answer;
  });
  assert.deepEqual([next.body.served?.role, next.keys], ["primary", ["first", "second"]]);

  // Once it has caught up and receives the log again, it stays behind in the same way: then it may
  // serve, and only the floor keeps a reader from going back.
  const applyLate = async (setting: string): Promise<void> => {
    await cluster.query(WEST, `ALTER SYSTEM SET recovery_min_apply_delay = '${setting}'`);
    await cluster.query(WEST, "SELECT pg_reload_conf()");
  };
  await applyLate("0");
  await eventually("the replica serves both again", async () => {
    const answer = await ask(west, DURABLE);
    return answer.body.served?.role === "replica" && answer.keys.length === 2;
  });
  await applyLate("1h");
  await commit(system.gateway(EAST).url, [put("third")], { ack: "durable", level: "global" });
  const newest = await ask(system.gateway(EAST).url, DURABLE);
  assert.deepEqual(newest.keys, ["first", "second", "third"]);
  const late = await eventually("the replica serves a reader without a floor", async () => {
    const answer = await ask(west, DURABLE);
    return answer.body.served?.role === "replica" && answer;
  });
  assert.deepEqual(late.keys, ["first", "second"]);
  const floored = await ask(west, { ...DURABLE, after: newest.body.token ?? "" });
  assert.deepEqual([floored.body.served?.role, floored.keys], ["primary", ["first", "second", "third"]]);
});
