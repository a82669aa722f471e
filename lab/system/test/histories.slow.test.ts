// Goal: histories that once led to a wrong verdict, a double execution or a hang on real servers
// now pass. Method: copies, restores, old primaries and reused ids on a real cluster, with the
// whole product on it. Each verdict is compared with the database of the authoritative node.
import assert from "node:assert/strict";
import { test } from "node:test";
import { System, type SystemOptions } from "../src/index.ts";
import {
  assertTruth,
  commit,
  commitKeys,
  createTable,
  epochAfter,
  epochOf,
  eventually,
  keysOn,
  marksOf,
  newId,
  put,
  putAhead,
  send,
  verdict,
} from "../src/testing.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;

/** Replicas of another history answer but never follow, so weaker levels must be used soon. */
const IMPATIENT: SystemOptions = { env: { TRACKER_PUBLISH_PATIENCE_MS: "300" } };

async function durable(system: System, region: string, written: readonly { token: string }[]): Promise<void> {
  for (const { token } of written)
    assert.equal((await verdict(system.tracker(region).url, token)).verdict, "durable");
}

test("a copy of a cleanly stopped primary is started in its place after later commits", async () => {
  await using system = await System.start(IMPATIENT);
  const { cluster } = system;
  const [gateway, tracker] = [system.gateway(EAST).url, system.tracker(EAST).url];
  await createTable(system, EAST);
  const early = await commitKeys(gateway, "early", 3);
  await durable(system, EAST, early);
  const first = await epochOf(tracker);
  await cluster.stop(EAST);
  const copy = await cluster.snapshot(EAST);
  await cluster.start(EAST);
  await epochAfter(tracker, first);
  const later = await commitKeys(gateway, "later", 3);
  await durable(system, EAST, later);
  const second = await epochOf(tracker);
  await cluster.kill(EAST);
  await cluster.restore(EAST, copy, { as: "primary" });
  await cluster.start(EAST);
  // Its history lacks the last epoch, so no service follows it without an operator's command.
  const refused = await eventually("the copy is seen", async () => {
    const { status, body } = await send(gateway, [put("refused")]);
    return status === 503 && body.code === "primary_unavailable" ? body : undefined;
  });
  assert.equal(refused.retry, "wait");
  assert.ok(!(await keysOn(system, EAST)).has("refused"));
  await cluster.authorize(EAST, "the copy is all that we have");
  await epochAfter(tracker, second);
  const judged = await assertTruth(system, { tracker, node: EAST }, [...early, ...later]);
  for (const { key } of early) assert.equal(judged.get(key)?.verdict, "durable");
  for (const { key } of later) assert.equal(judged.get(key)?.verdict, "broken", "they had been promised");
});

test("the primary is restored from an older copy while a replica of the newer history stays attached", async () => {
  await using system = await System.start(IMPATIENT);
  const { cluster } = system;
  const [gateway, tracker] = [system.gateway(EAST).url, system.tracker(EAST).url];
  await createTable(system, EAST);
  const early = await commitKeys(gateway, "early", 3);
  await durable(system, EAST, early);
  const epoch = await epochOf(tracker);
  const copy = await cluster.snapshot(EAST);
  const later = await commitKeys(gateway, "later", 10);
  await durable(system, EAST, later);
  await cluster.kill(EAST);
  await cluster.restore(EAST, copy, { as: "primary" });
  await cluster.start(EAST);
  const { epochs } = await epochAfter(tracker, epoch);
  const restored = epochs.at(-1);
  for (const { body } of later)
    assert.ok(
      BigInt(restored?.forkOffset ?? "0") < BigInt(body.position.offset),
      "nothing behind the copy is carried over",
    );
  // No replica follows the copy, and one could still be promoted, so the losses wait for an
  // operator's command.
  for (const { body } of later)
    assert.equal((await verdict(tracker, body.token, { waitMs: 1_000 })).verdict, "pending");
  await cluster.authorize(EAST, "the copy is what we want");
  const judged = await assertTruth(system, { tracker, node: EAST }, [...early, ...later]);
  for (const { key } of later) assert.equal(judged.get(key)?.verdict, "broken");
  // The replicas' positions are above all that the restored primary writes now, and prove nothing.
  const fresh = await commitKeys(gateway, "fresh", 3);
  for (const { key, token } of fresh) {
    const found = await verdict(tracker, token, { waitMs: 1_000 });
    const held = (await keysOn(system, WEST)).has(key) || (await keysOn(system, EUROPE)).has(key);
    assert.equal(found.verdict, held ? "durable" : "pending", key);
  }
});

