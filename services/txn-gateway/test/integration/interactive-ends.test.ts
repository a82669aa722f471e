// Goal: an interactive transaction ends in one of a few named ways, the gateway reports that way while a client may ask, and
// nothing is left behind. Method: real gateways on a real cluster, short limits, a shutdown, a restart and a failover.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { eventually } from "@highwater/lab-tools/process";
import { type Problem } from "@highwater/protocol";
import { realClock } from "@highwater/runtime";
import { DEFAULT_LIMITS, type KeyLimits, PostgresKeys } from "@highwater/store";
import { hashSecret, makeKeyText } from "@highwater/service";
import { SESSION_HEADER } from "../../src/interactive/session-header.ts";
import { type Database } from "../support/database.ts";
import { newId } from "../support/fakes.ts";
import {
  checkedCommit,
  problemOf,
  statementsOf,
  type TestGateway,
  type TestTransaction,
} from "../support/gateway.ts";
import { Bench, briefly, note } from "../support/interactive.ts";
import { TrackerPeer } from "../support/tracker-peer.ts";

let bench: Bench;
let database: Database;
let gateway: TestGateway;

before(async () => {
  bench = await Bench.start({ id: "a", region: "us-east" }, { id: "b", region: "us-west" });
  ({ database, gateway } = bench);
  await gateway.run(
    "CREATE TABLE parent (id int PRIMARY KEY)",
    "CREATE TABLE child (parent int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)",
  );
});

after(() => bench.close());

