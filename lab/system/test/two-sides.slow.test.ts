// Goal: trackers do not report a transaction as lost while an operator's decision can still keep
// it. All report it once it is certainly gone, even if no survivor has seen its epoch. Method: the
// whole product in three regions, one system for all tests. Two replicas are promoted on two sides
// of a cut, and an operator keeps one; then a region begins an epoch behind a cut and is lost with
// it.
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { decodeToken, NO_ID } from "@highwater/protocol";
import { testToken } from "@highwater/service/testing";
import { System } from "../src/index.ts";
import {
  commit,
  createTable,
  epochAfter,
  epochOf,
  eventually,
  keysOn,
  newId,
  put,
  send,
  starve,
  stateOf,
  verdict,
} from "../src/testing.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
const LEVELS = ["disk", "region", "global"] as const;
const PATIENCE_MS = 300;

let system: System;

before(async () => {
  // Weaker levels are used soon.
  system = await System.start({ env: { TRACKER_PUBLISH_PATIENCE_MS: String(PATIENCE_MS) } });
  await createTable(system, EAST);
  await commit(system.gateway(EAST).url, [put("counter", 0)], { ack: "durable", level: "global" });
});

after(() => system.close());

async function metric(url: string, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const line = text.split("\n").find((each) => each.startsWith(`${name}{`) || each.startsWith(`${name} `));
  assert.ok(line !== undefined, `there is no ${name}`);
  return Number(line.slice(line.lastIndexOf(" ")));
}

it("a loss on one side of a cut is not published while the other side may be kept, and nothing runs twice", async () => {
  const { cluster } = system;
  const [gateway, tracker] = [system.gateway(EUROPE).url, system.tracker(EUROPE).url];
  const before = await epochOf(tracker);
  await starve(system, EUROPE);
  const id = newId();
  const increment = [{ sql: "UPDATE kv SET value = value + 1 WHERE key = 'counter'" }];
  // It waits for the node that gets nothing, so it still waits behind the cut.
  const waiting = send(gateway, increment, { id, ack: "durable", level: "global", maxWaitMs: 60_000 });
  const { token = "" } = await eventually("the increment has its position", async () => {
    const { body } = await stateOf(gateway, id);
    return body.state === "durable" ? body : undefined;
  });
  await cluster.isolate(EUROPE);
  await system.killRegion(EAST);
  for (const side of [WEST, EUROPE]) await cluster.promote(side, { command: false, repoint: false });
  for (const side of [WEST, EUROPE]) await epochAfter(system.tracker(side).url, before);

  await eventually("the side that lacks it has settled it, and the patience is over", async () => {
    const sql = "SELECT kind FROM highwater.receipt WHERE id = $1";
    const [receipt] = await cluster.query(EUROPE, sql, [id]);
    const oldestS = await metric(tracker, "highwater_waiting_losses_oldest_seconds");
    return (receipt?.["kind"] === "lost" && oldestS > (2 * PATIENCE_MS) / 1_000) || undefined;
  });
  for (const level of LEVELS) {
    const { verdict: judged } = await verdict(tracker, token, { level, waitMs: 0 });
    assert.ok(judged === "pending" || (level === "disk" && judged === "durable"), `${level}: ${judged}`);
  }
  assert.equal((await stateOf(gateway, id)).body.state, "active");
  const again = await send(gateway, increment, { id });
  assert.deepEqual([again.status, again.body.code], [503, "commit_unconfirmed"]);
  assert.equal(again.body.retry, "resolve_outcome");

  await cluster.healAll();
  await cluster.authorize(WEST, "it has more");
  await cluster.rejoin(EUROPE);
  const first = await waiting;
  assert.ok([200, 202].includes(first.status), JSON.stringify(first.body));
  for (const side of [WEST, EUROPE])
    assert.equal((await verdict(system.tracker(side).url, token)).verdict, "durable", side);
  const repeated = await commit(gateway, increment, { id });
  assert.equal(repeated.replayed, true);
  const [row] = await cluster.query(WEST, "SELECT value FROM kv WHERE key = 'counter'");
  assert.equal(row?.["value"], 1);
});

