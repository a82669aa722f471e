// Announcements, marks and safe transactions: a real gateway and primary, and scripted wire peers in the trackers' place.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { decodeToken, type EpochRecord, type Marks, type TransactionResponse } from "@highwater/protocol";
import { readEpoch } from "../support/cluster.ts";
import { Database } from "../support/database.ts";
import { newId } from "../support/fakes.ts";
import { problemOf, TestGateway } from "../support/gateway.ts";
import { TrackerPeer } from "../support/tracker-peer.ts";

let cluster: Cluster;
let near: TrackerPeer;
let far: TrackerPeer;
let gateway: TestGateway;
let epoch: EpochRecord;
let database: Database;

const insert = { statements: [{ sql: "INSERT INTO entry DEFAULT VALUES" }] };

function marks(global: string | bigint, of: EpochRecord = epoch): Marks {
  return { epoch: of.id, seq: of.seq, levels: { global: global.toString() } };
}

before(async () => {
  cluster = await startCluster({ nodes: [{ id: "a", region: "us-east" }] });
  database = new Database(cluster, "a");
  // The peers begin no epochs, so a first gateway without trackers does.
  const first = await TestGateway.start(cluster);
  await first.ready();
  await first.run("CREATE TABLE entry (n serial)");
  await first.close();
  epoch = await readEpoch(cluster, "a");
  near = await new TrackerPeer().start();
  far = await new TrackerPeer().start();
  near.sendEpochs([epoch]);
  far.sendEpochs([epoch]);
  gateway = await TestGateway.start(cluster, { trackers: [near.url, far.url] });
  await gateway.ready();
});

after(async () => {
  await gateway.close();
  near.stop();
  far.stop();
  await cluster.close();
});

/** Some tracker has acknowledged all that was announced. */
const acknowledged = (of = gateway): Promise<true> =>
  eventually(
    "nothing is unacknowledged",
    async () => (await of.metric("highwater_gateway_unacknowledged_transactions")) === 0,
  );

