// Databases that are down, die, hang or fail over, and sessions that are left behind: no outcome is ever guessed.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { testDeploymentKeys } from "@highwater/service/testing";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { type Problem, type TransactionResponse } from "@highwater/protocol";
import pg from "pg";
import { Database } from "../support/database.ts";
import { newId } from "../support/fakes.ts";
import { type GatewayResponse, problemOf, TestGateway } from "../support/gateway.ts";
import { TrackerPeer } from "../support/tracker-peer.ts";

/** Hundreds of commits on a slow machine. */
const FOUND_MS = 120_000;
/** Less than a client waits for an unknown outcome, and the settling itself takes a moment. */
const SOON_BACK_MS = 5_000;
/** After so long a gateway that ends cuts the connections that are left. */
const CUT_MS = 10_000;

let cluster: Cluster;
let gateway: TestGateway;

const insert = (id: string) => ({ id, statements: [{ sql: "INSERT INTO entry VALUES ($1)", params: [id] }] });

before(async () => {
  cluster = await startCluster({
    nodes: [
      { id: "a", region: "us-east" },
      { id: "b", region: "us-west" },
    ],
    roundTripMs: { "us-east/us-west": 2 },
  });
});

after(async () => {
  await gateway.close();
  await cluster.close();
});

/** Ids that the receipts call committed, and ids that have left data, on the node. */
async function receiptsAndData(node: string): Promise<{ receipts: string[]; data: string[] }> {
  const receipts = await cluster.query(
    node,
    "SELECT r.id::text FROM highwater.receipt r WHERE kind = 'commit' AND EXISTS (SELECT FROM sent s WHERE s.id = r.id) ORDER BY 1",
  );
  const data = await cluster.query(
    node,
    "SELECT id::text FROM entry WHERE id IN (SELECT id FROM sent) ORDER BY 1",
  );
  return { receipts: receipts.map((row) => String(row["id"])), data: data.map((row) => String(row["id"])) };
}

async function noteSent(node: string, ids: readonly string[]): Promise<void> {
  await cluster.query(node, "TRUNCATE sent");
  await cluster.query(node, "INSERT INTO sent SELECT unnest($1::uuid[])", [ids]);
}

function untilFound(sql: string): Promise<true> {
  return eventually(sql, async () => (await cluster.query("a", sql)).length > 0, FOUND_MS);
}

describe("a database that is down", () => {
  it("at the start: refused until it is there, then served", async () => {
    await cluster.stop("a");
    await cluster.stop("b");
    gateway = await TestGateway.start(cluster);
    const problem = await gateway.refused({});
    assert.deepEqual([problem.status, problem.code, problem.retry], [503, "primary_unavailable", "wait"]);
    assert.equal((await fetch(`${gateway.url}/readyz`)).status, 503);
    assert.equal((await fetch(`${gateway.url}/healthz`)).status, 200);
    await cluster.start("b");
    await cluster.start("a");
    await gateway.ready();
    await gateway.run("CREATE TABLE entry (id uuid PRIMARY KEY)", "CREATE TABLE sent (id uuid)");
    await gateway.run(
      "CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(30); RETURN NULL; END'",
      "CREATE TABLE slow_commit (id uuid)",
      "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON slow_commit DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION linger()",
    );
  });
});

describe("a session that is left behind", () => {
  it("a replay is refused while it holds the id, and runs when the server has ended it", async () => {
    const id = newId();
    const orphan = new pg.Client({ connectionString: await cluster.connectionString("a") });
    orphan.on("error", () => undefined);
    await orphan.connect();
    await orphan.query("BEGIN");
    await orphan.query(
      "INSERT INTO highwater.receipt (id, tag, epoch, digest) SELECT $1, $2, s.id, 7 FROM highwater.epoch_sentinel s",
      [id, testDeploymentKeys().receiptTag(0n, id)],
    );
    await orphan.query("INSERT INTO entry VALUES ($1)", [id]);
    const hurried = await TestGateway.start(cluster, { env: { GATEWAY_LOCK_TIMEOUT_MS: "500" } });
    await hurried.ready();
    // It could be a living transaction: that its client sends the id again says nothing of that.
    const problem = await hurried.refused(insert(id));
    assert.deepEqual(
      [problem.code, problem.status, problem.outcome, problem.retry],
      ["transaction_in_progress", 409, "unknown", "wait"],
    );
    await orphan.query("SELECT 1");
    await cluster.query("a", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1", [
      (orphan as unknown as { processID: number }).processID,
    ]);
    assert.equal((await gateway.commit(insert(id))).body.state, "committed");
    await hurried.close();
    await noteSent("a", [id]);
    assert.deepEqual(await receiptsAndData("a"), { receipts: [id], data: [id] });
  });
});

