// Goal: the verdicts are right after two failovers in a row, and after a crash that only restarts
// the server. Method: as in failover.test.ts.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
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
  put,
  send,
  verdict,
} from "../src/testing.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;

/**
 * Makes commits stay in the primary's memory: nothing flushes them for a while, and nothing leaves
 * the region.
 */
async function losable(system: System): Promise<void> {
  await system.cluster.query(EAST, "ALTER SYSTEM SET wal_writer_delay = '10s'");
  await system.cluster.query(EAST, "SELECT pg_reload_conf()");
}

test("a second failover right after the first", async () => {
  await using system = await System.start({ env: { TRACKER_PUBLISH_PATIENCE_MS: "300" } });
  await createTable(system, EAST);
  const first = await commitKeys(system.gateway(EAST).url, "first", 5);
  for (const { token } of first)
    assert.equal((await verdict(system.tracker(EAST).url, token, { level: "global" })).verdict, "durable");
  await system.cluster.isolate(EAST);
  const lost = await commitKeys(system.gateway(EAST).url, "lost", 5);
  await system.killRegion(EAST);
  // The other replica cannot follow a node that has received less, and either link may have been
  // cut first.
  const heir = await system.cluster.mostAdvancedReplica();
  const last = heir === WEST ? EUROPE : WEST;
  await system.cluster.promote(heir);
  // A PostgreSQL that is promoted just when it begins to receive a new timeline can panic over its
  // first segment.
  await system.cluster.waitForStreaming([last]);
  const second = await commitKeys(system.gateway(last).url, "second", 3);
  await system.killRegion(heir);
  await system.cluster.promote(last);
  const third = await commitKeys(system.gateway(last).url, "third", 3);
  const tracker = system.tracker(last).url;
  const present = await keysOn(system, last);
  const judge = async (key: string, token: string, waitMs = 60_000): Promise<string> => {
    const found = await verdict(tracker, token, { waitMs });
    assert.equal(
      found.verdict === "lost" || found.verdict === "broken",
      !present.has(key),
      JSON.stringify(found),
    );
    return found.verdict;
  };
  for (const { key, token } of first) assert.equal(await judge(key, token), "durable");
  for (const { key, token } of lost) assert.equal(await judge(key, token), "lost");
  // Only one region is left: the survivors are durable on disk and wait for another region.
  for (const { key, token } of second) if (!present.has(key)) await judge(key, token);
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
  // The crash must find unflushed commits. The service flushes at once, so several attempts may be
  // needed.
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
  const { epochs } = await marksOf(tracker);
  assert.ok(epochs.some(({ cause }) => cause === "crash_recovery"));
  for (const { key, body } of lost) {
    assert.equal(judged.get(key)?.verdict, "lost");
    // A naive comparison of offsets would report it as durable.
    await eventually("the new epoch's mark has passed the lost position", async () => {
      const { marks } = await marksOf(tracker);
      return BigInt(marks?.levels.region ?? "0") >= BigInt(body.position.offset);
    });
  }
});

test("the rows of an UNLOGGED table are gone after a crash, and trackers have warned of it", async () => {
  await using system = await System.start();
  const { gateway, tracker } = { gateway: system.gateway(EAST).url, tracker: system.tracker(EAST) };
  const create = { sql: "CREATE UNLOGGED TABLE basket (item text)" };
  await commit(gateway, [create], { ack: "durable" });
  const put = { sql: "INSERT INTO basket VALUES ('apple')" };
  const { token, position } = await commit(gateway, [put], { ack: "durable", level: "global" });
  await system.cluster.crashBackend(EAST);
  await epochAfter(tracker.url, position.epoch);
  assert.equal((await verdict(tracker.url, token, { level: "global" })).verdict, "durable");
  assert.deepEqual(await system.cluster.query(EAST, "SELECT FROM basket"), []);
  await eventually("the tracker names it", async () => {
    const lines = (await readFile(tracker.logFile, "utf8")).split("\n");
    return lines.some((line) => line.includes("tables_unlogged") && line.includes("public.basket"));
  });
});
