// Goal: a client that disconnects leaves no statement running and no session unusable. Its uncommitted work is rolled back,
// and a running COMMIT takes effect completely or not at all. Method: connections that are cut while gates in the database
// hold each step still.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { eventually } from "@highwater/lab-tools/process";
import { type Database } from "../support/database.ts";
import { newId } from "../support/fakes.ts";
import {
  type GatewayResponse,
  checkedCommit,
  problemOf,
  statementsOf,
  type TestGateway,
} from "../support/gateway.ts";
import { Bench, briefly, note } from "../support/interactive.ts";
import { TrackerPeer } from "../support/tracker-peer.ts";
import { Wire } from "../support/wire.ts";

let bench: Bench;
let database: Database;
let gateway: TestGateway;

before(async () => {
  bench = await Bench.start({ id: "a", region: "us-east" });
  ({ database, gateway } = bench);
});

after(() => bench.close());

/** A call whose client can go away. */
function leaving(call: (signal: AbortSignal) => Promise<GatewayResponse<unknown>>) {
  const controller = new AbortController();
  const answer = call(controller.signal);
  return async (): Promise<void> => {
    controller.abort();
    await assert.rejects(answer, { name: "AbortError" });
  };
}

const running = ({ name }: TestGateway): string =>
  `pg_stat_activity WHERE application_name = 'highwater:${name}' AND state <> 'idle'`;

/** Nothing of the note is there, nothing runs, and the gateway is as good as new. */
async function nothingHappened(id: string, key: number, on = gateway): Promise<void> {
  await database.untilNone(running(on));
  await bench.nothingOpen(on);
  assert.equal(await bench.notes(key), 0);
  assert.equal((await on.state(id)).state, "unknown");
  await bench.poolIsWhole(on);
}

/** Swallows every cancellation of what it runs. */
const STUBBORN =
  "DO $$ BEGIN LOOP BEGIN PERFORM pg_sleep(600); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP; END $$";

describe("a one-shot transaction whose client goes away", () => {
  it("in a statement: that is cancelled, and the id can be sent again", async () => {
    const [id, gate] = [newId(), await database.gate()];
    const request = { id, statements: [{ sql: note(1) }, gate.inStatement] };
    const leave = leaving((signal) => gateway.call("", request, { signal }));
    await gate.reached();
    await leave();
    await database.untilNone(gate.waiting);
    await nothingHappened(id, 1);
    await gate.open();
    const again = await gateway.commit(request);
    assert.deepEqual([again.status, again.body.replayed], [200, undefined]);
    assert.equal(await bench.notes(1), 1);
  });

  it("in a long read, on its way or not yet answering", async () => {
    const reads = [
      "SELECT count(*) FROM generate_series(1, 1000000000000) AS g",
      "SELECT g FROM generate_series(1, 1000000000000) AS g ORDER BY random()",
      "SELECT g, repeat('x', 1000) FROM generate_series(1, 1000000000000) AS g",
      STUBBORN,
    ];
    // It would end by itself after so many rows.
    const wide = await bench.start({ GATEWAY_MAX_ROWS: "10000000", GATEWAY_MAX_RESULT_BYTES: "1048576" });
    for (const sql of reads) {
      const readOnly = sql !== STUBBORN;
      const leave = leaving((signal) =>
        wide.call("", { id: newId(), readOnly, ...statementsOf([sql]) }, { signal }),
      );
      await database.untilRows(`${running(wide)} AND state = 'active' AND query LIKE $1`, [
        `${sql.slice(0, 30)}%`,
      ]);
      await leave();
      await database.untilNone(running(wide));
    }
    await bench.nothingOpen(wide);
    await bench.poolIsWhole(wide);
    await wide.close();
  });

  it("while it waits for a session: it never runs", async () => {
    const narrow = await bench.start({ GATEWAY_POOL_SIZE: "1", GATEWAY_CONNECT_TIMEOUT_MS: "60000" });
    const [id, gate] = [newId(), await database.gate()];
    const first = narrow.commit({ statements: [gate.inStatement] });
    await gate.reached();
    const leave = leaving((signal) => narrow.call("", { id, ...statementsOf([note(5)]) }, { signal }));
    await eventually("it is under way", async () => (await narrow.state(id)).state === "active");
    await leave();
    await eventually("it is not", async () => (await narrow.state(id)).state === "unknown");
    await gate.open();
    assert.equal((await first).status, 200);
    await bench.nothingOpen(narrow);
    assert.equal((await narrow.run("SELECT 1")).state, "committed");
    assert.equal(await bench.notes(5), 0);
    await narrow.close();
  });

  it("in its COMMIT: all of it or nothing, and its receipt says which", async () => {
    const [id, gate] = [newId(), await database.gate()];
    const request = { id, statements: [{ sql: note(10) }, { sql: note(11) }, gate.atCommit] };
    const leave = leaving((signal) => gateway.call("", request, { signal }));
    await gate.reached();
    await leave();
    await gate.open();
    await database.untilNone(running(gateway));
    await bench.nothingOpen();
    const [{ state }, one, two] = [await gateway.state(id), await bench.notes(10), await bench.notes(11)];
    assert.equal(one, two);
    // A server may learn that the outcome is not wanted before it has decided; it must not matter afterwards.
    assert.ok(
      one === 1 ? state === "committed" : ["unknown", "aborted"].includes(state),
      `${state} ${String(one)}`,
    );
    await bench.poolIsWhole();
  });

  it("while it waits for durability: committed all the same, and the wait ends", async () => {
    const peer = await new TrackerPeer().start();
    const safe = await bench.start({}, { trackers: [peer.url] });
    const id = newId();
    const request = {
      id,
      ...statementsOf([note(20)]),
      ack: "durable",
      level: "global",
      maxWaitMs: 60_000,
    } as const;
    const leave = leaving((signal) => safe.call("", request, { signal }));
    const waits = (): Promise<number> => safe.metric("highwater_gateway_durability_waits");
    await eventually("it waits", async () => (await waits()) === 1);
    await leave();
    await eventually("nobody waits", async () => (await waits()) === 0);
    assert.equal((await safe.state(id)).state, "committed");
    const again = checkedCommit(await safe.call("", { ...request, maxWaitMs: 0 }));
    assert.deepEqual([again.status, again.body.state, again.body.replayed], [202, "pending", true]);
    assert.equal(await bench.notes(20), 1);
    await safe.close();
    peer.stop();
  });

  it("takes back what it has announced", async () => {
    const peer = await new TrackerPeer().start();
    const reported = await bench.start({}, { trackers: [peer.url] });
    const [id, gate] = [newId(), await database.gate()];
    const request = { id, statements: [{ sql: note(25) }, gate.inStatement] };
    const leave = leaving((signal) => reported.call("", request, { signal }));
    await gate.reached();
    await leave();
    await peer.until(() => peer.kindsOf(id).includes("withdrawn"));
    await gate.open();
    await nothingHappened(id, 25, reported);
    await reported.close();
    peer.stop();
  });
});

