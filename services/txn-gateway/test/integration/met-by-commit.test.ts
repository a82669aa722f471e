// Goal: where the database answers a commit no sooner than a level has it, the gateway's answer says so, and waits for nothing.
// Method: the CockroachDB adapter on its stand-in, or on real clusters where their URLs are set. There is no tracker, and the
// stand-in's standby never moves on.
import assert from "node:assert/strict";
import { test } from "node:test";
import { CockroachStandIn, openServers } from "@highwater/lab-cluster/cockroach";
import { type LevelRule } from "@highwater/protocol";
import { realClock } from "@highwater/runtime";
import { CockroachStore } from "@highwater/store/internals";
import { TestGateway } from "../support/gateway.ts";
import { newId } from "../support/fakes.ts";

const LEVELS: Record<string, LevelRule> = {
  zone: { primary: true },
  standby: { replicas: 1, outside: "region" },
};
const NODES = [
  { id: "one", region: "us-east" },
  { id: "two", region: "us-west" },
];
const NAME = openServers === null ? "STAND-IN" : "SERVER";

test(`CockroachDB (${NAME}): a level inside the cluster is met by the commit, and the answer says so`, async () => {
  const pair =
    openServers === null
      ? await CockroachStandIn.start({ nodes: NODES, beatMs: 600_000 })
      : await openServers();
  const nodes = pair.nodes.map((node) => ({ ...node, zone: "1" }));
  const gateway = await TestGateway.start(
    { nodes, connectionString: (id) => Promise.resolve(nodes.find((node) => node.id === id)?.url ?? "") },
    {
      makeStore: (config) =>
        new CockroachStore({ ...config, nodes, clock: realClock, helper: config.name, callTimeoutMs: 5_000 }),
      env: {
        GATEWAY_REGION: nodes[0]?.region ?? "",
        HIGHWATER_TOPOLOGY: JSON.stringify({ nodes, levels: LEVELS }),
      },
    },
  );
  await gateway.ready();
  const statements = [{ sql: "SELECT 1" }];

  const at = await gateway.commit({ statements, ack: "durable", level: "zone", maxWaitMs: 0 });
  const { state, achieved, metBy, position, marks } = at.body;
  assert.deepEqual([at.status, state, achieved, metBy], [200, "durable", "zone", "store"]);
  assert.deepEqual(marks?.levels, { zone: position.offset }, "the SDK settles promises by it");

  const early = await gateway.commit({ statements });
  assert.deepEqual([early.body.state, early.body.achieved, early.body.metBy], ["committed", "zone", "store"]);
  const read = await gateway.commit({
    statements,
    readOnly: true,
    ack: "durable",
    level: "zone",
    maxWaitMs: 0,
  });
  assert.equal(read.body.state, "durable");

  const id = newId();
  const far = await gateway.commit({ id, statements, ack: "durable", level: "standby", maxWaitMs: 100 });
  assert.deepEqual([far.status, far.body.state, far.body.achieved], [202, "pending", "zone"]);
  const again = await gateway.commit({ id, statements, ack: "durable", level: "zone", maxWaitMs: 0 });
  assert.deepEqual([again.body.replayed, again.body.state], [true, "durable"]);
  assert.deepEqual((await gateway.state(id, "?level=zone")).state, "durable");

  if (pair instanceof CockroachStandIn) {
    await pair.query("one", "UPDATE standin.setting SET is_unsafe = true");
    const isDurable = async (): Promise<boolean> =>
      (await gateway.commit({ statements, ack: "durable", level: "zone", maxWaitMs: 0 })).status === 200;
    // The gateway learns it with its next look at the node.
    while (await isDurable()) await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await gateway.close();
  await pair.close();
});