describe("time limits", () => {
  /** Every answer about an expired transaction; nothing of it was applied, and nothing can be. */
  async function isExpired(open: TestTransaction, key: number, limit: string): Promise<void> {
    const gone = ["transaction_expired", 410, "transaction", "not_applied", false];
    for (const call of ["statements", "commit", "rollback"] as const) {
      const body = call === "statements" ? statementsOf(["SELECT 1"]) : {};
      const problem = await open.refused(call, body);
      assert.deepEqual([...briefly(problem), problem.limit?.name], [...gone, limit], call);
    }
    await bench.nothingOpen(open.gateway);
    assert.equal(await bench.notes(key), 0);
    assert.equal((await open.gateway.state(open.id)).state, "unknown");
  }

  it("idle for too long: rolled back; calls keep it, and say until when", async () => {
    const hasty = await bench.start({ GATEWAY_IDLE_TIMEOUT_MS: "3000" });
    const open = await hasty.open(statementsOf([note(300)]));
    const leftMs = Date.parse(open.begun.expiresAt) - Date.now();
    assert.ok(leftMs <= 3_000, "by the same clock");
    const { expiresAt } = await open.run("SELECT pg_sleep(3.5)");
    assert.ok(
      Date.parse(expiresAt) > Date.parse(open.begun.expiresAt) + 3_000,
      "a running statement is not idle",
    );
    await bench.nothingOpen(hasty);
    await isExpired(open, 300, "idleTimeoutMs");
    assert.equal(await hasty.metric('highwater_gateway_open_transactions_ended_total{how="expired"}'), 1);
    await bench.poolIsWhole(hasty);
    await hasty.close();
  });

  it("open for too long in all, however busy: rolled back", async () => {
    const hasty = await bench.start({ GATEWAY_TOTAL_TIMEOUT_MS: "4000" });
    const open = await hasty.open(statementsOf([note(310)]));
    const answers: string[] = [];
    await eventually("it expires", async () => {
      const answered = await open.send("statements", statementsOf(["SELECT 1"]));
      if (answered.status !== 200) answers.push(problemOf(answered).code);
      return answers.length > 0;
    });
    assert.deepEqual(answers, ["transaction_expired"]);
    await isExpired(open, 310, "totalTimeoutMs");
    await hasty.close();
  });

  it("while a statement runs: that is cancelled, also one that swallows cancellations", async () => {
    // Its pool is looked at below, and is whole only if eight transactions get through that limit.
    const hasty = await bench.start({ GATEWAY_TOTAL_TIMEOUT_MS: "5000" });
    const swallowing =
      "DO $$ BEGIN LOOP BEGIN PERFORM pg_sleep(60); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP; END $$";
    const cancelled = async (key: number, statement: string): Promise<void> => {
      const open = await hasty.open(statementsOf([note(key)]));
      const problem = await open.refused("statements", statementsOf([statement]));
      assert.deepEqual(briefly(problem), ["transaction_expired", 410, "transaction", "not_applied", false]);
      await isExpired(open, key, "totalTimeoutMs");
    };
    await Promise.all([cancelled(320, "SELECT pg_sleep(600)"), cancelled(321, swallowing)]);
    await database.untilNone(
      `pg_stat_activity WHERE application_name = 'highwater:${hasty.name}' AND state = 'active'`,
    );
    await bench.poolIsWhole(hasty);
    await hasty.close();
  });

  it("never cut a commit short that is under way", async () => {
    const hasty = await bench.start({ GATEWAY_IDLE_TIMEOUT_MS: "8000", GATEWAY_TOTAL_TIMEOUT_MS: "9000" });
    const gate = await database.gate();
    const open = await hasty.open({ statements: [{ sql: note(330) }, gate.atCommit] });
    const expiresAtMs = Date.parse(open.begun.expiresAt) + 1_000;
    // A commit has as long as that again, so that it comes late in the transaction's life here.
    await open.run("SELECT pg_sleep(4.5)");
    const committing = open.commit();
    await gate.reached();
    await eventually("both limits are over", async () => Date.now() > expiresAtMs + 500);
    await gate.open();
    assert.equal((await committing).body.state, "committed");
    assert.equal(await bench.notes(330), 1);
    assert.equal(await hasty.metric('highwater_gateway_open_transactions_ended_total{how="committed"}'), 1);
    await hasty.close();
  });

  it("1,000 abandoned transactions leave nothing behind", async () => {
    const hasty = await bench.start({ GATEWAY_IDLE_TIMEOUT_MS: "50" });
    let begun = 0;
    const abandon = async (): Promise<void> => {
      while (begun < 1_000) {
        const key = 10_000 + begun++;
        // Any other error than a refusal for lack of a place ends the wait, and is returned.
        const answered = await eventually("a place among the open ones", async () => {
          const answer = await hasty.call("/begin", { id: newId(), ...statementsOf([note(key)]) });
          return (answer.body as Partial<Problem>).code !== "too_many_open" && answer;
        });
        assert.equal(answered.status, 200, JSON.stringify(answered.body));
      }
    };
    await Promise.all(Array.from({ length: 6 }, abandon));
    await bench.nothingOpen(hasty);
    assert.equal(await hasty.metric('highwater_gateway_open_transactions_ended_total{how="expired"}'), 1_000);
    assert.equal(await database.count("note WHERE id >= 10000"), 0);
    const sessions = `pg_stat_activity WHERE application_name = 'highwater:${hasty.name}'`;
    // One that has been ended may still be there for a moment.
    await eventually("no more sessions than places", async () => (await database.count(sessions)) <= 8);
    await bench.poolIsWhole(hasty);
    await hasty.close();
  });
});

describe("limits on open transactions", () => {
  it("in all, and of a role's sessions: waited for, named, and free again when one has ended", async () => {
    for (const [env, name, value] of [
      [{ GATEWAY_MAX_OPEN: "2" }, "maxOpen", 2],
      [{ GATEWAY_POOL_SIZE: "4" }, "openTransactionsOfRole", 3],
    ] as const) {
      const small = await bench.start(env);
      const open: TestTransaction[] = [];
      for (let count = 0; count < value; count++) open.push(await small.open());
      const begin = { id: newId() };
      const problem = problemOf(await small.call("/begin", begin));
      assert.deepEqual(
        [problem.code, problem.status, problem.limit],
        ["too_many_open", 503, { name, value }],
      );
      // One-shot transactions still have a session.
      assert.equal((await small.run("SELECT 1")).state, "committed");
      // It waits for the place of the first one.
      const waiting = small.call("/begin", begin);
      await open[0]?.rollback();
      open.push(small.opened(begin.id, await waiting));
      for (const one of open.slice(1)) await one.rollback();
      await small.close();
    }
  });
});