describe("announcements", () => {
  it("an intent before, the position after, to every tracker", async () => {
    const id = newId();
    const { body } = await gateway.commit({ id, ...insert, metadata: { order: "7" } });
    for (const peer of [near, far]) {
      await peer.until(() => peer.kindsOf(id).length === 2);
      const [intent, position] = peer.announcements.filter((one) => one.id === id);
      assert.ok(intent?.kind === "intent");
      const { by, ...rest } = intent;
      assert.match(by, /^[\w-]{12}\.[0-9a-z]+$/);
      // The whole time of a transaction, 60 s, and the margin in which it is certainly ended.
      const endsWithinMs = 63_000;
      assert.deepEqual(rest, {
        ...{ kind: "intent", id, epoch: epoch.id, endsWithinMs, metadata: { order: "7" } },
      });
      assert.deepEqual(position, { kind: "position", id, ...body.position });
      assert.deepEqual([...peer.gateways], [gateway.name]);
    }
    const gate = await database.gate();
    const slow = gateway.commit({ statements: [gate.inStatement] });
    await gate.reached();
    await acknowledged();
    await gate.open();
    assert.equal((await slow).body.announced, true);
  });

  it("a failed one is withdrawn, a read-only one is not announced, a replay is positioned", async () => {
    const failed = newId();
    await gateway.refused({ id: failed, statements: [{ sql: "SELECT 1/0" }] });
    const refused = newId();
    await gateway.refused({ id: refused, statements: [{ sql: "COMMIT" }] });
    const read = newId();
    await gateway.commit({ id: read, readOnly: true, statements: [{ sql: "SELECT 1" }] });
    const replayed = newId();
    await gateway.commit({ id: replayed, ...insert });
    await gateway.commit({ id: replayed, ...insert });
    await near.until(() => near.kindsOf(replayed).length === 4);
    assert.deepEqual(near.kindsOf(failed), ["intent", "withdrawn"]);
    assert.deepEqual(near.kindsOf(read), []);
    assert.deepEqual(near.kindsOf(replayed), ["intent", "position", "intent", "position"]);
    assert.deepEqual(near.kindsOf(refused), [], "nothing was run");
  });

  it("one that has waited in vain for a session is not announced", async () => {
    const small = await TestGateway.start(cluster, {
      trackers: [near.url],
      env: { GATEWAY_POOL_SIZE: "1", GATEWAY_CONNECT_TIMEOUT_MS: "1000" },
    });
    await small.ready();
    const gate = await database.gate();
    const [runs, waits] = [newId(), newId()];
    const running = small.commit({ id: runs, statements: [gate.inStatement] });
    await gate.reached();
    const { code, outcome } = await small.refused({ id: waits, ...insert });
    assert.deepEqual([code, outcome], ["overloaded", "not_applied"]);
    await gate.open();
    await running;
    // Announcements arrive in their order.
    await near.until(() => near.kindsOf(runs).length === 2);
    assert.deepEqual([near.kindsOf(runs), near.kindsOf(waits)], [["intent", "position"], []]);
    await small.close();
  });

  it("with the trackers down commits go on, and everything is delivered when they return", async () => {
    await acknowledged();
    near.stop();
    far.stop();
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => gateway.commit({ id: newId(), ...insert })),
    );
    for (const { status, body } of answers) assert.deepEqual([status, body.announced], [200, false]);
    assert.equal(await gateway.metric("highwater_gateway_unacknowledged_transactions"), 20);
    // The near one first: a gateway that finds only the far one stays with it for a minute.
    await near.start();
    await near.until(() => near.streams === 1);
    await far.start();
    for (const peer of [near, far])
      await peer.until(() => answers.every(({ body }) => peer.positionOf(body.id) === body.position.offset));
    for (const { body } of answers) assert.deepEqual(near.kindsOf(body.id), ["intent", "position"]);
    await acknowledged();
    assert.ok(near.resumedFrom.length > 0, "the stream is resumed");
  });

  it("at the bound new fast transactions are refused, and let in again when a tracker is back", async () => {
    const peer = await new TrackerPeer().start();
    peer.stop();
    const bounded = await TestGateway.start(cluster, {
      trackers: [peer.url],
      env: { GATEWAY_MAX_PENDING_ANNOUNCEMENTS: "3" },
    });
    await bounded.ready();
    for (let count = 0; count < 3; count++) await bounded.commit(insert);
    const problem = await bounded.refused(insert);
    assert.deepEqual([problem.status, problem.code, problem.outcome], [503, "exposure_limit", "not_applied"]);
    assert.equal((await bounded.post({ readOnly: true })).status, 200);
    await peer.start();
    await peer.until(() => peer.announcements.length === 6);
    await acknowledged(bounded);
    assert.equal((await bounded.commit(insert)).status, 200);
    await bounded.close();
    peer.stop();
  });
});

