// Goal: the lost writes of a key with `--on-lost replay` are back before the next primary takes
// writes, although no request asked for it. A write that could not be kept is left to its client.
// Method: the whole product as real processes, with keys, through the loss of a region.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import type { EventPage, TransactionResponse } from "@highwater/protocol";
import { APP_ROLE, System } from "../src/index.ts";
import { eventually, KEEPING, newId, post, putAhead, starve } from "../src/testing.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
const KEEP_BYTES = 2_000;
const LOST = 5;

test("a key's writes come back before others, except those that cannot be kept", async (t) => {
  const auth = { GATEWAY_AUTH: "keys", TRACKER_AUTH: "keys", HIGHWATER_INTERNAL_SECRET: randomUUID() };
  const keeping = {
    ...KEEPING,
    HIGHWATER_REPLAY_HOLD_MS: "30000",
    GATEWAY_KEEP_BYTES: String(KEEP_BYTES),
    // What is not kept would block the others.
    GATEWAY_REPLAY_INDEPENDENT: "all",
  };
  const system = await System.start({ env: { ...auth, ...keeping } });
  t.after(() => system.close());
  const rows = (node: string, sql: string): Promise<Record<string, unknown>[]> =>
    system.cluster.query(node, sql);
  const key = await system.createKey({
    name: "orders",
    scopes: ["read", "write"],
    limits: ["--on-lost", "replay"],
  });
  const insert = (region: string, id: string, more: object = {}, body = "short") => {
    const statements = [{ sql: "INSERT INTO note (id, body) VALUES ($1, $2)", params: [id, body] }];
    const request = { id, statements, ...more };
    const url = `${system.gateway(region).url}/v1/transactions`;
    return post<TransactionResponse>(url, request, { authorization: `Bearer ${key}` });
  };
  await rows(EAST, "CREATE TABLE note (id uuid PRIMARY KEY, body text)");
  await rows(EAST, `GRANT ALL ON note TO ${APP_ROLE}`);
  // Not kept: contents that arrive late would stay, because no mark moves any more.
  const durable = { ack: "durable", level: "global", maxWaitMs: 60_000, keep: false };
  const safe = await insert(EAST, newId(), durable);
  assert.equal(safe.status, 200, JSON.stringify(safe.body));
  await putAhead(system, { heir: WEST, other: EUROPE });
  await starve(system, WEST);
  const ids = Array.from({ length: LOST }, () => newId());
  for (const id of ids) {
    const { status, body } = await insert(EAST, id);
    assert.deepEqual([status, body.kept], [200, true], JSON.stringify(body));
  }
  const [large, refused] = [newId(), newId()];
  assert.equal((await insert(EAST, large, {}, "x".repeat(KEEP_BYTES))).status, 200);
  assert.equal((await insert(EAST, refused, { keep: false })).status, 200);
  await eventually("a tracker of another region has all contents", async () => {
    const metrics = await (await fetch(`${system.tracker(EUROPE).url}/metrics`)).text();
    return metrics.includes(`\nhighwater_contents_transactions ${String(LOST)}\n`);
  });
  await system.killRegion(EAST);
  await system.cluster.promote(WEST);

  const first = await eventually("a write is admitted", async () => {
    const sql = "INSERT INTO note (id, body) SELECT $1, count(*)::text FROM note RETURNING body";
    const id = newId();
    const { status, body } = await insert(EUROPE, id, { statements: [{ sql, params: [id] }] });
    return status === 200 ? body : undefined;
  });
  assert.equal(first.results?.[0]?.rows[0]?.[0], String(1 + LOST), "it sees all that came back");
  const lost = await eventually("all losses are events", async () => {
    const page = await fetch(`${system.tracker(EUROPE).url}/v1/durability/events?after=0.0&limit=1000`, {
      headers: { authorization: `Bearer ${key}`, accept: "application/json" },
    });
    const { events } = (await page.json()) as EventPage;
    const found = events.flatMap(({ type, data }) =>
      type === "transaction.lost" ? [data as { id: string; redo?: string }] : [],
    );
    return found.length >= LOST + 2 ? found : undefined;
  });
  const reported = new Map(lost.map(({ id, redo }) => [id, redo]));
  assert.deepEqual(
    [...ids, large, refused].map((id) => reported.get(id)),
    [...ids.map(() => "service"), undefined, undefined],
  );
  const [found] = await rows(WEST, `SELECT count(*)::int AS n FROM note WHERE body = 'short'`);
  assert.equal(found?.["n"], 1 + LOST);
});
