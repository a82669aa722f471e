// Goal: a replay keeps its promise where others act at the same time: the client of a lost
// transaction sends it again, transactions belong to several login roles, and a second failover
// loses the replays themselves.
// Method: the whole product as real processes, with API keys. The tests share one system and run in
// order.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, it } from "node:test";
import type { LostList, ReplayReport, TransactionResponse } from "@highwater/protocol";
import { APP_ROLE, System } from "../src/index.ts";
import { eventually, KEEPING, newId, post, putAhead, starve } from "../src/testing.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
const OTHER_ROLE = "app_alice_second";
const SQL = "INSERT INTO note (id, body) VALUES ($1, $2) RETURNING id, body, who";
const LOST = 12;

describe("a replay", () => {
  let system: System;
  let [first, second, operator] = ["", "", ""];
  const ids: string[] = [];

  const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
  const insert = (region: string, id: string, key: string, options: object = {}) =>
    post<TransactionResponse>(
      `${system.gateway(region).url}/v1/transactions`,
      { id, statements: [{ sql: SQL, params: [id, "lost"] }], keep: true, ...options },
      bearer(key),
    );
  const rows = (sql: string, node: string = WEST) => system.cluster.query(node, sql);

  async function replay(region: string, asked?: readonly string[]): Promise<ReplayReport> {
    const { status, body } = await post<ReplayReport>(
      `${system.gateway(region).url}/v1/lost/replay`,
      { dryRun: false, independent: "rows", ...(asked !== undefined && { ids: asked }) },
      bearer(operator),
    );
    assert.equal(status, 200, JSON.stringify(body));
    assert.equal(body.lostWrites, body.replayed + body.conflicts + body.unrecoverable);
    return body;
  }

  async function listed(region: string): Promise<readonly string[]> {
    const url = `${system.tracker(region).url}/v1/lost?limit=1000`;
    const response = await fetch(url, { headers: bearer(operator) });
    return ((await response.json()) as LostList).lost.map(({ id }) => id);
  }

  const holds = (region: string, count: number) =>
    eventually(`the tracker of ${region} has contents of ${String(count)}`, async () => {
      const metrics = await (await fetch(`${system.tracker(region).url}/metrics`)).text();
      return metrics.includes(`\nhighwater_contents_transactions ${String(count)}\n`);
    });

  before(async () => {
    const auth = { GATEWAY_AUTH: "keys", TRACKER_AUTH: "keys", HIGHWATER_INTERNAL_SECRET: randomUUID() };
    system = await System.start({ env: { ...KEEPING, ...auth } });
    const scopes = ["read", "write"];
    first = await system.createKey({ name: "one", owner: "alice", scopes });
    const more = ["read", "contents:read", "contents:replay"];
    operator = await system.createKey({ name: "operator", owner: "alice", scopes: more });
    await rows(`CREATE ROLE ${OTHER_ROLE} LOGIN IN ROLE ${APP_ROLE}`, EAST);
    second = await system.createKey({ name: "two", owner: "alice", role: OTHER_ROLE, scopes });
    await rows("CREATE TABLE note (id uuid PRIMARY KEY, body text, who text DEFAULT current_user)", EAST);
    await rows(`GRANT ALL ON note TO ${APP_ROLE}`, EAST);
    // Not kept: contents that arrive late would stay, because no mark moves any more.
    const safe = { ack: "durable", level: "global", keep: false };
    const { status } = await insert(EAST, newId(), first, safe);
    assert.equal(status, 200);
    await putAhead(system, { heir: WEST, other: EUROPE });
    await starve(system, WEST);
    for (let n = 0; n < LOST; n++) {
      const id = newId();
      const { body } = await insert(EAST, id, n % 2 === 0 ? first : second);
      assert.equal(body.kept, true, JSON.stringify(body));
      ids.push(id);
    }
    await holds(EUROPE, LOST);
    await holds(WEST, LOST);
    await system.killRegion(EAST);
    await system.cluster.promote(WEST);
    await eventually(
      "commits are durable again",
      async () => (await insert(WEST, newId(), first, { ack: "durable" })).status === 200,
    );
    await eventually("the losses are listed", async () => (await listed(EUROPE)).length === LOST);
  });

  after(() => system.close());

  it("and the client of a lost id without a receipt, at the same time, make one effect", async () => {
    const mine = ids.slice(0, 4);
    const [, ...answers] = await Promise.all([
      replay(WEST, mine),
      ...mine.map((id, n) => insert(WEST, id, n % 2 === 0 ? first : second)),
    ]);
    // What its client was just running is left alone, and known in the next call.
    const report = await replay(WEST, mine);
    for (const [n, id] of mine.entries()) {
      const end = report.transactions.find((each) => each.id === id);
      assert.equal(end?.outcome, "replayed", JSON.stringify(end));
      // Either its client has committed under the id, or the replay, and then the client never can.
      assert.equal(answers[n]?.status === 200, end?.replayedBy === id, JSON.stringify(answers[n]?.body));
      const late = await insert(WEST, id, n % 2 === 0 ? first : second);
      assert.equal(late.status === 200, end?.replayedBy === id, JSON.stringify(late.body));
    }
    const list = mine.map((id) => `'${id}'`).join();
    const [found] = await rows(`SELECT count(*)::int AS n FROM note WHERE id IN (${list})`);
    assert.equal(found?.["n"], mine.length);
  });

  it("runs each transaction under the login role that lost it", async () => {
    const mine = ids.slice(4, 6);
    assert.equal((await replay(WEST, mine)).replayed, 2);
    const found = await rows(`SELECT who FROM note WHERE id IN ('${mine.join("', '")}') ORDER BY who`);
    assert.deepEqual(
      found.map(({ who }) => who),
      [OTHER_ROLE, "app_alice_write"],
    );
  });

  it("that a second failover loses is made again under its root", async () => {
    const redone = async (node: string): Promise<string[]> =>
      (await rows("SELECT id::text AS id FROM highwater.redo", node)).map(({ id }) => String(id));
    const earlier = await redone(WEST);
    await eventually("the other replica has all so far", async () => {
      const there = await redone(EUROPE);
      return earlier.every((id) => there.includes(id));
    });
    await starve(system, EUROPE, WEST);
    const cut = replay(WEST).catch(() => null);
    const made = await eventually("a part of the replays has committed", async () => {
      const now = await redone(WEST);
      return now.length > earlier.length + 1 ? now : undefined;
    });
    await system.killRegion(WEST);
    const refused = await post<{ code: string }>(
      `${system.gateway(EUROPE).url}/v1/lost/replay`,
      {},
      bearer(operator),
    );
    assert.deepEqual([refused.status, refused.body.code], [503, "primary_unavailable"]);
    await cut;
    await system.cluster.promote(EUROPE);
    await eventually(
      "the gateway has the new primary",
      async () => (await insert(EUROPE, newId(), first)).status === 200,
    );
    const kept = await redone(EUROPE);
    const lostReplays = made.filter((id) => !kept.includes(id));
    assert.ok(lostReplays.length > 1, "replays were lost");
    await eventually("each is replayed again", async () => {
      const report = await replay(EUROPE);
      return ids.every((id) =>
        report.transactions.some((each) => each.id === id && each.outcome === "replayed"),
      );
    });
    const list = ids.map((id) => `'${id}'`).join();
    const [found] = await rows(`SELECT count(*)::int AS n FROM note WHERE id IN (${list})`, EUROPE);
    assert.equal(found?.["n"], LOST);
  });
});
