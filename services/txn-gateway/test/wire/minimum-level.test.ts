// Goal: no client goes below its key's minimum level, on HTTP or on the wire, and every answer says
// what was achieved. Method: a key without a minimum shows that the link to the other region is cut.
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { type Problem, type TransactionResponse } from "@highwater/protocol";
import { System } from "@highwater/lab-system";
import { eventually, newId } from "@highwater/lab-system/testing";
import { writeCancel } from "../../src/wire/startup/packet.ts";
import { query, ServerAnswer, WireClient } from "./client.ts";

const [HOME, AWAY] = ["us-east", "us-west"];
const INSERT = "INSERT INTO entry VALUES (1)";
let system: System;
let kept: string;
let free: string;

before(async () => {
  const nodes = [HOME, AWAY].map((region) => ({ id: region, region }));
  const env = {
    GATEWAY_AUTH: "keys",
    TRACKER_AUTH: "keys",
    HIGHWATER_INTERNAL_SECRET: "a secret for these tests",
  };
  system = await System.start({
    cluster: { nodes, roundTripMs: { [`${HOME}/${AWAY}`]: 10 } },
    levels: { disk: { primary: true }, global: { regions: "all" } },
    env,
  });
  const scopes = ["read", "write"] as const;
  kept = await system.createKey({ name: "kept", owner: "alice", scopes, limits: ["--min-level", "global"] });
  free = await system.createKey({ name: "free", owner: "bob", scopes });
  await system.cluster.query(HOME, "CREATE TABLE entry (n int)");
  await system.cluster.query(HOME, "GRANT ALL ON entry TO app_alice_write, app_bob_write");
});

after(() => system.close());

async function call<Body = TransactionResponse>(
  path: string,
  key: string,
  body?: object,
  headers: Record<string, string> = {},
): Promise<{ status: number; headers: Headers; body: Body & Partial<Problem> }> {
  const response = await fetch(`${system.gateway(HOME).url}/v1/${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${key}`, ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const { status } = response;
  return { status, headers: response.headers, body: (await response.json()) as Body & Partial<Problem> };
}

const write = (key: string, more: object = {}) =>
  call("transactions", key, { id: newId(), statements: [{ sql: INSERT }], ...more });

it("what asks for less waits for the minimum, in each form; what asks for more gets that", async () => {
  for (const asked of [{}, { ack: "commit" }, { ack: "durable", level: "disk" }]) {
    const { status, body } = await write(kept, asked);
    assert.deepEqual([status, body.state, body.level, body.achieved], [200, "durable", "global", "global"]);
  }
  const weaker = await write(free, { ack: "durable", level: "disk" });
  assert.deepEqual([weaker.body.state, weaker.body.level], ["durable", "disk"]);
  const begun = await call("transactions/begin", kept, { id: newId(), statements: [{ sql: INSERT }] });
  const session = { "highwater-session": begun.headers.get("highwater-session") ?? "" };
  const { body } = await call(`transactions/${begun.body.id}/commit`, kept, { seq: 1 }, session);
  assert.deepEqual([body.state, body.level, body.achieved], ["durable", "global", "global"]);
  const { body: state } = await call(`transactions/${begun.body.id}?level=disk`, kept);
  assert.deepEqual([state.level, state.achieved], ["disk", "global"]);
  const read = { statements: [{ sql: "SELECT 1" }], readOnly: true };
  assert.equal((await write(kept, read)).body.state, "committed");
  const tickets = { transactions: [{ id: newId() }] };
  const refused = await call<{ answers: { status: number; body: Problem }[] }>("tickets", kept, tickets);
  const [first] = refused.body.answers;
  assert.deepEqual([first?.status, first?.body.code], [403, "forbidden"]);
  assert.match(first?.body.detail ?? "", /minimum level is global/);
});

it("while nothing reaches the other region, neither settings nor a cancel get an answer early", async () => {
  await system.cluster.link(HOME, AWAY).cut();
  try {
    const { status, body } = await write(kept, { ack: "commit", maxWaitMs: 300 });
    assert.deepEqual([status, body.state, body.level], [202, "pending", "global"]);
    assert.notEqual(body.achieved, "global");
    assert.equal((await write(free)).body.state, "committed");
    const client = await WireClient.open(system.pgUrl(HOME, "app_alice_write"), { password: kept });
    const set = await client.query("SET highwater.ack = 'commit'; SET highwater.max_wait = '100ms'");
    assert.equal(set.code, "");
    client.send(query(`SET highwater.id = '${newId()}'`));
    const said = new ServerAnswer(await client.until("Z"));
    assert.match(said.notice, /highwater.ack is "commit", but the minimum level of this key is global/);
    client.send(query(INSERT));
    await eventually("the answer is held", async () =>
      (await (await fetch(`${system.gateway(HOME).url}/metrics`)).text()).includes("wire_holds 1\n"),
    );
    const canceller = await WireClient.dial(system.pgUrl(HOME));
    canceller.send(writeCancel(client.key));
    await canceller.closed();
    await new Promise((resolve) => setTimeout(resolve, 300));
    assert.deepEqual(
      client.untaken.filter(({ type }) => type !== "N"),
      [],
    );
    await system.cluster.link(HOME, AWAY).heal();
    const answer = new ServerAnswer(await client.until("Z"));
    assert.deepEqual([answer.tags, answer.parameter("highwater.achieved")], [["INSERT 0 1"], "global"]);
    client.end();
  } finally {
    await system.cluster.link(HOME, AWAY).heal();
  }
});
