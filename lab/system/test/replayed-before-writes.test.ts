// Goal: what was committed with `onLost: "replay"` and lost is back before a gateway admits a write,
// exactly once, also if gateways die meanwhile; and no write waits longer than the bound.
// Method: the whole product as real processes. A region is lost, the gateway that brings its
// transactions back is killed in the middle, and a second failover happens while no tracker runs.
// The tests share one system and run in order.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, it } from "node:test";
import type { EventPage, LostList, Problem, ReplayReport, VerdictsResponse } from "@highwater/protocol";
import { System } from "../src/index.ts";
import { createTable, eventually, KEEPING, newId, post, putAhead, send, starve } from "../src/testing.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
const HOLD_MS = 30_000;
const LOST = 100;

describe("transactions with onLost", () => {
  let system: System;
  const account = randomUUID();
  const ids: string[] = [];
  const tokens: string[] = [];
  const bodyOf = (id: string) => [{ sql: "INSERT INTO note (id, body) VALUES ($1, 'lost')", params: [id] }];
  const rows = (node: string, sql: string): Promise<Record<string, unknown>[]> =>
    system.cluster.query(node, sql);
  const count = async (node: string, from: string): Promise<number> =>
    Number((await rows(node, `SELECT count(*)::int AS n FROM ${from}`))[0]?.["n"]);

  async function lose(region: string, statements: Parameters<typeof send>[1]): Promise<void> {
    const id = newId();
    const { status, body } = await send(system.gateway(region).url, statements, { id, onLost: "replay" });
    assert.deepEqual([status, body.kept], [200, true], JSON.stringify(body));
    ids.push(id);
    tokens.push(body.token);
  }

  before(async () => {
    system = await System.start({ env: { ...KEEPING, HIGHWATER_REPLAY_HOLD_MS: String(HOLD_MS) } });
    await system.addGateway(WEST);
    await createTable(system, EAST);
    await rows(
      EAST,
      `CREATE TABLE note (id uuid PRIMARY KEY, body text, seen int);
      CREATE TABLE account (id uuid PRIMARY KEY, bal int);
      INSERT INTO account VALUES ('${account}', 0);
      GRANT ALL ON note, account TO app`,
    );
    await putAhead(system, { heir: WEST, other: EUROPE });
    await starve(system, WEST);
    await Promise.all(Array.from({ length: LOST - 2 }, () => lose(EAST, bodyOf(randomUUID()))));
    for (const bal of [50, 70])
      await lose(EAST, [{ sql: "UPDATE account SET bal = $2 WHERE id = $1", params: [account, bal] }]);
    await eventually("a tracker of another region has all contents", async () => {
      const metrics = await (await fetch(`${system.tracker(EUROPE).url}/metrics`)).text();
      return metrics.includes(`\nhighwater_contents_transactions ${String(LOST)}\n`);
    });
    await system.killRegion(EAST);
    await system.cluster.promote(WEST);
  });

  after(() => system.close());

  it("are back, once, before the first write, although the gateway that brings them back is killed", async () => {
    const gateway = system.gateway(EUROPE).url;
    const sql = "INSERT INTO note (id, seen) SELECT $1, count(*) FROM note RETURNING seen";
    const first = eventually("a write is admitted", async () => {
      const answer = await send(gateway, [{ sql, params: [randomUUID()] }]);
      return answer.status === 200 ? answer.body : undefined;
    });
    const done = await eventually("some of them are back", async () => {
      const n = await count(WEST, "highwater.redo").catch(() => 0);
      return n > 2 ? n : undefined;
    });
    const [turn] = await rows(WEST, "SELECT gateway FROM highwater.replay_hold");
    const at = turn?.["gateway"] === WEST ? 0 : 1;
    await system.gateways(WEST)[at]?.kill();
    assert.ok(done < LOST - 10, `it was killed when ${String(done)} were back`);
    const { results } = await first;
    assert.equal(results?.[0]?.rows[0]?.[0], String(LOST - 2), "the first write sees all of them");
    assert.equal(await count(WEST, "highwater.redo"), LOST);
    assert.equal(await count(WEST, "note WHERE body = 'lost'"), LOST - 2);
    assert.deepEqual(await rows(WEST, "SELECT bal FROM account"), [{ bal: 70 }]);
    const [hold] = await rows(WEST, "SELECT gateway, ended_at < until AS early FROM highwater.replay_hold");
    assert.equal(hold?.["early"], true);
    assert.notEqual(hold?.["gateway"], turn?.["gateway"]);
  });

  it("are said to be redone by the service, and not by their client", async () => {
    const tracker = system.tracker(EUROPE).url;
    const asked = { tokens: tokens.slice(0, 100), level: "global", waitMs: 20_000 };
    const { body } = await post<VerdictsResponse>(`${tracker}/v1/durability/verdicts`, asked);
    for (const each of body.verdicts)
      assert.deepEqual(
        [each.verdict, "redo" in each && each.redo],
        ["lost", "service"],
        JSON.stringify(each),
      );
    const page = await fetch(`${tracker}/v1/durability/events?after=0.0&limit=1000`, {
      headers: { accept: "application/json" },
    });
    const { events } = (await page.json()) as EventPage;
    const lost = events.filter(
      ({ type, data }) => type === "transaction.lost" && ids.includes((data as { id: string }).id),
    );
    assert.equal(lost.length, LOST);
    for (const { data } of lost) {
      assert.equal((data as { redo?: string }).redo, "service");
      assert.equal((data as { metadata?: unknown }).metadata, undefined);
    }
    const again = await post<Problem>(`${system.gateway(EUROPE).url}/v1/transactions`, {
      id: ids[0],
      statements: bodyOf(randomUUID()),
    });
    assert.deepEqual(
      [again.status, again.body.code, again.body.redo, again.body.retry],
      [409, "transaction_lost", "service", "never"],
    );
  });

  it("wait no longer than the bound where no tracker says what was lost, and are then brought back by hand", async () => {
    await eventually(
      "the replica has all so far",
      async () => (await count(EUROPE, "highwater.redo")) === LOST,
    );
    await starve(system, EUROPE, WEST);
    const late = randomUUID();
    await lose(EUROPE, bodyOf(late));
    await system.killRegion(WEST);
    await system.tracker(EUROPE).kill();
    await system.cluster.promote(EUROPE);
    const gateway = system.gateway(EUROPE).url;
    let refusals = 0;
    const sql =
      "INSERT INTO note (id, body) VALUES ($1, clock_timestamp()::text) RETURNING clock_timestamp()";
    const { results } = await eventually("a write is admitted", async () => {
      const answer = await send(gateway, [{ sql, params: [randomUUID()] }]);
      if (answer.status === 200) return answer.body;
      if (JSON.stringify(answer.body).includes("brought back")) refusals++;
      return undefined;
    });
    assert.ok(refusals > 2, "writes were held");
    const at = String(results?.[0]?.rows[0]?.[0]);
    const [hold] = await rows(
      EUROPE,
      `SELECT until <= '${at}' AS after_bound, until + interval '5 s' > '${at}' AS soon, ended_at
      FROM highwater.replay_hold ORDER BY began DESC LIMIT 1`,
    );
    assert.deepEqual(hold, { after_bound: true, soon: true, ended_at: null });
    await system.restartService(EUROPE, "tracker");
    await eventually("the loss is listed", async () => {
      const list = await fetch(`${system.tracker(EUROPE).url}/v1/lost?limit=1000`);
      return ((await list.json()) as LostList).lost.some(({ id }) => id === ids.at(-1));
    });
    const asked = { ids: [ids.at(-1)], dryRun: false };
    const { body } = await post<ReplayReport>(`${gateway}/v1/lost/replay`, asked);
    assert.equal(body.replayed, 1, JSON.stringify(body));
    assert.equal(await count(EUROPE, `note WHERE id = '${late}'`), 1);
  });
});