describe("a connection that dies during COMMIT", () => {
  it("before the commit took place: a tombstone, and nothing applied", async () => {
    const id = newId();
    const statements = [
      ...insert(id).statements,
      { sql: "INSERT INTO slow_commit VALUES ($1)", params: [id] },
    ];
    const patient = await TestGateway.start(cluster, { env: { GATEWAY_STATEMENT_TIMEOUT_MS: "60000" } });
    await patient.ready();
    const answer = patient.refused({ id, statements });
    await untilFound("SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query = 'COMMIT'");
    assert.equal((await patient.state(id)).state, "active");
    await cluster.query(
      "a",
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'COMMIT' AND state = 'active'",
    );
    const problem = await answer;
    assert.deepEqual(
      [problem.status, problem.code, problem.outcome],
      [409, "transaction_aborted", "not_applied"],
    );
    assert.equal((await patient.state(id)).state, "aborted");
    await noteSent("a", [id]);
    assert.deepEqual(await receiptsAndData("a"), { receipts: [], data: [] });
    assert.equal(await patient.metric('highwater_gateway_unknown_outcomes_total{resolution="aborted"}'), 1);
    await patient.close();
  });

  it("after the commit took place: found committed by its receipt", async () => {
    const peer = await new TrackerPeer().start();
    const far = await TestGateway.start(cluster, { from: "elsewhere", trackers: [peer.url] });
    await far.ready();
    await far.commit(insert(newId()));
    // A session whose reset is not answered yet would take no other transaction.
    const busy = 'highwater_gateway_pool_sessions{node="a",use="write",state="busy"}';
    await eventually("the session is free", async () => (await far.metric(busy)) === 0);
    const id = newId();
    // The server's answers no longer arrive; the request still does.
    const link = cluster.link("elsewhere", "us-east");
    await link.cut({ direction: "backward" });
    const answer = far.commit(insert(id));
    await untilFound(`SELECT FROM entry WHERE id = '${id}'`);
    await link.cut({ mode: "reset" });
    await link.heal();
    const { status, body } = await answer;
    assert.deepEqual([status, body.state, body.replayed, body.results], [200, "committed", true, null]);
    await peer.until(() => peer.positionOf(id) === body.position.offset);
    assert.deepEqual(peer.kindsOf(id), ["intent", "position"]);
    await far.close();
    peer.stop();
  });
});

/** Sends transactions without pause until `stop`; answers everything that came back. */
function load(target: TestGateway, clients: number) {
  const answers = new Map<string, GatewayResponse<unknown>>();
  let stopped = false;
  const client = async (): Promise<void> => {
    while (!stopped) {
      const id = newId();
      answers.set(id, await target.post(insert(id)));
    }
  };
  const running = Promise.all(Array.from({ length: clients }, client));
  return {
    answers,
    stop: async () => {
      stopped = true;
      await running;
    },
  };
}

const codeOf = ({ status, body }: GatewayResponse<unknown>): string =>
  status < 300 ? (body as TransactionResponse).state : (body as Problem).code;

/** What was refused as not applied has left nothing; receipts and data are the same set. */
async function checkHistory(
  node: string,
  answers: ReadonlyMap<string, GatewayResponse<unknown>>,
): Promise<Map<string, number>> {
  await noteSent(node, [...answers.keys()]);
  const { receipts, data } = await receiptsAndData(node);
  assert.deepEqual(receipts, data);
  const present = new Set(data);
  const codes = new Map<string, number>();
  for (const [id, answered] of answers) {
    const code = codeOf(answered);
    codes.set(code, (codes.get(code) ?? 0) + 1);
    if (answered.status >= 400 && problemOf(answered).outcome === "not_applied")
      assert.ok(!present.has(id), `${id} was answered ${code} and is there`);
  }
  return codes;
}

