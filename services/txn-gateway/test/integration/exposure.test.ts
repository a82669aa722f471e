// Goal: what is committed and not durable yet stays within its limit on every way into the gateway, and reads and safe
// transactions go on. Method: a real primary, and a scripted peer in a tracker's place that decides when marks come.
import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, it } from "node:test";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { type EpochRecord, type Problem } from "@highwater/protocol";
import { readEpoch } from "../support/cluster.ts";
import { newId } from "../support/fakes.ts";
import { type GatewayResponse, problemOf, statementsOf, TestGateway } from "../support/gateway.ts";
import { TrackerPeer } from "../support/tracker-peer.ts";

const MOST = 5;
const MAX_OFFSET = String(2n ** 63n);
const insert = { statements: [{ sql: "INSERT INTO entry DEFAULT VALUES" }] };

let cluster: Cluster;
let tracker: TrackerPeer;
let gateway: TestGateway;
let epoch: EpochRecord;

before(async () => {
  cluster = await startCluster({ nodes: [{ id: "a", region: "us-east" }] });
  const first = await TestGateway.start(cluster);
  await first.ready();
  await first.run("CREATE TABLE entry (n serial PRIMARY KEY)");
  await first.close();
  epoch = await readEpoch(cluster, "a");
});

beforeEach(async () => {
  tracker = await new TrackerPeer().start();
  tracker.sendEpochs([epoch]);
  gateway = await TestGateway.start(cluster, {
    trackers: [tracker.url],
    env: { GATEWAY_EXPOSURE_TRANSACTIONS: String(MOST) },
  });
  await gateway.ready();
  await tracker.until(() => tracker.streams === 1);
});

afterEach(async () => {
  await gateway.close();
  tracker.stop();
});

after(() => cluster.close());

const entries = async (): Promise<number> => {
  const [row] = await cluster.query("a", "SELECT count(*)::int AS n FROM entry");
  return Number(row?.["n"]);
};

async function fill(): Promise<void> {
  for (let count = 0; count < MOST; count++) assert.equal((await gateway.commit(insert)).status, 200);
}

/** Everything at or below the offset is durable; so is then everything that was committed so far. */
function mark(offset = MAX_OFFSET): Promise<true> {
  tracker.sendMarks({ epoch: epoch.id, seq: epoch.seq, levels: { global: offset } });
  return eventually("a mark has come", async () => {
    return (await gateway.metric('highwater_gateway_exposure_transactions{state="pending"}')) === 0;
  });
}

function isLimited(problem: Problem): void {
  const { status, code, outcome, retry, limit, exposure } = problem;
  assert.deepEqual([status, code, outcome, retry], [503, "exposure_limit", "not_applied", "wait"]);
  assert.deepEqual(limit, { name: "exposureTransactions", value: MOST });
  assert.equal(exposure?.transactions, MOST);
  assert.ok(BigInt(exposure.bytes) > 0n);
  assert.ok(exposure.oldestMs !== null && exposure.oldestMs >= 0);
}

it("fast transactions are refused at the limit, reads and safe ones are not, and a mark makes room", async () => {
  await fill();
  const before = await entries();
  isLimited(await gateway.refused(insert));
  assert.equal(await entries(), before, "nothing of it has run");
  assert.equal((await gateway.post({ readOnly: true })).status, 200);
  const safe = await gateway.commit({ ...insert, ack: "durable", maxWaitMs: 0 });
  assert.deepEqual([safe.status, safe.body.state], [202, "pending"]);
  assert.equal(
    await gateway.metric('highwater_gateway_exposure_used{limit="exposureTransactions"}'),
    MOST + 1,
  );
  await mark(safe.body.position.offset);
  await fill();
  isLimited(await gateway.refused(insert));
});

it("a hundred at once: exactly as many commit as may", async () => {
  const before = await entries();
  const answers = await Promise.all(Array.from({ length: 100 }, () => gateway.post(insert)));
  const committed = answers.filter(({ status }) => status === 200).length;
  assert.equal(committed, MOST);
  assert.equal(await entries(), before + MOST);
  for (const answer of answers)
    if (answer.status !== 200) assert.equal(problemOf(answer).code, "exposure_limit");
});