describe("a key", () => {
  it("has time limits of its own, and its transactions belong to no other key", async () => {
    const url = await bench.cluster.connectionString("a");
    const keys = new PostgresKeys({
      nodes: [{ id: "a", region: "us-east", zone: "a", url }],
      ...{ clock: realClock, helper: "interactive-test", connectTimeoutMs: 30_000, callTimeoutMs: 30_000 },
    });
    const makeKey = async (limits: Partial<KeyLimits>): Promise<Record<string, string>> => {
      const { id, secret, text } = makeKeyText();
      const key = {
        id,
        secretHash: hashSecret(secret),
        name: id,
        owner: id,
        role: "clerk",
        expiresAtMs: null,
      };
      const scopes = ["read", "write"] as const;
      await keys.insertKey("a", { ...key, scopes, limits: { ...DEFAULT_LIMITS, ...limits } });
      return { authorization: `Bearer ${text}` };
    };
    await database.query("CREATE ROLE clerk LOGIN IN ROLE highwater_app");
    await database.query("GRANT ALL ON note TO clerk");
    const [hasty, busy, patient] = [
      await makeKey({ idleTimeoutMs: 300 }),
      await makeKey({ totalTimeoutMs: 4_000 }),
      await makeKey({}),
    ];
    const guarded = await bench.start({ GATEWAY_AUTH: "keys", GATEWAY_KEY_REFRESH_MS: "50" });
    const open = async (headers: Record<string, string>) => {
      const id = newId();
      const answered = await guarded.call("/begin", { id, ...statementsOf([note(350)]) }, { headers });
      return { headers, transaction: guarded.opened(id, answered) };
    };
    const commit = (
      { transaction: { id, session } }: Awaited<ReturnType<typeof open>>,
      by: Record<string, string>,
    ) => guarded.call(`/${id}/commit`, { seq: 1 }, { headers: { ...by, [SESSION_HEADER]: session } });
    for (const [key, name] of [
      [hasty, "idleTimeoutMs"],
      [busy, "totalTimeoutMs"],
    ] as const) {
      const abandoned = await open(key);
      await bench.nothingOpen(guarded);
      const problem = problemOf(await commit(abandoned, key));
      assert.deepEqual(
        [problem.code, problem.status, problem.limit?.name],
        ["transaction_expired", 410, name],
      );
    }
    const kept = await open(patient);
    const stranger = problemOf(await commit(kept, hasty));
    assert.deepEqual([stranger.code, stranger.status], ["transaction_not_open", 404]);
    assert.equal(checkedCommit(await commit(kept, patient)).body.state, "committed");
    assert.equal(problemOf(await commit(kept, hasty)).code, "transaction_not_open");
    assert.equal(await bench.notes(350), 1);
    await guarded.close();
    keys.close();
  });
});