describe("safe transactions", () => {
  /** Commits, and gives the tracker's mark for it once its position is announced. */
  async function commitSafely(id = newId()): Promise<TransactionResponse> {
    const answer = gateway.commit({ id, ...insert, ack: "durable", level: "global" });
    await near.until(() => near.positionOf(id) !== undefined);
    near.sendMarks(marks(near.positionOf(id) ?? "0"));
    const { status, body } = await answer;
    assert.equal(status, 200);
    return body;
  }

  it("is answered when the mark passes it, and every answer carries the newest marks", async () => {
    const body = await commitSafely();
    assert.deepEqual([body.state, body.level], ["durable", "global"]);
    assert.deepEqual(body.marks, marks(body.position.offset));
    const fast = await gateway.commit(insert);
    assert.deepEqual(fast.body.marks, body.marks);
    assert.deepEqual([fast.body.state, fast.body.level], ["committed", undefined]);
  });

  it("one mark answers any number", async () => {
    const ids = Array.from({ length: 30 }, () => newId());
    const answers = ids.map((id) => gateway.commit({ id, ...insert, ack: "durable", level: "global" }));
    await near.until(() => ids.every((id) => near.positionOf(id) !== undefined));
    const highest = ids.map((id) => BigInt(near.positionOf(id) ?? 0)).reduce((a, b) => (a > b ? a : b));
    near.sendMarks(marks(highest));
    for (const { body } of await Promise.all(answers)) assert.equal(body.state, "durable");
    assert.equal(await gateway.metric("highwater_gateway_durability_waits"), 0);
  });

  it("a timeout is a 202, never a loss", async () => {
    const { status, body } = await gateway.commit({
      ...insert,
      ack: "durable",
      level: "global",
      maxWaitMs: 50,
    });
    assert.deepEqual([status, body.state, body.level], [202, "pending", "global"]);
    assert.equal(decodeToken(body.token)?.id, body.id);
  });

  it("brings its log to disk at once, although nothing was committed synchronously", async () => {
    // The server's own timer is a process. While that is stopped only somebody's flush brings the log to disk.
    const [row] = await database.query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'");
    const walWriter = Number(row?.["pid"]);
    assert.ok(walWriter > 0);
    process.kill(walWriter, "SIGSTOP");
    try {
      const { body } = await gateway.commit(insert);
      await eventually("it is on disk", async () => {
        const [at] = await database.query("SELECT (pg_current_wal_flush_lsn() - '0/0')::text AS flushed");
        return BigInt(String(at?.["flushed"])) >= BigInt(body.position.offset);
      });
    } finally {
      process.kill(walWriter, "SIGCONT");
    }
  });

  it("holds no database connection while it waits", async () => {
    const waiting = Array.from({ length: 24 }, () =>
      gateway.commit({ ...insert, ack: "durable", level: "global", maxWaitMs: 1_000 }),
    );
    // Three times as many as there are connections; a fast one passes them all.
    await gateway.run("SELECT 1");
    for (const { status } of await Promise.all(waiting)) assert.equal(status, 202);
  });

  it("the nearest tracker that can be reached feeds it", async () => {
    near.stop();
    await far.until(() => far.streams === 1);
    const id = newId();
    const answer = gateway.commit({ id, ...insert, ack: "durable", level: "global" });
    await far.until(() => far.positionOf(id) !== undefined);
    far.sendMarks(marks(far.positionOf(id) ?? "0"));
    assert.equal((await answer).body.state, "durable");
    await near.start();
  });

  it("a read-only transaction can wait as well", async () => {
    far.stop();
    await near.until(() => near.streams === 1);
    await far.start();
    const answer = gateway.commit({
      readOnly: true,
      statements: [{ sql: "SELECT 1" }],
      ack: "durable",
      level: "global",
    });
    const [row] = await cluster.query(
      "a",
      "SELECT (pg_current_wal_insert_lsn() - '0/0' + 1000000)::text AS above",
    );
    near.sendMarks(marks(String(row?.["above"])));
    const { body } = await answer;
    assert.equal(body.state, "durable");
    assert.equal(decodeToken(body.token)?.kind, "read");
  });
});

