// Goal: a safe transaction does not fail because of a row that can still be lost. A fast one fails
// at once and gets a token with which to wait for that row. Method: the whole product. One client
// commits while the replicas are cut off, and another inserts the same key through every interface.
// Then the replicas catch up, or one is promoted without the row. All tests share one system.
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import type { Problem } from "@highwater/protocol";
import { System } from "../src/index.ts";
import {
  commit,
  createTable,
  epochAfter,
  epochOf,
  eventually,
  keysOn,
  newId,
  post,
  put,
  putAhead,
  send,
  starve,
  verdict,
} from "../src/testing.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
const SAFE = { ack: "durable", level: "region" } as const;

let system: System;
let feed: (() => Promise<void>)[] = [];

before(async () => {
  system = await System.start();
  await createTable(system, EAST);
});

after(() => system.close());

function nodeOf(region: string): string {
  const node = system.cluster.nodes.find((each) => each.region === region);
  assert.ok(node !== undefined);
  return node.id;
}

/** Keeps everything from reaching another region from now on. */
async function starveAll(): Promise<void> {
  feed = [];
  for (const region of [EUROPE, WEST]) feed.push(await starve(system, nodeOf(region), nodeOf(EAST)));
}

function assertOpen(problem: Partial<Problem>): void {
  assert.equal(problem.code, "refusal_unconfirmed", JSON.stringify(problem));
  assert.equal(problem.evidence?.state, "pending");
  assert.equal(problem.sqlstate, undefined, "nothing that a program would take for final");
}

it("by every way in, a safe duplicate is not called one while the original can be lost", async () => {
  const gateway = system.gateway(EAST).url;
  await starveAll();
  await commit(gateway, [put("paid")]);
  const safe = { ...SAFE, maxWaitMs: 300 };
  const request = { id: newId(), statements: [put("paid")], ...safe };
  assertOpen((await post<Partial<Problem>>(`${gateway}/v1/transactions`, request)).body);

  const batch = await fetch(`${gateway}/v1/transactions/batch`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ transactions: [{ ...request, id: newId() }] }),
  });
  assertOpen((JSON.parse(await batch.text()) as { body: Partial<Problem> }).body);

  const neon = await post<{ code: string; highwater: { code: string; evidence: { state: string } } }>(
    `${gateway}/sql`,
    { query: "INSERT INTO kv (key, value) VALUES ('paid', 1)", params: [] },
    { "highwater-ack": "durable", "highwater-max-wait-ms": "300" },
  );
  assert.equal(neon.body.code, "40001", JSON.stringify(neon.body));
  assert.equal(neon.body.highwater.code, "refusal_unconfirmed");
  assert.equal(neon.body.highwater.evidence.state, "pending");

  const id = newId();
  const begun = await post(`${gateway}/v1/transactions/begin`, { id });
  const session = { "highwater-session": begun.headers.get("highwater-session") ?? "" };
  const ended = await post<Partial<Problem>>(
    `${gateway}/v1/transactions/${id}/commit`,
    { seq: 1, statements: [put("paid")], ...safe },
    session,
  );
  assertOpen(ended.body);
  assert.equal(ended.body.open, false);

  const raised = await send(gateway, [{ sql: "DO $$ BEGIN RAISE 'already paid'; END $$" }], safe);
  assertOpen(raised.body);
  const syntax = await send(gateway, [{ sql: "SELEC 1" }], safe);
  assert.equal(syntax.body.sqlstate, "42601", "what cannot come from data is said at once");
});

it("when the original has become durable it is a duplicate, and a fast one's token says the same", async () => {
  const gateway = system.gateway(EAST).url;
  const fast = await send(gateway, [put("paid")]);
  assert.equal(fast.body.code, "constraint_violation");
  const { evidence } = fast.body;
  assert.ok(evidence !== undefined);
  assert.equal(evidence.state, "committed");
  assert.equal((await verdict(system.tracker(EAST).url, evidence.token, { waitMs: 0 })).verdict, "pending");
  const safe = send(gateway, [put("paid")], { ...SAFE, maxWaitMs: 60_000 });
  await Promise.all(feed.map((restore) => restore()));
  const { status, body } = await safe;
  assert.equal(status, 409);
  assert.equal(body.code, "constraint_violation", JSON.stringify(body));
  assert.equal(body.sqlstate, "23505");
  assert.equal(body.evidence?.state, "durable");
  assert.equal((await verdict(system.tracker(EAST).url, evidence.token)).verdict, "durable");
});

it("when another region is promoted without the original, the waiting duplicate fails and can be paid again", async () => {
  const gateway = system.gateway(WEST).url;
  await system.cluster.waitForStreaming();
  await putAhead(system, { heir: nodeOf(WEST), other: nodeOf(EUROPE), primary: nodeOf(EAST) });
  await starve(system, nodeOf(WEST), nodeOf(EAST));
  const before = await epochOf(system.tracker(WEST).url);
  await commit(gateway, [put("lost")]);
  const waiting = send(gateway, [put("lost")], { ...SAFE, maxWaitMs: 60_000 });
  await eventually("it waits for what it was refused by", async () => {
    const metrics = await (await fetch(`${gateway}/metrics`)).text();
    return /^highwater_gateway_durability_waits\S* 1$/m.test(metrics) || undefined;
  });
  await system.killRegion(EAST);
  await system.cluster.promote(nodeOf(WEST));
  await epochAfter(system.tracker(WEST).url, before);
  const { body } = await waiting;
  assert.equal(body.code, "refusal_unconfirmed", JSON.stringify(body));
  assert.equal(body.evidence?.state, "lost");
  await commit(gateway, [put("lost")]);
  assert.ok((await keysOn(system, nodeOf(WEST))).has("lost"));
});
