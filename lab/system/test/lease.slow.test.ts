// Goal: with an HA manager's lease as the authority, the whole product follows the lease and
// nothing else. Method: three regions on real PostgreSQL and a real etcd. The test holds the leader
// key as a manager does, lets it expire, revokes it, passes it to another node, and stops etcd.
// Verdicts are compared with the database.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Etcd, type HeldKey } from "@highwater/lab-cluster";
import { System } from "../src/index.ts";
import {
  assertTruth,
  commitKeys,
  createTable,
  epochOf,
  eventually,
  keysOn,
  marksOf,
  put,
  putAhead,
  send,
  verdict,
} from "../src/testing.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
const KEY = "/service/shop/leader";
/** Patroni's shortest: even a busy machine keeps the lease alive without a gap. */
const TTL_S = 20;

async function startUnderLease(etcd: Etcd): Promise<System> {
  return System.start({
    env: {
      HIGHWATER_AUTHORITY: "lease",
      HIGHWATER_LEASE_ETCD: etcd.url,
      HIGHWATER_LEASE_SCOPE: "shop",
      HIGHWATER_LEASE_POLL_MS: "200",
    },
  });
}

/**
 * Checks that every gateway refuses and every tracker has no primary, for this reason. Returns the
 * refused keys.
 */
async function assertStopped(system: System, reason: RegExp): Promise<string[]> {
  const refused: string[] = [];
  for (const region of system.regions) {
    const { body } = await eventually(`the gateway of ${region} stops`, async () => {
      const key = `try-${String(Math.random())}`;
      const answer = await send(system.gateway(region).url, [put(key)]);
      if (answer.status === 503) refused.push(key);
      return answer.status === 503 && reason.test(answer.body.detail ?? "") ? answer : undefined;
    });
    assert.deepEqual([body.code, body.retry, body.outcome], ["primary_unavailable", "wait", "not_applied"]);
    await eventually(`the tracker of ${region} stops`, async () => {
      const ready = await fetch(`${system.tracker(region).url}/readyz`);
      return ready.status === 503 && reason.test(((await ready.json()) as { detail: string }).detail);
    });
  }
  return refused;
}

test("commits and marks need a valid lease: expiry and the loss of etcd stop both, the same holder resumes its epoch", async () => {
  await using etcd = await Etcd.start();
  let held: HeldKey = await etcd.hold(KEY, EAST, TTL_S);
  await using system = await startUnderLease(etcd);
  const { cluster } = system;
  await createTable(system, EAST);
  const written = await commitKeys(system.gateway(WEST).url, "before", 3);
  for (const { token } of written)
    assert.equal((await verdict(system.tracker(EAST).url, token, { level: "global" })).verdict, "durable");
  const epoch = await epochOf(system.tracker(EAST).url);

  held.abandon();
  const refused = await assertStopped(system, /no node holds the lease|the lease has expired/);
  const before = await Promise.all(system.regions.map((region) => marksOf(system.tracker(region).url)));
  // The database still runs and its replicas follow, but no lease confirms its primary.
  await cluster.query(EAST, "INSERT INTO kv VALUES ('past-the-service', 1)");
  for (const replica of [WEST, EUROPE])
    await eventually(`${replica} has it`, async () =>
      (await keysOn(system, replica)).has("past-the-service"),
    );
  await assertStopped(system, /no node holds the lease/);
  const after = await Promise.all(system.regions.map((region) => marksOf(system.tracker(region).url)));
  assert.deepEqual(
    after.map(({ marks }) => marks),
    before.map(({ marks }) => marks),
  );

  held = await etcd.hold(KEY, EAST, TTL_S);
  written.push(...(await commitKeys(system.gateway(EUROPE).url, "again", 3)));
  // The tracker reads the lease itself, a little later or earlier than the gateway.
  assert.equal(await epochOf(system.tracker(EAST).url), epoch);

  await etcd.stop();
  refused.push(...(await assertStopped(system, /the lease cannot be read: 127\.0\.0\.1/)));
  await etcd.start();
  written.push(...(await commitKeys(system.gateway(EAST).url, "back", 3)));
  for (const region of system.regions) {
    await assertTruth(system, { tracker: system.tracker(region).url, node: EAST, level: "global" }, written);
    assert.equal(await epochOf(system.tracker(region).url), epoch);
  }
  const present = await keysOn(system, EAST);
  assert.ok(refused.length >= 6 && refused.every((key) => !present.has(key)));
  held.abandon();
});