it("an interactive commit is refused at the limit and may come again; a safe one and a read are let through", async () => {
  const [fast, safe, read] = [
    await gateway.open(statementsOf(["INSERT INTO entry DEFAULT VALUES"])),
    await gateway.open(statementsOf(["INSERT INTO entry DEFAULT VALUES"])),
    await gateway.open({ readOnly: true }),
  ];
  await fill();
  const problem = problemOf(await fast.send("commit", { seq: 1 }));
  isLimited(problem);
  assert.equal(problem.open, true);
  assert.equal((await read.commit()).status, 200);
  assert.equal((await safe.commit({ ack: "durable", maxWaitMs: 0 })).status, 202);
  const begun = await gateway.open();
  await begun.rollback();
  await mark();
  assert.equal((await fast.send("commit", { seq: 1 })).status, 200);
  assert.equal(await gateway.metric('highwater_gateway_exposure_transactions{state="reserved"}'), 0);
});

it("a commit with the header of an earlier begin reserves nothing", async () => {
  const id = newId();
  const earlier = await gateway.open({ id, metadata: { attempt: "1" } });
  await earlier.rollback();
  const open = await gateway.open({ id, metadata: { attempt: "2" } });
  for (let count = 0; count < 2 * MOST; count++) {
    const stale = await open.send("commit", { seq: 1 }, { session: earlier.session });
    assert.equal(problemOf(stale).code, "transaction_not_open");
  }
  assert.equal(await gateway.metric('highwater_gateway_exposure_transactions{state="reserved"}'), 0);
  assert.equal((await open.commit()).status, 200);
});

it("where not even a safe transaction could commit none is begun", async () => {
  await fill();
  for (let count = 0; count < MOST; count++)
    assert.equal((await gateway.commit({ ...insert, ack: "durable", maxWaitMs: 0 })).status, 202);
  assert.equal((await gateway.refused({ ...insert, ack: "durable" })).code, "exposure_limit");
  const problem = problemOf(await gateway.call("/begin", { id: newId() }));
  assert.deepEqual([problem.code, problem.open], ["exposure_limit", undefined]);
  const read = await gateway.open({ readOnly: true });
  await read.rollback();
});

it("POST /sql has the same limit", async () => {
  await fill();
  const response = await fetch(`${gateway.url}/sql`, {
    method: "POST",
    body: JSON.stringify({ query: "INSERT INTO entry DEFAULT VALUES", params: [] }),
  });
  const body = (await response.json()) as { code: string; highwater: { code: string; limit: unknown } };
  assert.deepEqual([response.status, body.code, body.highwater.code], [503, "53400", "exposure_limit"]);
  assert.deepEqual(body.highwater.limit, { name: "exposureTransactions", value: MOST });
  assert.ok(Number(response.headers.get("retry-after")) >= 1);
});

it("what has come to nothing leaves no trace in the account", async () => {
  const failing: Promise<GatewayResponse<unknown>>[] = [];
  for (let count = 0; count < 3 * MOST; count++) {
    failing.push(gateway.post({ statements: [{ sql: "SELECT 1/0" }] }));
    failing.push(gateway.post({ statements: [{ sql: "COMMIT" }] }));
    await failing.at(-1);
  }
  // Each takes a place until it has failed; the commit below must find one.
  await Promise.all(failing);
  const open = await gateway.open();
  assert.equal((await open.send("commit", statementsOf(["SELECT nonsense"]))).status, 422);
  const id = newId();
  await gateway.commit({ id, ...insert });
  for (let count = 0; count < MOST; count++)
    assert.equal((await gateway.commit({ id, ...insert })).body.replayed, true);
  assert.equal(await gateway.metric('highwater_gateway_exposure_transactions{state="reserved"}'), 0);
  assert.equal(await gateway.metric('highwater_gateway_exposure_transactions{state="pending"}'), 1);
});

it("trackers get the region, and how long a transaction may stay at risk at which level", async () => {
  const [once, opened, changed] = [newId(), newId(), newId()];
  await gateway.commit({ id: once, ...insert, maxDelayMs: 2_000, level: "disk" });
  await (await gateway.open({ id: opened, maxDelayMs: 3_000 })).commit();
  await (await gateway.open({ id: changed, maxDelayMs: 3_000 })).commit({ maxDelayMs: 4_000, level: "disk" });
  const reported = (id: string): unknown[] =>
    tracker.announcements.flatMap((one) => {
      if (one.id !== id || one.kind !== "intent") return [];
      const { kind, maxDelayMs, level } = one;
      return [{ kind, maxDelayMs, level }];
    });
  await tracker.until(() => [once, opened, changed].every((id) => tracker.positionOf(id) !== undefined));
  assert.deepEqual(reported(once)[0], { kind: "intent", maxDelayMs: 2_000, level: "disk" });
  assert.deepEqual(reported(opened)[0], { kind: "intent", maxDelayMs: 3_000, level: "global" });
  assert.deepEqual(reported(changed)[0], { kind: "intent", maxDelayMs: 4_000, level: "disk" });
  assert.deepEqual([...tracker.regions], ["us-east"]);
});
