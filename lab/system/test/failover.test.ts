// Goal: verdicts are right however an epoch ends (failover.slow.test.ts has the longer cases).
// Method: the whole product as real processes; commits that provably cannot have replicated (links
// cut, walwriter slow); then the fault. Each verdict is compared with the database.
import assert from "node:assert/strict";
import { after, before, describe, it, test } from "node:test";
import { System } from "../src/index.ts";
import {
  assertTruth,
  commit,
  commitKeys,
  createTable,
  epochAfter,
  epochOf,
  eventually,
  newId,
  put,
  send,
  stateOf,
  verdict,
} from "../src/testing.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;

test("a killed region: replicated transactions are durable, the rest is lost, and the service continues elsewhere until the region is back", async () => {
  await using system = await System.start();
  await createTable(system, EAST);
  const early = await commitKeys(system.gateway(EAST).url, "early", 10);
  await assertTruth(system, { tracker: system.tracker(EAST).url, node: EAST }, early);
  await system.cluster.isolate(EAST);
  const late = await commitKeys(system.gateway(EAST).url, "late", 10);
  await system.killRegion(EAST);
  const heir = await system.cluster.mostAdvancedReplica();
  await system.cluster.promote(heir);
  const after = await commit(system.gateway(WEST).url, [put("after")], { ack: "durable" });
  const from = { tracker: system.tracker(EUROPE).url, node: heir };
  const judged = await assertTruth(system, from, [...early, ...late, { key: "after", token: after.token }]);
  for (const { key } of late) assert.equal(judged.get(key)?.verdict, "lost");
  // The other surviving tracker agrees.
  await assertTruth(system, { tracker: system.tracker(WEST).url, node: heir }, [...early, ...late]);
  // A region that is still cut off could not follow: it does not come back by half.
  await assert.rejects(system.reviveRegion(EAST), /^Error: us-east is cut off .*: heal the links first$/);
  assert.equal((await system.cluster.status()).find(({ id }) => id === EAST)?.state, "stopped");
  await system.cluster.healAll();
  await system.reviveRegion(EAST);
  await assertTruth(system, { tracker: system.tracker(EAST).url, node: EAST }, [...early, ...late]);
});

describe("what takes nothing away", () => {
  let system: System;

  before(async () => {
    system = await System.start();
    await createTable(system, EAST);
  });

  after(() => system.close());

  it("a replica is cut off and healed: durability waits for it, and the mark then rises again from where it stood", async () => {
    const { gateway, tracker } = { gateway: system.gateway(EAST).url, tracker: system.tracker(EAST).url };
    await system.cluster.link(EAST, EUROPE).cut();
    const token = (await commit(gateway, [put("while-cut")])).token;
    assert.equal((await verdict(tracker, token)).verdict, "durable", "the other region is enough");
    assert.equal((await verdict(tracker, token, { level: "global", waitMs: 500 })).verdict, "pending");
    await system.cluster.link(EAST, EUROPE).heal();
    assert.equal((await verdict(tracker, token, { level: "global" })).verdict, "durable");
  });

  it("the tracker is down: commits go on, durability waits, and nothing is lost when it returns", async () => {
    for (const region of system.regions) await system.tracker(region).kill();
    const gateway = system.gateway(EAST).url;
    const written = await commitKeys(gateway, "untracked", 20);
    const safe = await send(gateway, [put("safe")], { ack: "durable", maxWaitMs: 300 });
    assert.equal(safe.status, 202, "a timeout is not a loss");
    for (const region of system.regions) await system.restartService(region, "tracker");
    await assertTruth(system, { tracker: system.tracker(EAST).url, node: EAST }, [
      ...written,
      { key: "safe", token: safe.body.token },
    ]);
  });

  it("a clean restart: a new epoch, and nothing is lost", async () => {
    const { gateway, tracker } = { gateway: system.gateway(EAST).url, tracker: system.tracker(EAST).url };
    const epoch = await epochOf(tracker);
    const written = await commitKeys(gateway, "before", 20);
    const read = await commit(gateway, [{ sql: "SELECT count(*) FROM kv" }], { readOnly: true });
    await system.cluster.restart(EAST);
    const { epochs } = await epochAfter(tracker, epoch);
    assert.equal(epochs.at(-1)?.cause, "clean_restart");
    const judged = await assertTruth(system, { tracker, node: EAST }, written);
    for (const found of judged.values()) assert.equal(found.verdict, "durable");
    assert.equal((await verdict(tracker, read.token)).verdict, "durable");
  });

  it("a gateway killed between COMMIT and its answer: the same id, sent again, has run once", async () => {
    const { cluster } = system;
    await cluster.query(EAST, "CREATE TABLE counter (n int)");
    await cluster.query(EAST, "INSERT INTO counter VALUES (0)");
    await cluster.query(EAST, "GRANT ALL ON counter TO app");
    const gateway = system.gateway(EAST);
    const id = newId();
    const statements = [{ sql: "UPDATE counter SET n = n + 1" }];
    const remote = system.gateway(EUROPE);
    // On an existing session, because opening one takes several round trips. The session is free
    // once its reset is answered.
    await commit(remote.url, [{ sql: "UPDATE counter SET n = n" }]);
    await eventually("its session is free", async () => {
      const metrics = await (await fetch(`${remote.url}/metrics`)).text();
      return /^highwater_gateway_pool_sessions\{[^}]*state="idle"[^}]*\} [1-9]/m.test(metrics);
    });
    // The gateway's bytes arrive, but no reply of the database comes back.
    await cluster.link(EAST, EUROPE).cut({ direction: "forward" });
    const answer = send(remote.url, statements, { id }).then(
      () => "answered" as const,
      () => "no answer" as const,
    );
    await eventually("the commit is visible", async () =>
      (await cluster.query(EAST, "SELECT n FROM counter")).some((row) => row.n === 1),
    );
    await remote.kill();
    assert.equal(await answer, "no answer");
    await cluster.link(EAST, EUROPE).heal();
    const replay = await commit(gateway.url, statements, { id });
    assert.equal(replay.replayed, true);
    assert.equal((await cluster.query(EAST, "SELECT n FROM counter"))[0]?.n, 1);
    assert.equal((await stateOf(gateway.url, id)).body.state === "unknown", false);
    assert.equal((await verdict(system.tracker(EAST).url, replay.token)).verdict, "durable");
  });
});
