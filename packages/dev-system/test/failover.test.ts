// Goal: every way in which a reign can end gives the right verdicts, and only those.
// Method: the whole product as real processes; commits that provably cannot have replicated (links cut, walwriter slow);
// then the fault; then each verdict is compared with what the database has.
import assert from "node:assert/strict";
import { test } from "node:test";
import { System } from "../src/index.ts";
import {
  assertTruth,
  commit,
  commitKeys,
  createTable,
  epochAfter,
  eventually,
  keysOn,
  marksOf,
  newId,
  put,
  send,
  stateOf,
  verdict,
} from "../src/testing.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;

/** Commits that only the primary's memory has: nothing flushes them for a while, and nothing can leave the region. */
async function losable(system: System): Promise<void> {
  await system.cluster.query(EAST, "ALTER SYSTEM SET wal_writer_delay = '10s'");
  await system.cluster.query(EAST, "SELECT pg_reload_conf()");
}

test("a killed region: what had replicated is durable, the rest is lost, the service goes on elsewhere", async () => {
  await using system = await System.start();
  await createTable(system, EAST);
  const early = await commitKeys(system.gateway(EAST).url, "early", 10);
  await assertTruth(system, { tracker: system.tracker(EAST).url, node: EAST }, early);
  await system.cluster.isolate(EAST);
  const late = await commitKeys(system.gateway(EAST).url, "late", 10);
  await system.killRegion(EAST);
  await system.cluster.promote(await system.cluster.mostAdvancedReplica());
  const after = await commit(system.gateway(WEST).url, [put("after")], { ack: "durable" });
  const place = { tracker: system.tracker(EUROPE).url, node: WEST };
  const judged = await assertTruth(system, place, [...early, ...late, { key: "after", token: after.token }]);
  for (const { key } of late) assert.equal(judged.get(key)?.verdict, "lost");
  // The other survivor says the same.
  await assertTruth(system, { tracker: system.tracker(WEST).url, node: WEST }, [...early, ...late]);
});

test("a second failover right after the first", async () => {
  await using system = await System.start({ env: { TRACKER_PUBLISH_PATIENCE_MS: "300" } });
  await createTable(system, EAST);
  const first = await commitKeys(system.gateway(EAST).url, "first", 5);
  for (const { token } of first)
    assert.equal((await verdict(system.tracker(EAST).url, token, { level: "global" })).verdict, "durable");
  await system.cluster.isolate(EAST);
  const lost = await commitKeys(system.gateway(EAST).url, "lost", 5);
  await system.killRegion(EAST);
  // The other one cannot follow a node that has received less than itself, and either link may have been cut first.
  const heir = await system.cluster.mostAdvancedReplica();
  const last = heir === WEST ? EUROPE : WEST;
  await system.cluster.promote(heir);
  // A PostgreSQL that is promoted while it is just beginning to receive a new timeline can panic over its first segment.
  await system.cluster.waitForStreaming([last]);
  const second = await commitKeys(system.gateway(last).url, "second", 3);
  await system.killRegion(heir);
  await system.cluster.promote(last);
  const third = await commitKeys(system.gateway(last).url, "third", 3);
  const tracker = system.tracker(last).url;
  const present = await keysOn(system, last);
  const judge = async (key: string, token: string, waitMs: number): Promise<string> => {
    const found = await verdict(tracker, token, { waitMs });
    assert.equal(
      found.verdict === "lost" || found.verdict === "broken",
      !present.has(key),
      JSON.stringify(found),
    );
    return found.verdict;
  };
  for (const { key, token } of first) assert.equal(await judge(key, token, 20_000), "durable");
  for (const { key, token } of lost) assert.equal(await judge(key, token, 20_000), "lost");
  // One region is left: whatever survived is as durable as it can be, and waits for another region.
  for (const { key, token } of second) if (!present.has(key)) await judge(key, token, 20_000);
  for (const { key, token } of third) assert.equal(await judge(key, token, 300), "pending");
  for (const { token } of third)
    assert.equal((await verdict(tracker, token, { level: "disk" })).verdict, "durable");
});