describe("a primary that is killed under load", () => {
  it("and comes back: every outcome is resolved, and receipts and data agree", async () => {
    const { answers, stop } = load(gateway, 8);
    await untilFound("SELECT FROM entry OFFSET 200 LIMIT 1");
    const killedMs = performance.now();
    await cluster.kill("a");
    await cluster.start("a");
    await gateway.ready();
    const awayMs = performance.now() - killedMs;
    const before = answers.size;
    await untilFound(
      "SELECT FROM highwater.receipt r JOIN highwater.epoch_sentinel s ON s.id = r.epoch WHERE kind = 'commit' OFFSET 50 LIMIT 1",
    );
    await stop();
    assert.ok(answers.size > before);
    const codes = await checkHistory("a", answers);
    console.log("killed and restarted:", Object.fromEntries(codes));
    assert.ok((codes.get("committed") ?? 0) > 50);
    assert.equal(codes.get("internal"), undefined);
    // After ten seconds the gateway answers that an outcome is unknown, and goes on to resolve it.
    if (awayMs < SOON_BACK_MS) assert.equal(codes.get("commit_unconfirmed"), undefined);
    for (const [id, answered] of answers)
      if (codeOf(answered) === "commit_unconfirmed")
        await eventually(`${id} is resolved`, async () =>
          ["committed", "aborted", "lost"].includes((await gateway.state(id)).state),
        );
  });

  it("and another takes over: the gateway follows, in the new epoch only", async () => {
    await cluster.waitForStreaming(["b"]);
    const old = (await gateway.run("SELECT 1")).position.epoch;
    const { answers, stop } = load(gateway, 8);
    await untilFound(`SELECT FROM highwater.receipt WHERE epoch = '${old}' OFFSET 200 LIMIT 1`);
    await cluster.kill("a");
    await cluster.promote("b");
    // It may take a moment to notice: until then it answers for the old epoch, and says so.
    await eventually("a transaction commits in a new epoch", async () => {
      const { status, body } = await gateway.post({});
      return status === 200 && (body as TransactionResponse).position.epoch !== old;
    });
    await stop();
    const codes = await checkHistory("b", answers);
    console.log("failed over:", Object.fromEntries(codes));
    assert.equal(codes.get("internal"), undefined);
    const ready = (await (await fetch(`${gateway.url}/readyz`)).json()) as { primary: string };
    assert.equal(ready.primary, "b");
  });

  it("and comes back as a zombie: it gets no traffic", async () => {
    await cluster.startAsPrimary("a");
    const before = await cluster.query("a", "SELECT count(*)::int AS n FROM highwater.receipt");
    const { answers, stop } = load(gateway, 4);
    const asked = `SELECT FROM pg_stat_activity
      WHERE application_name = 'highwater:${gateway.name}:probe' AND state = 'idle' AND query <> ''`;
    await untilFound(asked);
    // The gateway has asked it by now. Of 500 more transactions some would go there if it followed the answer.
    const enough = answers.size + 500;
    await eventually("it goes on", () => answers.size >= enough, FOUND_MS);
    await stop();
    for (const answered of answers.values()) assert.equal(codeOf(answered), "committed");
    assert.deepEqual(await cluster.query("a", "SELECT count(*)::int AS n FROM highwater.receipt"), before);
    await cluster.stop("a");
  });
});

describe("shutting down", () => {
  it("finishes what is in flight, answers what waits, and delivers its announcements", async () => {
    const peer = await new TrackerPeer().start();
    const ending = await TestGateway.start(cluster, { trackers: [peer.url] });
    await ending.ready();
    const database = new Database(cluster, "b");
    const [early, late, safe] = [newId(), newId(), newId()];
    const [first, second] = [await database.gate(), await database.gate()];
    const running = [
      ending.commit({ id: early, statements: [first.inStatement] }),
      ending.commit({ id: late, statements: [second.inStatement] }),
    ];
    const waiting = ending.commit({ ...insert(safe), ack: "durable", level: "global" });
    await peer.until(
      () => [early, late].every((id) => peer.kindsOf(id).length > 0) && peer.positionOf(safe) !== undefined,
    );
    for (const gate of [first, second]) await gate.reached();
    // What the tracker has taken and the gateway has no answer to it would send again.
    const unacknowledged = "highwater_gateway_unacknowledged_transactions";
    await eventually("all is acknowledged", async () => (await ending.metric(unacknowledged)) === 0);
    peer.stop();
    const started = performance.now();
    const closing = ending.close();
    assert.equal((await waiting).status, 202);
    // The first position is announced while the tracker is down, the second when it is back.
    await first.open();
    assert.equal((await running[0])?.body.state, "committed");
    await peer.start();
    await second.open();
    assert.equal((await running[1])?.body.state, "committed");
    await closing;
    assert.ok(performance.now() - started < CUT_MS, "no connection that is kept alive holds it up");
    for (const id of [early, late]) assert.deepEqual(peer.kindsOf(id), ["intent", "position"]);
    await assert.rejects(fetch(`${ending.url}/healthz`));
    peer.stop();
  });
});