describe("durability", () => {
  it("a commit answers when it is durable, or says pending; a repeated one waits anew", async () => {
    const peer = await new TrackerPeer().start();
    const safe = await bench.start({}, { trackers: [peer.url] });
    const open = await safe.open({ ...statementsOf([note(400)]), metadata: { for: "a test" } });
    assert.deepEqual(peer.kindsOf(open.id), []);
    const request = { ack: "durable", level: "global", maxWaitMs: 100 } as const;
    const pending = await open.commit(request);
    assert.deepEqual([pending.status, pending.body.state, pending.body.level], [202, "pending", "global"]);
    await peer.until(() => peer.positionOf(open.id) !== undefined);
    assert.deepEqual(peer.kindsOf(open.id), ["intent", "position"]);
    const { epoch, offset } = pending.body.position;
    peer.sendMarks({ epoch, seq: 1, levels: { global: offset } });
    await eventually(
      "the mark has come",
      async () => (
        await safe.run("SELECT 1"),
        (await open.send("commit", { seq: 1, ...request })).status === 200
      ),
    );
    const durable = checkedCommit(await open.send("commit", { seq: 1, ...request }));
    assert.deepEqual([durable.body.state, durable.body.token], ["durable", pending.body.token]);
    await safe.close();
    peer.stop();
  });

  it("announces a commit before it is sent, and takes back what came to nothing", async () => {
    const peer = await new TrackerPeer().start();
    const reported = await bench.start({}, { trackers: [peer.url] });
    const gate = await database.gate();
    const open = await reported.open({ statements: [{ sql: note(410) }, gate.atCommit] });
    const committing = open.commit();
    await gate.reached();
    await peer.until(() => peer.kindsOf(open.id).includes("intent"));
    assert.equal(await bench.notes(410), 0);
    await gate.open();
    await committing;
    const failing = await reported.open(statementsOf(["INSERT INTO child VALUES (9)"]));
    await failing.refused("commit");
    await peer.until(() => peer.kindsOf(failing.id).includes("withdrawn"));
    await reported.close();
    peer.stop();
  });

  it("a commit that is refused for exposure may come again under its number", async () => {
    const peer = await new TrackerPeer().start();
    const bounded = await bench.start({ GATEWAY_MAX_PENDING_ANNOUNCEMENTS: "1" }, { trackers: [peer.url] });
    peer.stop();
    const open = await bounded.open(statementsOf([note(420)]));
    await bounded.run("SELECT 1");
    const problem = problemOf(await open.send("commit", { seq: 1 }));
    assert.deepEqual(briefly(problem), ["exposure_limit", 503, "wait", "not_applied", true]);
    await peer.start();
    await eventually(
      "a tracker has everything",
      async () => (await open.send("commit", { seq: 1 })).status === 200,
    );
    assert.equal(await bench.notes(420), 1);
    await bounded.close();
    peer.stop();
  });
});

describe("a gateway that ends", () => {
  it("lets open transactions be ended while it drains, and begins no new ones", async () => {
    const ending = await bench.start();
    const [open, gate] = [await ending.open(statementsOf([note(500)])), await database.gate()];
    const committed = await ending.open(statementsOf([note(501)]));
    await committed.commit();
    const slow = await ending.open({ statements: [{ sql: note(502) }, gate.atCommit] });
    const committing = slow.commit();
    await gate.reached();
    const closing = ending.close();
    await eventually("it drains", async () => (await ending.call("", {})).status === 503);
    const begin = problemOf(await ending.call("/begin", { id: newId() }));
    assert.deepEqual([begin.code, begin.status, begin.retry], ["overloaded", 503, "wait"]);
    // The end of one that was ended just before can still be asked for again.
    assert.equal((await committed.send("commit", { seq: 1 })).status, 200);
    await open.run("SELECT 1");
    assert.equal((await open.commit()).body.state, "committed");
    await gate.open();
    assert.equal((await committing).body.state, "committed");
    await closing;
    assert.deepEqual([await bench.notes(500), await bench.notes(501), await bench.notes(502)], [1, 1, 1]);
    await assert.rejects(fetch(`${ending.url}/healthz`));
    await database.untilNone(`pg_stat_activity WHERE application_name LIKE 'highwater:${ending.name}%'`);
  });

  it("rolls back a transaction that is never ended", async () => {
    const ending = await bench.start();
    const open = await ending.open(statementsOf([note(510)]));
    await ending.close();
    assert.equal(await bench.notes(510), 0);
    await database.untilNone(`pg_stat_activity WHERE application_name LIKE 'highwater:${ending.name}%'`);
    assert.equal((await gateway.state(open.id)).state, "unknown");
  });

  it("and starts again: 410 for what was open, the outcome for what was committed", async () => {
    const env = { GATEWAY_NAME: "restarted" };
    const first = await bench.start(env);
    const [lost, done] = [
      await first.open(statementsOf([note(520)])),
      await first.open(statementsOf([note(521)])),
    ];
    const { body } = await done.commit();
    await first.close();
    const second = await bench.start(env);
    const expired = problemOf(await lost.send("commit", { seq: 1 }, { on: second }));
    assert.deepEqual(briefly(expired), ["transaction_expired", 410, "transaction", "not_applied", false]);
    assert.equal((await second.state(lost.id)).state, "aborted", "it can never commit any more");
    const replayed = checkedCommit(await done.send("commit", { seq: 1 }, { on: second }));
    assert.deepEqual(
      [replayed.body.state, replayed.body.replayed, replayed.body.results],
      ["committed", true, null],
    );
    assert.equal(replayed.body.position.epoch, body.position.epoch);
    const late = problemOf(await done.send("rollback", { seq: 2 }, { on: second }));
    assert.deepEqual([late.code, late.outcome], ["out_of_sequence", "applied"]);
    const forgotten = await bench.stranger(env);
    const unknown = problemOf(await done.send("commit", { seq: 1 }, { on: forgotten }));
    assert.deepEqual([unknown.code, unknown.outcome], ["transaction_not_open", "unknown"]);
    await second.close();
    await forgotten.close();
    assert.deepEqual([await bench.notes(520), await bench.notes(521)], [0, 1]);
  });
});

