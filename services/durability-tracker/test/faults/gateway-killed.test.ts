// Goal: trackers settle every transaction that a killed gateway had announced, whether or not it had committed, and all
// trackers agree. Repeated announcements change nothing.
// Method: a proxy stops the gateway's announcements at the step, and the process is killed there.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type TxnId } from "@highwater/protocol";
import { testDeploymentKeys } from "@highwater/service/testing";
import pg from "pg";
import { EAST, eventually, FaultySystem, isIntentOf, isPositionOf, newId, WEST } from "./support.ts";

/** Long enough for a commit, short enough for a test: after it an id without a position is looked up. */
const PATIENCE = { TRACKER_INTENT_PATIENCE_MS: "2000" };

async function lock(connectionString: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  await client.query("BEGIN");
  await client.query("LOCK TABLE kv");
  return client;
}

test("kill -9 of a gateway at each step: nothing that it committed is forgotten", async () => {
  await using faulty = await FaultySystem.start(PATIENCE);
  const { system } = faulty;
  await faulty.starve(WEST);
  const committed: string[] = [];

  // Committed, and no tracker has the position: the intent alone has to be enough. The table is
  // locked until both trackers have it: on a slow machine an intent that is sent again would
  // otherwise come with the position.
  const silent = newId();
  const locked = await lock(await system.cluster.connectionString(EAST));
  const positions = [EAST, WEST].map((region) => faulty.proxy(region).hold("request", isPositionOf(silent)));
  const [intentEast, intentWest] = [EAST, WEST].map((region) =>
    faulty.proxy(region).hold("answer", isIntentOf(silent)),
  );
  const answer = faulty.put(silent).then(
    () => "answered",
    () => "no answer",
  );
  for (const intent of [intentEast, intentWest]) {
    await intent?.reached;
    intent?.release();
  }
  await locked.end();
  for (const position of positions) await position.reached;
  await system.gateway(EAST).kill();
  // Its last words must not reach a tracker after its death.
  for (const position of positions) {
    await position.abandoned;
    position.release();
  }
  assert.ok(["answered", "no answer"].includes(await answer));
  assert.ok((await faulty.keysOn(EAST)).has(silent), "it had committed");
  committed.push(silent);
  await system.restartService(EAST, "gateway");
  await system.ready();
  faulty.useGateway(EAST);

  // One tracker has the position, the other has not: they may not differ.
  const half = newId();
  const withheld = faulty.proxy(WEST).hold("request", isPositionOf(half));
  const known = faulty.proxy(EAST).hold("answer", isPositionOf(half));
  await faulty.put(half);
  await Promise.all([withheld.reached, known.reached]);
  known.release();
  await system.gateway(EAST).kill();
  await withheld.abandoned;
  withheld.release();
  committed.push(half);
  await system.restartService(EAST, "gateway");
  await system.ready();
  faulty.useGateway(EAST);

  // An intent that never committed, for its gateway died: it is settled, and no tracker ever calls it lost.
  const { epoch } = (await (await fetch(`${system.tracker(EAST).url}/readyz`)).json()) as { epoch: string };
  const never = newId();
  const intent = { kind: "intent", by: "gone.1", endsWithinMs: 1_000 };
  for (const region of [EAST, WEST, EAST]) {
    const sent = await fetch(`${system.tracker(region).url}/internal/announcements`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ gateway: "gone", announcements: [{ ...intent, id: never, epoch }] }),
    });
    assert.equal(sent.status, 204);
  }
  await eventually("the id is settled", async () => {
    const rows = await system.cluster.query(EAST, "SELECT kind FROM highwater.receipt WHERE id = $1", [
      never,
    ]);
    return rows[0]?.["kind"] === "aborted";
  });
  const late = await system.cluster
    .query(
      EAST,
      "INSERT INTO highwater.receipt (id, tag, epoch, digest) SELECT $1, $2, id, 7 FROM highwater.epoch_sentinel",
      [never, testDeploymentKeys().receiptTag(0n, never as TxnId)],
    )
    .then(
      () => "committed",
      () => "refused",
    );
  assert.equal(late, "refused", "it can never commit any more");

  // Each tracker looks for itself; before it has, a failover makes the id one of unknown outcome, and so of the lost.
  for (const region of [EAST, WEST])
    await eventually(
      `${region} holds the committed ones only`,
      async () => (await faulty.held(region)) === committed.length,
    );

  await faulty.failOver();
  for (const region of [EAST, WEST]) await faulty.untilReported(region, committed);
  for (const region of [EAST, WEST]) {
    const reported = await faulty.reportedLost(region);
    assert.ok(!reported.includes(never));
    assert.deepEqual(
      reported.filter((id) => committed.includes(id)).sort(),
      [...committed].sort(),
      "each of them once",
    );
  }
  const present = await faulty.keysOn(WEST);
  assert.ok(committed.every((key) => !present.has(key)));
});

test("announcements that were lost on their way and come twice are judged once, by what the database has", async () => {
  await using faulty = await FaultySystem.start();
  const id = newId();
  // The tracker has it on disk, and the gateway gets no answer: it sends the whole batch again.
  const held = faulty.proxy(WEST).hold("answer", isPositionOf(id));
  const written = await faulty.put(id);
  await held.reached;
  await faulty.bounceTracker(WEST, async () => {
    held.release();
    return Promise.resolve();
  });
  const later = await faulty.put();
  for (const region of [EAST, WEST])
    for (const verdict of await faulty.verdicts(region, [written, later]))
      assert.equal(verdict.verdict, "durable");
  await faulty.failOver();
  for (const region of [EAST, WEST])
    for (const verdict of await faulty.verdicts(region, [written, later]))
      assert.equal(verdict.verdict, "durable");
  assert.deepEqual((await faulty.reportedLost(WEST)).concat(await faulty.reportedLost(EAST)), []);
  const present = await faulty.keysOn(WEST);
  assert.ok(present.has(written.id) && present.has(later.id));
});