describe("an interactive transaction whose client goes away", () => {
  it("in a statement: that is cancelled, and the transaction is over", async () => {
    for (const stubborn of [false, true]) {
      const key = stubborn ? 31 : 30;
      const gate = await database.gate();
      const open = await gateway.open(statementsOf([note(key)]));
      const statement = stubborn ? { sql: STUBBORN } : gate.inStatement;
      const leave = leaving((signal) => open.send("statements", { statements: [statement] }, { signal }));
      // This statement, and not the reset of a session that another transaction has left.
      if (stubborn)
        await database.untilRows(`${running(gateway)} AND state = 'active' AND query LIKE 'DO %'`);
      else await gate.reached();
      await leave();
      await nothingHappened(open.id, key);
      const repeated = problemOf(await open.send("statements", { seq: 1, statements: [statement] }));
      assert.ok(["cancelled", "transaction_aborted"].includes(repeated.code), repeated.code);
      assert.deepEqual([repeated.outcome, repeated.open], ["not_applied", false]);
      const gone = await open.refused("commit");
      assert.deepEqual(briefly(gone), ["transaction_aborted", 409, "transaction", "not_applied", false]);
      await gate.open();
    }
  });

  it("in its begin, or while that waits for a session: nothing is opened", async () => {
    const narrow = await bench.start({ GATEWAY_POOL_SIZE: "1", GATEWAY_CONNECT_TIMEOUT_MS: "60000" });
    const gate = await database.gate();
    for (const isWaiting of [false, true]) {
      const id = newId();
      const other = isWaiting ? narrow.commit({ statements: [gate.inStatement] }) : null;
      if (other !== null) await gate.reached();
      const begin = { id, statements: [{ sql: note(40) }, gate.inStatement] };
      const leave = leaving((signal) => narrow.call("/begin", begin, { signal }));
      if (other === null) await gate.reached();
      await eventually("it is under way", async () => (await narrow.state(id)).state === "active");
      await leave();
      await eventually("it is not", async () => (await narrow.state(id)).state === "unknown");
      if (other === null) await database.untilNone(gate.waiting);
      else await gate.open();
      await other;
    }
    await bench.nothingOpen(narrow);
    assert.equal(await bench.notes(40), 0);
    assert.equal((await narrow.run("SELECT 1")).state, "committed");
    await narrow.close();
  });

  it("with the answer to a call on its way: the same call again gets it", async () => {
    const open = await gateway.open();
    const wire = await Wire.start(Number(new URL(gateway.url).port));
    const viaWire = gateway.reachedBy(`http://127.0.0.1:${String(wire.port)}`);
    const body = { seq: 1, ...statementsOf([note(50), "SELECT clock_timestamp()"]) };
    const arrived = wire.once(`/${open.id}/statements`, "hold");
    const lost = assert.rejects(open.send("statements", body, { on: viaWire }));
    await arrived;
    await eventually("it was answered", async () => wire.hasHeld);
    wire.cutAll();
    await lost;
    const again = await open.send("statements", body);
    assert.equal(again.status, 200);
    assert.deepEqual((await open.send("statements", body)).body, again.body);
    open.seq = 1;
    await open.commit();
    assert.equal(await bench.notes(50), 1, "a second time would have violated the key");
    await wire.close();
  });

  it("in its COMMIT: that goes on, and the same call again says how it ended", async () => {
    const gate = await database.gate();
    const open = await gateway.open({ statements: [{ sql: note(60) }, gate.atCommit] });
    const body = { seq: 1, ...statementsOf([note(61)]) };
    const leave = leaving((signal) => open.send("commit", body, { signal }));
    await gate.reached();
    await leave();
    const busy = problemOf(await open.send("commit", body));
    assert.deepEqual([busy.code, busy.status, busy.retry], ["transaction_in_progress", 409, "wait"]);
    assert.equal(await database.count(gate.waiting), 1);
    await gate.open();
    await eventually("it has committed", async () => (await open.send("commit", body)).status === 200);
    const { body: answer } = checkedCommit(await open.send("commit", body));
    assert.deepEqual([answer.state, answer.results?.length], ["committed", 1]);
    assert.deepEqual([await bench.notes(60), await bench.notes(61)], [1, 1]);
    await bench.nothingOpen();
  });

  it("while its commit waits for durability: the wait ends, and it is committed", async () => {
    const peer = await new TrackerPeer().start();
    const safe = await bench.start({}, { trackers: [peer.url] });
    const open = await safe.open(statementsOf([note(70)]));
    const body = { seq: 1, ack: "durable", level: "global", maxWaitMs: 60_000 };
    const leave = leaving((signal) => open.send("commit", body, { signal }));
    const waits = (): Promise<number> => safe.metric("highwater_gateway_durability_waits");
    await eventually("it waits", async () => (await waits()) === 1);
    await leave();
    await eventually("nobody waits", async () => (await waits()) === 0);
    const again = open.send("commit", body);
    await eventually("it waits anew", async () => (await waits()) === 1);
    const position = (await safe.state(open.id)).position;
    assert.ok(position !== undefined);
    peer.sendMarks({ epoch: position.epoch, seq: 1, levels: { global: position.offset } });
    assert.equal(checkedCommit(await again).body.state, "durable");
    assert.equal(await bench.notes(70), 1);
    await safe.close();
    peer.stop();
  });
});

describe("the time limit of a transaction", () => {
  it("ends a statement that has taken the others' limits away", async () => {
    // Its pool is looked at below, and is whole only if eight transactions get through that limit.
    const hasty = await bench.start({ GATEWAY_TOTAL_TIMEOUT_MS: "5000" });
    const sql = ["SET LOCAL statement_timeout = 0", note(80), "SELECT pg_sleep(600)"];
    const id = newId();
    const problem = await hasty.refused({ id, ...statementsOf(sql) });
    assert.deepEqual(
      [problem.code, problem.outcome, problem.statement, problem.limit?.name],
      ["statement_timeout", "not_applied", 2, "totalTimeoutMs"],
    );
    await nothingHappened(id, 80, hasty);
    // One that cannot be cancelled is ended with its session, and its id settled.
    const stubborn = newId();
    const ended = await hasty.refused({ id: stubborn, ...statementsOf([note(81), STUBBORN]) });
    assert.deepEqual([ended.code, ended.outcome], ["transaction_aborted", "not_applied"]);
    await database.untilNone(running(hasty));
    assert.equal(await bench.notes(81), 0);
    assert.equal((await hasty.state(stubborn)).state, "aborted");
    await hasty.close();
  });
});
