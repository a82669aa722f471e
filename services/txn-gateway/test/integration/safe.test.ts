// Goal: a safe transaction that waits for its mark holds nothing of the database. Method: a scripted peer in a tracker's
// place decides when marks come; a real primary shows which sessions and locks are held meanwhile.
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { type EpochRecord, type TransactionResponse } from "@highwater/protocol";
import { newId } from "../support/fakes.ts";
import { problemOf, TestGateway } from "../support/gateway.ts";
import { readEpoch } from "../support/cluster.ts";
import { TrackerPeer } from "../support/tracker-peer.ts";

const POOL = 8;
const WAITING = 500;
const MAX_OFFSET = 2n ** 63n;

let cluster: Cluster;
let tracker: TrackerPeer;
let gateway: TestGateway;
let epoch: EpochRecord;

before(async () => {
  cluster = await startCluster({ nodes: [{ id: "a", region: "us-east" }] });
  const first = await TestGateway.start(cluster);
  await first.ready();
  await first.run(
    "CREATE TABLE counter (id int PRIMARY KEY, n int NOT NULL)",
    "INSERT INTO counter VALUES (1, 0)",
  );
  await first.close();
  epoch = await readEpoch(cluster, "a");
  tracker = await new TrackerPeer().start();
  tracker.sendEpochs([epoch]);
  gateway = await TestGateway.start(cluster, {
    trackers: [tracker.url],
    env: { GATEWAY_POOL_SIZE: String(POOL), GATEWAY_MAX_WAITING: String(WAITING) },
  });
  await gateway.ready();
});

after(async () => {
  await gateway.close();
  tracker.stop();
  await cluster.close();
});

it(`${String(WAITING)} safe transactions wait on a pool of ${String(POOL)}, all on one row, and no session or lock is held`, async () => {
  const increment = [{ sql: "UPDATE counter SET n = n + 1 WHERE id = 1" }];
  const waits = Array.from({ length: WAITING }, () =>
    gateway.post({
      id: newId(),
      statements: increment,
      isolation: "read committed",
      ack: "durable",
      level: "global",
      maxWaitMs: 60_000,
    }),
  );
  await eventually("all of them wait", async () => {
    return (await gateway.metric("highwater_gateway_durability_waits")) === WAITING;
  });
  // The last of them may still be reset behind its answer.
  const sessions = await eventually("no session is busy", async () => {
    const [row] = await cluster.query(
      "a",
      `SELECT count(*) FILTER (WHERE state <> 'idle')::int AS busy, count(*)::int AS sessions
       FROM pg_stat_activity WHERE application_name = $1`,
      [`highwater:${gateway.name}`],
    );
    return row?.["busy"] === 0 && Number(row["sessions"]);
  });
  assert.ok(sessions > 0 && sessions <= POOL, `${String(sessions)} sessions`);
  const [locks] = await cluster.query(
    "a",
    "SELECT count(*)::int AS held FROM pg_locks WHERE relation = 'counter'::regclass",
  );
  assert.equal(locks?.["held"], 0);

  // Everybody else goes on, on the very row.
  const { body } = await gateway.commit({ statements: increment, isolation: "read committed" });
  assert.equal(body.state, "committed");
  // One more that would have to wait is refused before it has done anything.
  const refused = problemOf(await gateway.post({ statements: increment, ack: "durable", level: "global" }));
  assert.deepEqual([refused.status, refused.code, refused.limit?.name], [503, "overloaded", "maxWaiting"]);

  tracker.sendMarks({ epoch: epoch.id, seq: epoch.seq, levels: { global: MAX_OFFSET.toString() } });
  for (const { status, body: answer } of await Promise.all(waits)) {
    assert.equal(status, 200);
    assert.equal((answer as TransactionResponse).state, "durable");
  }
  const [row] = await cluster.query("a", "SELECT n FROM counter");
  assert.equal(row?.["n"], WAITING + 1);
});