test("the lease is handed to a promoted node: it is followed, and the old primary gets no traffic, however writable", async () => {
  await using etcd = await Etcd.start();
  let held: HeldKey = await etcd.hold(KEY, EAST, TTL_S);
  await using system = await startUnderLease(etcd);
  const { cluster } = system;
  await createTable(system, EAST);
  await putAhead(system, { heir: WEST, other: EUROPE });
  await cluster.isolate(EAST);
  const lost = await commitKeys(system.gateway(EAST).url, "lost", 3);
  await held.revoke();
  await assertStopped(system, /no node holds the lease/);
  // A promotion alone, and an operator's command with it, name no primary here.
  await cluster.promote(WEST);
  await assertStopped(system, /no node holds the lease/);
  held = await etcd.hold(KEY, WEST, TTL_S);
  const kept = await commitKeys(system.gateway(WEST).url, "kept", 3);
  await assertTruth(system, { tracker: system.tracker(WEST).url, node: WEST }, [...lost, ...kept]);
  const epoch = await epochOf(system.tracker(WEST).url);

  // The zombie becomes reachable, recovers from a crash, and gets a command of its own.
  await cluster.healAll();
  await cluster.crashBackend(EAST);
  await cluster.authorize(EAST, "nobody asked");
  await eventually("the old primary writes", () =>
    cluster.query(EAST, "INSERT INTO kv VALUES ('zombie', 1)").then(() => true),
  );
  const after = await commitKeys(system.gateway(EAST).url, "after", 3);
  const present = await keysOn(system, EAST);
  assert.ok(present.has("zombie") && after.every(({ key }) => !present.has(key)));
  for (const region of system.regions) {
    const tracker = system.tracker(region).url;
    await eventually(`the tracker of ${region} follows`, async () => {
      const { status } = await fetch(`${tracker}/readyz`);
      return status === 200 && (await marksOf(tracker)).marks?.epoch === epoch;
    });
    await assertTruth(system, { tracker, node: WEST }, [...lost, ...kept, ...after]);
  }
  const epochs = await cluster.query(EAST, "SELECT FROM highwater.epoch");
  assert.equal(epochs.length, 1, "no one has begun an epoch on it");

  // Back to the old primary, whose history lacks the later epochs: a new epoch supersedes them, and
  // its promises are broken.
  await held.revoke();
  held = await etcd.hold(KEY, EAST, TTL_S);
  let attempts = 0;
  await eventually("the gateway in Europe follows the old primary", async () => {
    // Before that, its commits go to the other node and are lost, so each attempt is a new one,
    // sent once. One during the change may stay unsettled, because nothing replicates the new
    // primary.
    const key = `reinstated-${String(attempts++)}`;
    await send(system.gateway(EUROPE).url, [put(key)]);
    return (await keysOn(system, EAST)).has(key);
  });
  const ancestry = await eventually("the tracker in Europe follows the old primary", async () => {
    const { marks, epochs } = await marksOf(system.tracker(EUROPE).url);
    return marks !== null && epochs.at(-1)?.node === EAST && epochs.length > 1 && epochs;
  });
  assert.equal(ancestry.length, 2);
  for (const { token } of kept)
    assert.ok(["lost", "broken"].includes((await verdict(system.tracker(EUROPE).url, token)).verdict));
  held.abandon();
});
