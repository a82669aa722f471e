// Goal: two rules that only a whole system can show: nothing waits inside the database, and two
// primaries stop all writes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { System } from "../src/index.ts";
import {
  assertTruth,
  commit,
  commitKeys,
  createTable,
  epochAfter,
  epochOf,
  eventually,
  keysOn,
  put,
  putAhead,
  send,
  verdict,
} from "../src/testing.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;

test("early visibility: whatever the user's code sets, no commit waits for a standby inside the database", async () => {
  await using system = await System.start();
  await createTable(system, EAST);
  const gateway = system.gateway(EAST).url;
  await system.cluster.query(EAST, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
  await system.cluster.query(EAST, "SELECT pg_reload_conf()");
  await eventually("the setting is in force", async () => {
    const [row] = await system.cluster.query(EAST, "SHOW synchronous_standby_names");
    return row?.synchronous_standby_names === "nobody";
  });
  const impatient = [{ sql: "SET synchronous_commit TO on" }, put("set")];
  const local = [{ sql: "SELECT set_config('synchronous_commit', 'remote_apply', true)" }, put("set-local")];
  const written = [];
  for (const [key, statements] of [
    ["set", impatient],
    ["set-local", local],
  ] as const) {
    const { status, body } = await send(gateway, statements);
    assert.equal(status, 200, JSON.stringify(body));
    written.push({ key, token: body.token });
  }
  // Visible to all, and durable once the replicas have it: no level needed the missing standby.
  const keys = await keysOn(system, EAST);
  assert.ok(keys.has("set") && keys.has("set-local"));
  await assertTruth(system, { tracker: system.tracker(EAST).url, node: EAST }, written);
});

test("split brain: two primaries that do not know each other's epoch stop all writes, until an operator chooses", async () => {
  await using system = await System.start();
  const { cluster } = system;
  await createTable(system, EAST);
  const [east, eastTracker] = [system.gateway(EAST).url, system.tracker(EAST).url];
  const epoch = await epochOf(eastTracker);
  await putAhead(system, { heir: WEST, other: EUROPE });
  await cluster.isolate(EAST);
  // One side recovers from a crash, the other is promoted without a command: both begin an epoch
  // after the same one.
  await cluster.promote(WEST, { command: false });
  await cluster.crashBackend(EAST);
  await epochAfter(eastTracker, epoch);
  await epochAfter(system.tracker(WEST).url, epoch);
  const onEast = await commitKeys(east, "east", 2);
  const onWest = await commitKeys(system.gateway(WEST).url, "west", 2);
  await cluster.healAll();
  for (const region of system.regions) {
    const refused = await eventually(`the gateway of ${region} stops`, async () => {
      const { body } = await send(system.gateway(region).url, [
        put(`refused-${region}-${String(Math.random())}`),
      ]);
      return body.code === "split_brain" ? body : undefined;
    });
    assert.equal(refused.outcome, "not_applied");
    await eventually(`the metrics of the gateway of ${region} say so`, async () => {
      const gauges = await (await fetch(`${system.gateway(region).url}/metrics`)).text();
      return /^highwater_gateway_split_brain 1$/m.test(gauges);
    });
    // The tracker looks at the nodes itself, a little later or earlier.
    await eventually(`the tracker of ${region} says why it is not ready`, async () => {
      const ready = await fetch(`${system.tracker(region).url}/readyz`);
      return ready.status === 503 && ((await ready.json()) as { code: string }).code === "split_brain";
    });
  }
  // No verdict while there is no primary.
  const [first] = onEast;
  assert.ok(first !== undefined);
  assert.equal((await verdict(system.tracker(EUROPE).url, first.token, { waitMs: 300 })).verdict, "pending");
  await cluster.authorize(WEST, "the west has the later orders");
  const after = await commit(east, [put("after")], { ack: "durable" });
  const all = [...onEast, ...onWest, { key: "after", token: after.token }];
  const judged = await assertTruth(system, { tracker: eastTracker, node: WEST }, all);
  for (const { key } of onEast) assert.equal(judged.get(key)?.verdict, "lost");
  for (const { key } of onWest) assert.equal(judged.get(key)?.verdict, "durable");
});