describe("the state of a transaction", () => {
  it("active, then committed, then durable or lost by a tracker's word", async () => {
    const [id, gate] = [newId(), await database.gate()];
    const running = gateway.commit({ id, statements: [gate.inStatement] });
    await near.until(() => near.kindsOf(id).includes("intent"));
    await gate.reached();
    assert.equal((await gateway.state(id)).state, "active");
    const waiting = gateway.state(id, "?wait=30&level=global");
    await gate.open();
    const { body } = await running;
    // What has committed is still looked at for the rest of the time, until its level is reached.
    near.sendMarks(marks(body.position.offset));
    const waited = await waiting;
    assert.equal(waited.state === "committed" || waited.state === "durable", true);
    assert.equal(waited.position?.epoch, body.position.epoch);

    for (const verdict of ["durable", "lost", "broken", "pending"] as const) {
      far.verdict = near.verdict = () => verdict;
      const expected = verdict === "pending" ? ["committed", "durable"] : [verdict];
      assert.ok(expected.includes((await gateway.state(id, "?level=global")).state), verdict);
    }
    far.verdict = near.verdict = () => "pending";
  });

  it("of another gateway's commit the first look waits for the mark, and the next ones go by what it read", async () => {
    const other = await TestGateway.start(cluster);
    await other.ready();
    const id = newId();
    await other.commit({ id, ...insert });
    await other.close();
    const disk = (offset: bigint): Marks => ({
      ...{ epoch: epoch.id, seq: epoch.seq },
      levels: { disk: offset.toString() },
    });
    near.sendMarks(disk(1n));
    const mark = 'highwater_gateway_mark_bytes{level="disk"}';
    await eventually("the mark is heard", async () => (await gateway.metric(mark)) === 1 || undefined);
    const looking = gateway.state(id, "?level=disk");
    let isOver = false;
    void looking.finally(() => (isOver = true));
    while (!isOver) {
      const [row] = await cluster.query("a", "SELECT (pg_current_wal_insert_lsn() - '0/0')::text AS here");
      near.sendMarks(disk(BigInt(String(row?.["here"]))));
    }
    const first = await looking;
    assert.equal(first.state, "durable");
    await gateway.commit(insert);
    const again = await gateway.state(id, "?level=disk");
    assert.deepEqual([again.state, again.position], ["durable", first.position]);
  });

  it("of a tombstone the next looks go by the position that the first one read, however far the log has grown", async () => {
    const here = async (): Promise<bigint> => {
      const [row] = await cluster.query("a", "SELECT (pg_current_wal_insert_lsn() - '0/0')::text AS here");
      return BigInt(String(row?.["here"]));
    };
    const peer = await new TrackerPeer().start();
    peer.sendEpochs([epoch]);
    const looker = await TestGateway.start(cluster, { trackers: [peer.url] });
    const sister = await TestGateway.start(cluster);
    await Promise.all([looker.ready(), sister.ready()]);
    const open = await gateway.open();
    assert.equal((await open.send("rollback", { seq: 1 }, { on: sister })).status, 200);
    await sister.close();
    assert.equal((await looker.state(open.id)).state, "active", "a failover could still undo it");
    const passed = await here();
    peer.sendMarks(marks(passed));
    const mark = 'highwater_gateway_mark_bytes{level="global"}';
    await eventually("the mark is heard", async () => (await looker.metric(mark)) === Number(passed));
    await gateway.commit(insert);
    assert.equal((await looker.state(open.id)).state, "aborted");
    await looker.close();
    peer.stop();
  });

  it("a long poll ends with the mark, or with its time", async () => {
    const id = newId();
    await gateway.commit({ id, ...insert });
    await gateway.commit(insert);
    const [row] = await cluster.query(
      "a",
      "SELECT (pg_current_wal_insert_lsn() - '0/0' + 2000000)::text AS above",
    );
    const started = performance.now();
    const early = await gateway.state(id, "?wait=0.1&level=disk");
    assert.equal(early.state, "committed");
    assert.ok(performance.now() - started >= 90);
    const late = gateway.state(id, "?wait=10&level=disk");
    near.sendMarks({ epoch: epoch.id, seq: epoch.seq, levels: { disk: String(row?.["above"]) } });
    assert.equal((await late).state, "durable");
  });
});

describe("an epoch that ends elsewhere", () => {
  const next = (): EpochRecord => ({
    ...epoch,
    id: crypto.randomUUID(),
    seq: epoch.seq + 1,
    previous: epoch.id,
  });

  it("a tracker's word decides what waits, and a primary that is not in it gets no more traffic", async () => {
    const other = await TestGateway.start(cluster, { trackers: [near.url] });
    await other.ready();
    const cases = ["durable", "lost", "broken"] as const;
    const pending = cases.map((verdict) => {
      const id = newId();
      return { id, verdict, answer: other.post({ id, ...insert, ack: "durable", level: "global" }) };
    });
    await near.until(() => pending.every(({ id }) => near.positionOf(id) !== undefined));
    near.verdict = (token) => pending.find(({ id }) => id === decodeToken(token)?.id)?.verdict ?? "pending";
    near.sendEpochs([epoch, next()]);
    const [durable, lost, broken] = await Promise.all(pending.map(({ answer }) => answer));
    assert.ok(durable !== undefined && lost !== undefined && broken !== undefined);
    assert.equal(durable.status, 200);
    assert.equal((durable.body as TransactionResponse).state, "durable");
    assert.equal(problemOf(lost).code, "transaction_lost");
    assert.equal(problemOf(broken).code, "promise_broken");

    const zombie = await other.refused(insert);
    assert.deepEqual([zombie.status, zombie.code], [503, "primary_unavailable"]);
    assert.equal((await fetch(`${other.url}/readyz`)).status, 503);
    await other.close();
  });

  it("a gateway that starts beside a zombie learns of the epoch first", async () => {
    // The stream of the other gateway has ended, and that of this file's has not.
    await near.until(() => near.streams === 1);
    const learner = await TestGateway.start(cluster, { trackers: [near.url] });
    await near.until(() => near.streams === 2);
    const problem = await learner.refused(insert);
    assert.equal(problem.code, "primary_unavailable");
    await learner.close();
  });
});