test("a lost id is retried on the new primary before the look-up; then a replica without the retry takes over", async () => {
  await using system = await System.start(IMPATIENT);
  const { cluster } = system;
  await createTable(system, EAST);
  const id = newId();
  await putAhead(system, { heir: WEST, other: EUROPE });
  await cluster.isolate(EAST);
  const first = await commit(system.gateway(EAST).url, [put("twice")], { id });
  assert.equal(first.state, "committed");
  for (const region of system.regions) await system.tracker(region).kill();
  await system.killRegion(EAST);
  await cluster.promote(WEST);
  // No tracker is there to look anything up, so the gateway itself begins the epoch.
  await commit(system.gateway(WEST).url, [put("between")]);
  await eventually("the other replica has followed", async () =>
    (await keysOn(system, EUROPE)).has("between"),
  );
  await cluster.link(WEST, EUROPE).cut();
  const second = await commit(system.gateway(WEST).url, [put("twice")], { id });
  assert.notEqual(second.token, first.token);
  assert.equal(second.replayed, undefined, "the first attempt is not in this history: the second has run");
  await system.killRegion(WEST);
  await system.restartService(EUROPE, "tracker");
  await cluster.promote(EUROPE);
  const tracker = system.tracker(EUROPE).url;
  await commit(system.gateway(EUROPE).url, [put("after")]);
  assert.ok(!(await keysOn(system, EUROPE)).has("twice"));
  for (const { token } of [first, second]) {
    const found = await verdict(tracker, token);
    assert.equal(found.verdict, "lost", JSON.stringify(found));
  }
  const third = await eventually("the gateway knows of the loss as well", async () => {
    const { status, body } = await send(system.gateway(EUROPE).url, [put("twice")], { id });
    return status !== 503 && body;
  });
  // Only one region is left. An operator's command promoted it, which makes its losses final.
  assert.equal(third.code, "transaction_lost");
  assert.ok(!(await keysOn(system, EUROPE)).has("twice"));
});

test("the old primary of a lost transaction is brought back as primary", async () => {
  await using system = await System.start(IMPATIENT);
  const { cluster } = system;
  await createTable(system, EAST);
  await putAhead(system, { heir: WEST, other: EUROPE });
  await cluster.isolate(EAST);
  const lost = await commitKeys(system.gateway(EAST).url, "lost", 3);
  // It is on the old primary's disk only.
  for (const { token } of lost)
    assert.equal((await verdict(system.tracker(EAST).url, token, { level: "disk" })).verdict, "durable");
  await system.killRegion(EAST);
  await cluster.promote(WEST);
  await assertTruth(system, { tracker: system.tracker(EUROPE).url, node: WEST }, lost);
  const kept = await commitKeys(system.gateway(WEST).url, "kept", 3);
  await durable(system, WEST, kept);
  const epoch = await epochOf(system.tracker(EUROPE).url);
  await system.killRegion(WEST);
  await cluster.healAll();
  await cluster.startAsPrimary(EAST);
  await cluster.authorize(EAST, "the older data is what we want");
  await epochAfter(system.tracker(EUROPE).url, epoch);
  const tracker = system.tracker(EUROPE).url;
  const present = await keysOn(system, EAST);
  for (const { key, token } of lost) {
    assert.ok(present.has(key));
    const found = await eventually("the return is noticed", async () => {
      const now = await verdict(tracker, token);
      return now.verdict === "broken" ? now : undefined;
    });
    assert.equal(found.rule, "R8 reappeared");
  }
  for (const { key, token } of kept) {
    assert.ok(!present.has(key));
    assert.equal(
      (await verdict(tracker, token)).verdict,
      "broken",
      "it had been promised in the epoch that was given up",
    );
  }
});

test("the old primary crash-restarts several times, with more epochs, while another node was promoted", async () => {
  await using system = await System.start(IMPATIENT);
  const { cluster } = system;
  await createTable(system, EAST);
  const [east, eastTracker] = [system.gateway(EAST).url, system.tracker(EAST).url];
  await putAhead(system, { heir: WEST, other: EUROPE });
  await cluster.isolate(EAST);
  const before = await commitKeys(east, "before", 3);
  await cluster.promote(WEST);
  let epoch = await epochOf(eastTracker);
  for (let round = 0; round < 3; round++) {
    await cluster.crashBackend(EAST);
    epoch = (await epochAfter(eastTracker, epoch)).marks?.epoch ?? "";
  }
  const zombie = await commitKeys(east, "zombie", 3);
  const west = await commitKeys(system.gateway(WEST).url, "west", 3);
  await durable(system, WEST, west);
  const zombieSeq = (await marksOf(eastTracker)).marks?.seq ?? 0;
  const westSeq = (await marksOf(system.tracker(WEST).url)).marks?.seq ?? 0;
  assert.ok(zombieSeq > westSeq, "the higher number is on the wrong side");
  const chosen = await epochOf(system.tracker(WEST).url);
  await cluster.healAll();
  await eventually(
    "the old side follows the chosen one",
    async () => (await marksOf(eastTracker)).marks?.epoch === chosen,
  );
  const all = [...before, ...zombie, ...west];
  await assertTruth(system, { tracker: system.tracker(EUROPE).url, node: WEST }, all);
  await assertTruth(system, { tracker: eastTracker, node: WEST }, all);
});

test("read-only transactions across a clean switchover", async () => {
  await using system = await System.start();
  const { cluster } = system;
  await createTable(system, EAST);
  const written = await commitKeys(system.gateway(EAST).url, "written", 3);
  await durable(system, EAST, written);
  const reads = [];
  for (let i = 0; i < 5; i++)
    reads.push(await commit(system.gateway(EAST).url, [{ sql: "SELECT key FROM kv" }], { readOnly: true }));
  // The survivors know the replicas' positions, which on an idle log cover all of it.
  for (const { token } of reads)
    assert.equal((await verdict(system.tracker(WEST).url, token)).verdict, "durable");
  await cluster.stop(EAST);
  await cluster.promote(WEST);
  const late = system.tracker(EUROPE).url;
  for (const { token } of [...reads, ...written]) {
    const found = await verdict(late, token);
    assert.equal(found.verdict, "durable", JSON.stringify(found));
  }
});