it("what committed in an epoch that no survivor has seen is lost by its token alone, and unknown by its position", async () => {
  const { cluster } = system;
  await system.reviveRegion(EAST);
  await system.ready();
  const known = await epochOf(system.tracker(EUROPE).url);
  await cluster.isolate(WEST);
  await cluster.crashBackend(WEST);
  const unseen = (await epochAfter(system.tracker(WEST).url, known)).marks?.epoch;
  const gateway = system.gateway(WEST).url;
  const select = [{ sql: "SELECT key FROM kv" }];
  // A COMMIT that breaks in the crash stays unconfirmed behind the cut, so each try has an id of its own.
  await eventually("the gateway executes in the new epoch", async () => {
    const { body } = await send(gateway, select, { readOnly: true });
    return (body as Partial<typeof body>).position?.epoch === unseen;
  });
  const write = await commit(gateway, [put("unseen")]);
  const read = await commit(gateway, select, { readOnly: true });
  assert.equal(write.position.epoch, unseen);
  const { parent, owner } = decodeToken(write.token) ?? {};
  assert.ok(parent !== undefined && owner !== undefined);
  const place = { epoch: write.position.epoch, offset: BigInt(write.position.offset) };
  /** Like the token of a wire commit whose answer went out early. */
  const early = testToken({ kind: "position", id: NO_ID, parent, owner, ...place });
  assert.equal((await verdict(system.tracker(WEST).url, write.token, { level: "disk" })).verdict, "durable");
  await system.killRegion(WEST);
  await cluster.healAll();
  await cluster.promote(EAST, { command: false });
  for (const region of [EAST, EUROPE]) await epochAfter(system.tracker(region).url, known);
  assert.ok(!(await keysOn(system, EAST)).has("unseen"));

  for (const region of [EAST, EUROPE])
    for (const token of [write.token, early]) {
      const after = { after: token, readOnly: true, isolation: "read committed" } as const;
      const found = await commit(system.gateway(region).url, select, after);
      assert.ok(!JSON.stringify(found.results).includes("unseen"), region);
    }
  for (const region of [EAST, EUROPE])
    for (const token of [write.token, read.token, early])
      for (const level of LEVELS) {
        const found = await verdict(system.tracker(region).url, token, { level });
        const wanted = token === early ? "unknown" : "lost";
        assert.equal(found.verdict, wanted, `${region}, ${level}: ${JSON.stringify(found)}`);
      }
  for (const region of [EAST, EUROPE]) {
    const url = system.gateway(region).url;
    assert.equal((await stateOf(url, write.id)).body.state, "lost", region);
    assert.equal((await send(url, [put("unseen")], { id: write.id })).body.code, "transaction_lost", region);
  }
});

it("the tracker that alone has seen an epoch waits when its region is back, until a command overrules that epoch", async () => {
  const { cluster } = system;
  const known = await epochOf(system.tracker(EAST).url);
  await system.reviveRegion(WEST);
  const unseen = await eventually("the tracker says which epoch it waits for", async () => {
    const answer = await (await fetch(`${system.tracker(WEST).url}/readyz`)).text();
    return /every writable node that answers is behind: none has epoch (\S+) in its history/.exec(
      answer,
    )?.[1];
  });
  await cluster.authorize(EAST, "that epoch is given up", { overrules: [unseen] });
  for (const region of [EAST, EUROPE, WEST]) await epochAfter(system.tracker(region).url, known);
  await system.ready();
  const { token } = await commit(system.gateway(WEST).url, [put("afterwards")], { ack: "durable" });
  for (const region of [EAST, EUROPE, WEST])
    assert.equal((await verdict(system.tracker(region).url, token)).verdict, "durable", region);
});