test("one killed backend: a new epoch on the same timeline, and marks that pass a lost position prove nothing", async () => {
  await using system = await System.start();
  await createTable(system, EAST);
  await losable(system);
  const { gateway, tracker } = { gateway: system.gateway(EAST).url, tracker: system.tracker(EAST).url };
  const before = (await marksOf(tracker)).marks;
  assert.ok(before !== null);
  const kept = await commitKeys(gateway, "kept", 3);
  await assertTruth(system, { tracker, node: EAST }, kept);
  // The crash must find commits that nothing has flushed; the service flushes at once, so several attempts may be needed.
  const written = [...kept];
  let lost: typeof kept = [];
  let epoch = before.epoch;
  for (let round = 0; round < 20 && lost.length === 0; round++) {
    const storm = Promise.all(
      Array.from({ length: 40 }, async (_, i) => {
        const key = `storm-${String(round)}-${String(i)}`;
        const { status, body } = await send(gateway, [put(key)]);
        return status === 200 ? [{ key, token: body.token, body }] : [];
      }),
    );
    const crash = system.cluster.crashBackend(EAST);
    const batch = (await storm).flat();
    await crash;
    epoch = (await epochAfter(tracker, epoch)).marks?.epoch ?? epoch;
    await commit(gateway, [put(`round-${String(round)}`)], { ack: "durable" });
    written.push(...batch);
    const present = await keysOn(system, EAST);
    lost = batch.filter(({ key }) => !present.has(key));
  }
  await commitKeys(gateway, "filler", 30);
  await commit(gateway, [put("last")], { ack: "durable" });
  assert.ok(lost.length > 0, "no crash in twenty met a commit that nothing had flushed");
  const judged = await assertTruth(system, { tracker, node: EAST }, written);
  const { marks, epochs } = await marksOf(tracker);
  assert.ok(epochs.some(({ cause }) => cause === "crash_recovery"));
  for (const { key, body } of lost) {
    assert.equal(judged.get(key)?.verdict, "lost");
    // What a naive comparison would have said.
    assert.ok(
      BigInt(marks?.levels.region ?? "0") >= BigInt(body.position.offset),
      "the new epoch's mark has passed the lost position",
    );
  }
});

test("a clean restart: a new epoch, and nothing is lost", async () => {
  await using system = await System.start();
  await createTable(system, EAST);
  const { gateway, tracker } = { gateway: system.gateway(EAST).url, tracker: system.tracker(EAST).url };
  const epoch = (await marksOf(tracker)).marks?.epoch ?? "";
  const written = await commitKeys(gateway, "before", 20);
  const read = await commit(gateway, [{ sql: "SELECT count(*) FROM kv" }], { readOnly: true });
  await system.cluster.restart(EAST);
  const { epochs } = await epochAfter(tracker, epoch);
  assert.equal(epochs.at(-1)?.cause, "clean_restart");
  const judged = await assertTruth(system, { tracker, node: EAST }, written);
  for (const found of judged.values()) assert.equal(found.verdict, "durable");
  assert.equal((await verdict(tracker, read.token)).verdict, "durable");
});

test("a replica cut off and healed: durability waits for it, and the mark goes on where it stood", async () => {
  await using system = await System.start();
  await createTable(system, EAST);
  const { gateway, tracker } = { gateway: system.gateway(EAST).url, tracker: system.tracker(EAST).url };
  await system.cluster.link(EAST, EUROPE).cut();
  const token = (await commit(gateway, [put("while-cut")])).token;
  assert.equal((await verdict(tracker, token)).verdict, "durable", "the other region is enough");
  assert.equal((await verdict(tracker, token, { level: "global", waitMs: 500 })).verdict, "pending");
  await system.cluster.link(EAST, EUROPE).heal();
  assert.equal((await verdict(tracker, token, { level: "global" })).verdict, "durable");
});

test("the tracker is down: commits go on, durability waits, and nothing is lost when it returns", async () => {
  await using system = await System.start();
  await createTable(system, EAST);
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

test("a gateway killed between COMMIT and its answer: the same id, sent again, has run once", async () => {
  await using system = await System.start();
  await createTable(system, EAST);
  const { cluster } = system;
  await cluster.query(EAST, "CREATE TABLE counter (n int)");
  await cluster.query(EAST, "INSERT INTO counter VALUES (0)");
  await cluster.query(EAST, "GRANT ALL ON counter TO app");
  const gateway = system.gateway(EAST);
  const id = newId();
  const statements = [{ sql: "UPDATE counter SET n = n + 1" }];
  // The reply of the database comes half a second after the commit, which is time enough to kill the gateway in between.
  const remote = system.gateway(EUROPE);
  // On a session that is there already: to open one takes several round trips.
  await commit(remote.url, [{ sql: "UPDATE counter SET n = n" }]);
  await cluster.link(EAST, EUROPE).setRoundTripMs(1_000);
  const answer = send(remote.url, statements, { id }).then(
    () => "answered" as const,
    () => "no answer" as const,
  );
  await eventually("the commit is visible", async () =>
    (await cluster.query(EAST, "SELECT n FROM counter")).some((row) => row.n === 1),
  );
  await remote.kill();
  assert.equal(await answer, "no answer");
  const replay = await commit(gateway.url, statements, { id });
  assert.equal(replay.replayed, true);
  assert.equal((await cluster.query(EAST, "SELECT n FROM counter"))[0]?.n, 1);
  assert.equal((await stateOf(gateway.url, id)).body.state === "unknown", false);
  assert.equal((await verdict(system.tracker(EAST).url, replay.token)).verdict, "durable");
});