describe("a failover", () => {
  it("aborts what is open, and resolves what is committing", async () => {
    await bench.cluster.waitForStreaming(["b"]);
    const gate = await database.gate();
    const open = await gateway.open(statementsOf([note(600)]));
    const running = await gateway.open(statementsOf([note(601)]));
    const committing = await gateway.open({ statements: [{ sql: note(602) }, gate.atCommit] });
    const calls = [
      running.send("statements", { statements: [gate.inStatement] }),
      committing.send("commit"),
    ] as const;
    // This one's COMMIT takes place, and the answer does not arrive.
    const far = await bench.start({}, { from: "elsewhere" });
    const answerless = await far.open(statementsOf([note(605)]));
    await bench.cluster.link("elsewhere", "us-east").cut({ direction: "backward" });
    const unanswered = answerless.send("commit", { seq: 1 });
    await eventually("the replica has it", async () => {
      const rows = await bench.cluster.query("b", "SELECT FROM note WHERE id = 605");
      return rows.length === 1;
    });
    await eventually("both wait", async () => (await database.count(gate.waiting)) === 2);
    await bench.cluster.kill("a");
    await bench.cluster.promote("b");
    database.node = "b";
    const [ran, committed] = [problemOf(await calls[0]), problemOf(await calls[1])];
    assert.deepEqual(briefly(ran), ["transaction_aborted", 409, "transaction", "not_applied", false]);
    // Its COMMIT was under way when the epoch ended: no one can know whether it had committed there.
    assert.deepEqual(briefly(committed), ["transaction_lost", 409, "transaction", "not_applied", false]);
    await gateway.ready();
    const received = checkedCommit(await unanswered);
    assert.deepEqual(
      [received.status, received.body.state, received.body.replayed],
      [200, "committed", true],
    );
    assert.equal(await bench.notes(605), 1);
    await far.close();
    const problem = await open.refused("commit");
    assert.deepEqual(briefly(problem), ["transaction_aborted", 409, "transaction", "not_applied", false]);
    assert.equal((await gateway.state(committing.id)).state, "lost");
    assert.equal(await database.count("note WHERE id IN (600, 601, 602)"), 0);
    await bench.nothingOpen(gateway);
    const again = await gateway.open(statementsOf([note(603)]));
    assert.equal((await again.commit()).body.state, "committed");
    await bench.poolIsWhole(gateway);
  });
});
