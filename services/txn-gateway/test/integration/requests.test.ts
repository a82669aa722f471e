// What a client can send, and what becomes of it, against a real primary. One gateway, no trackers.
import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, before, describe, it } from "node:test";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { Database } from "../support/database.ts";
import { newId } from "../support/fakes.ts";
import { problemOf, TestGateway } from "../support/gateway.ts";
import { Wire } from "../support/wire.ts";

let cluster: Cluster;
let gateway: TestGateway;
let database: Database;

before(async () => {
  cluster = await startCluster({ nodes: [{ id: "a", region: "us-east" }] });
  database = new Database(cluster, "a");
  gateway = await TestGateway.start(cluster, { env: { GATEWAY_BODY_LIMIT_BYTES: "1048576" } });
  await gateway.ready();
  await gateway.run("CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL CHECK (balance >= 0))");
  await gateway.run("INSERT INTO account SELECT n, 100 FROM generate_series(1, 10) n");
});

after(async () => {
  await gateway.close();
  await cluster.close();
});

async function total(): Promise<number> {
  const [row] = await cluster.query("a", "SELECT sum(balance)::int AS total FROM account");
  return Number(row?.["total"]);
}

describe("a request that is wrong", () => {
  it("malformed JSON", async () => {
    const problem = problemOf(await gateway.send('{"id": '));
    assert.equal(problem.status, 400);
    assert.equal(problem.code, "invalid_request");
    assert.equal(problemOf(await gateway.send("")).code, "invalid_request");
    assert.equal(problemOf(await gateway.send('{"__proto__": {"a": 1}}')).code, "invalid_request");
  });

  it("unknown fields, by name", async () => {
    const problem = problemOf(
      await gateway.send(JSON.stringify({ id: newId(), statements: [{ sql: "SELECT 1" }], isolate: "yes" })),
    );
    assert.equal(problem.code, "invalid_request");
    assert.deepEqual(problem.fields, ["/isolate: is not a known field"]);
    assert.match(problem.detail ?? "", /isolate/);
  });

  it("an unknown level, a bad id, no statements", async () => {
    assert.equal((await gateway.refused({ level: "galaxy" })).code, "unknown_level");
    assert.equal((await gateway.refused({ id: "order-7" })).code, "invalid_id");
    assert.equal((await gateway.refused({ id: crypto.randomUUID() })).code, "invalid_id");
    assert.equal((await gateway.refused({ statements: [] })).code, "invalid_request");
  });

  it("another content type, a body over the limit, an unknown route", async () => {
    assert.equal(problemOf(await gateway.send("x", { "content-type": "text/plain" })).status, 415);
    const large = JSON.stringify({ id: newId(), statements: [{ sql: `SELECT '${"x".repeat(1_100_000)}'` }] });
    const tooLarge = problemOf(await gateway.send(large));
    assert.deepEqual([tooLarge.status, tooLarge.limit], [413, { name: "bodyLimitBytes", value: 1_048_576 }]);
    const response = await fetch(`${gateway.url}/v2/nothing`);
    assert.equal(response.status, 404);
    assert.match(response.headers.get("content-type") ?? "", /^application\/problem\+json/);
    const bad = await fetch(`${gateway.url}/v1/transactions/%ff`);
    assert.equal(bad.status, 400);
    assert.match(bad.headers.get("content-type") ?? "", /^application\/problem\+json/);
  });

  it("bytes that are no HTTP", async () => {
    const socket = connect(Number(new URL(gateway.url).port), "127.0.0.1");
    socket.end("nonsense\r\n\r\n");
    let answer = "";
    for await (const chunk of socket) answer += String(chunk);
    assert.match(answer, /^HTTP\/1\.1 400 /);
    assert.match(answer, /application\/problem\+json/);
  });

  it("an id from a clock two hours ahead, and one older than the receipts", async () => {
    const ahead = await gateway.refused({ id: newId(Date.now() + 7_200_000) });
    assert.deepEqual([ahead.status, ahead.code, ahead.retry], [400, "id_out_of_window", "transaction"]);
    const old = await gateway.refused({ id: newId(Date.now() - 25 * 3_600_000) });
    assert.deepEqual([old.status, old.code], [410, "id_expired"]);
    assert.equal((await gateway.state(newId(Date.now() - 400 * 24 * 3_600_000))).state, "expired");
  });

  it("a state with bad parameters", async () => {
    for (const query of ["?wait=soon", "?wait=61", "?wait=-1", "?waits=1", "?level=a&level=b"]) {
      const response = await fetch(`${gateway.url}/v1/transactions/${newId()}${query}`);
      assert.equal(response.status, 400, query);
    }
    assert.equal((await fetch(`${gateway.url}/v1/transactions/none`)).status, 400);
    const level = await fetch(`${gateway.url}/v1/transactions/${newId()}?level=galaxy`);
    assert.equal(((await level.json()) as { code: string }).code, "unknown_level");
    assert.equal((await gateway.state(newId())).state, "unknown");
  });
});

describe("a statement that fails", () => {
  it("leaves nothing behind, and names itself", async () => {
    const first = { sql: "UPDATE account SET balance = balance + 1 WHERE id = 1" };
    const cases: [{ sql: string; params?: number[] }, number, string, string][] = [
      [{ sql: "SELEC 1" }, 422, "statement_failed", "42601"],
      [{ sql: "SELECT $1::int + $2::int", params: [1] }, 422, "statement_failed", "08P01"],
      [{ sql: "SELECT 1 / (balance - balance) FROM account" }, 422, "statement_failed", "22012"],
      [{ sql: "INSERT INTO account VALUES (1, 1)" }, 409, "constraint_violation", "23505"],
      [{ sql: "UPDATE account SET balance = -1 WHERE id = 2" }, 409, "constraint_violation", "23514"],
    ];
    for (const [second, ...expected] of cases) {
      const problem = await gateway.refused({ statements: [first, second] });
      assert.deepEqual([problem.status, problem.code, problem.sqlstate], expected, second.sql);
      assert.deepEqual([problem.statement, problem.outcome], [1, "not_applied"]);
    }
    assert.equal(await total(), 1_000);
    const constraint = await gateway.refused({ statements: [{ sql: "INSERT INTO account VALUES (1, 1)" }] });
    assert.equal(constraint.constraint, "account_pkey");
  });

  it("transaction control is refused, before anything runs", async () => {
    const first = { sql: "UPDATE account SET balance = balance + 1 WHERE id = 1" };
    for (const sql of [
      "BEGIN",
      "COMMIT",
      "commit and chain",
      "; /* x */ COMMIT",
      "ROLLBACK",
      "END",
      "START TRANSACTION",
      "ABORT",
      "PREPARE TRANSACTION 'x'",
    ]) {
      const problem = await gateway.refused({ statements: [first, { sql }] });
      assert.deepEqual(
        [problem.status, problem.code, problem.statement],
        [400, "transaction_control", 1],
        sql,
      );
    }
    const block = await gateway.refused({ statements: [first, { sql: "DO $$ BEGIN COMMIT; END $$" }] });
    assert.equal(block.sqlstate, "2D000");
    const two = await gateway.refused({ statements: [first, { sql: "SELECT 1; COMMIT" }] });
    assert.equal(two.sqlstate, "42601");
    assert.equal(await total(), 1_000);
  });

  it("a savepoint may be rolled back to", async () => {
    await gateway.run(
      "UPDATE account SET balance = balance + 1 WHERE id = 1",
      "SAVEPOINT here",
      "UPDATE account SET balance = 0 WHERE id = 1",
      "ROLLBACK TO SAVEPOINT here",
      "UPDATE account SET balance = balance - 1 WHERE id = 1",
    );
    assert.equal(await total(), 1_000);
  });

  it("a time limit cancels the statement", async () => {
    const hasty = await TestGateway.start(cluster, { env: { GATEWAY_STATEMENT_TIMEOUT_MS: "2000" } });
    await hasty.ready();
    const problem = await hasty.refused({ statements: [{ sql: "SELECT pg_sleep(600)" }] });
    assert.deepEqual([problem.code, problem.statement], ["statement_timeout", 0]);
    await hasty.close();
  });
});

describe("results", () => {
  it("come as text with type oids, per statement", async () => {
    const { results, position, token, state } = await gateway.run(
      "SELECT 9007199254740993::int8 AS big, NULL::text AS none, 0.10::numeric AS exact",
      "UPDATE account SET balance = balance WHERE id <= 3",
    );
    assert.equal(state, "committed");
    assert.ok(BigInt(position.offset) > 0n && token.startsWith("hw2_"));
    assert.deepEqual(results, [
      {
        command: "SELECT",
        rowCount: 1,
        fields: [
          { name: "big", oid: 20 },
          { name: "none", oid: 25 },
          { name: "exact", oid: 1700 },
        ],
        rows: [["9007199254740993", null, "0.10"]],
      },
      { command: "UPDATE", rowCount: 3, fields: [], rows: [] },
    ]);
  });

  it("100,000 rows all arrive, of more the rest is marked as left out", async () => {
    const rows = async (count: number) => {
      const { results } = await gateway.run(`SELECT n FROM generate_series(1, ${String(count)}) n`);
      return { rows: results?.[0]?.rows.length, truncated: results?.[0]?.truncated };
    };
    assert.deepEqual(await rows(100_000), { rows: 100_000, truncated: undefined });
    assert.deepEqual(await rows(100_001), { rows: 100_000, truncated: true });
    assert.deepEqual(await rows(250_000), { rows: 100_000, truncated: true });
  });

  it("a read-only transaction cannot write, leaves no receipt and can be sent again", async () => {
    const id = newId();
    const read = { id, readOnly: true, statements: [{ sql: "SELECT count(*) FROM account" }] };
    for (let count = 0; count < 2; count++) {
      const { body } = await gateway.commit(read);
      assert.deepEqual(body.results?.[0]?.rows, [["10"]]);
      assert.equal(body.replayed, undefined);
    }
    assert.equal((await gateway.state(id)).state, "unknown");
    const problem = await gateway.refused({ readOnly: true, statements: [{ sql: "DELETE FROM account" }] });
    assert.equal(problem.sqlstate, "25006");
  });
});

describe("exactly once", () => {
  it("a replay gives the original outcome and runs nothing", async () => {
    const id = newId();
    const request = { id, statements: [{ sql: "UPDATE account SET balance = balance + 1 WHERE id = 5" }] };
    const original = (await gateway.commit(request)).body;
    const replay = (await gateway.commit(request)).body;
    assert.equal(replay.replayed, true);
    assert.equal(replay.results, null);
    assert.equal(replay.state, "committed");
    assert.equal(replay.position.epoch, original.position.epoch);
    assert.ok(BigInt(replay.position.offset) >= BigInt(original.position.offset));
    assert.equal(await total(), 1_001);
    assert.equal((await gateway.state(id)).state, "committed");
    await gateway.run("UPDATE account SET balance = balance - 1 WHERE id = 5");
  });

  it("two concurrent requests with one id run once, on one gateway and on two", async () => {
    const other = await TestGateway.start(cluster);
    await other.ready();
    for (const second of [gateway, other]) {
      const [id, gate] = [newId(), await database.gate()];
      const sql = "UPDATE account SET balance = balance + 1 WHERE id = 6";
      const request = { id, statements: [{ sql }, gate.inStatement] };
      const both = [gateway.post(request), second.post(request)];
      await gate.reached();
      // One is refused while the other runs, or waits for it where only the database knows of both.
      if (second === gateway) await Promise.race(both);
      else
        await database.untilRows("pg_stat_activity WHERE wait_event = 'transactionid' AND state = 'active'");
      await gate.open();
      const answers = await Promise.all(both);
      const statuses = answers.map(({ status }) => status).sort();
      assert.deepEqual(statuses, second === gateway ? [200, 409] : [200, 200]);
      if (second === gateway) {
        const refused = answers.find(({ status }) => status === 409);
        assert.ok(refused !== undefined);
        assert.equal(problemOf(refused).code, "transaction_in_progress");
      }
    }
    assert.equal(await total(), 1_002);
    await gateway.run("UPDATE account SET balance = balance - 2 WHERE id = 6");
    await other.close();
  });

  it("a failed transaction leaves its id free", async () => {
    const id = newId();
    assert.equal((await gateway.refused({ id, statements: [{ sql: "SELECT 1/0" }] })).sqlstate, "22012");
    assert.equal((await gateway.state(id)).state, "unknown");
    assert.equal((await gateway.commit({ id })).body.replayed, undefined);
  });
});

describe("sessions", () => {
  it("what a transaction sets does not reach the next", async () => {
    await gateway.run("CREATE SCHEMA elsewhere", "CREATE TABLE elsewhere.account (id int)");
    await Promise.all(
      Array.from({ length: 8 }, () =>
        gateway.run(
          "SET search_path = elsewhere",
          "SET synchronous_commit = on",
          "SET statement_timeout = 0",
          "SELECT pg_sleep(0.05)",
        ),
      ),
    );
    const show =
      "SELECT current_setting('search_path'), current_setting('synchronous_commit'), current_setting('statement_timeout')";
    const answers = await Promise.all(Array.from({ length: 16 }, () => gateway.run(show)));
    for (const { results } of answers)
      assert.deepEqual(results?.[0]?.rows, [['"$user", public', "off", "30s"]]);
  });

  it("no commit waits for a standby, whatever the transaction has set", async () => {
    await cluster.query("a", "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    await cluster.query("a", "SELECT pg_reload_conf()");
    const narrow = await TestGateway.start(cluster, { env: { GATEWAY_POOL_SIZE: "1" } });
    await narrow.ready();
    try {
      await eventually("its session has the setting", async () => {
        const { results } = await narrow.run("SHOW synchronous_standby_names");
        return results?.[0]?.rows[0]?.[0] === "nobody";
      });
      const started = performance.now();
      await narrow.run("SET synchronous_commit = on", "UPDATE account SET balance = balance WHERE id = 1");
      // One that waited would do so for the whole time of a transaction, a minute.
      assert.ok(performance.now() - started < 30_000);
    } finally {
      await narrow.close();
      await cluster.query("a", "ALTER SYSTEM RESET synchronous_standby_names");
      await cluster.query("a", "SELECT pg_reload_conf()");
    }
  });

  it("a serialization failure asks for the whole transaction again, with a new id", async () => {
    await gateway.run(
      "CREATE TABLE shift (doctor int PRIMARY KEY, on_call bool)",
      "INSERT INTO shift VALUES (1, true), (2, true)",
    );
    const gate = await database.gate();
    const leave = (doctor: number) =>
      gateway.post({
        statements: [
          { sql: "SELECT count(*) FROM shift WHERE on_call" },
          gate.inStatement,
          { sql: "UPDATE shift SET on_call = false WHERE doctor = $1", params: [doctor] },
        ],
      });
    const both = [leave(1), leave(2)];
    await eventually("both have looked", async () => (await database.count(gate.waiting)) === 2);
    await gate.open();
    const answers = await Promise.all(both);
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 409]);
    const failed = answers.find(({ status }) => status === 409);
    assert.ok(failed !== undefined);
    const problem = problemOf(failed);
    assert.deepEqual(
      [problem.code, problem.retry, problem.outcome, problem.sqlstate],
      ["serialization_failure", "transaction", "not_applied", "40001"],
    );
  });
});

describe("speed", () => {
  it("five statements take one round trip", async () => {
    const wire = await Wire.start(cluster.nodes[0]?.port ?? 0);
    const url = `postgresql://postgres@127.0.0.1:${String(wire.port)}/app`;
    const far = await TestGateway.start(cluster, { url, env: { GATEWAY_POOL_SIZE: "1" } });
    await far.ready();
    const mark = "SELECT sum(balance) AS on_this_connection FROM account";
    const transaction = () =>
      far.run(
        "UPDATE account SET balance = balance - 1 WHERE id = 1",
        "UPDATE account SET balance = balance + 1 WHERE id = 2",
        "UPDATE account SET balance = balance - 1 WHERE id = 2",
        "UPDATE account SET balance = balance + 1 WHERE id = 1",
        mark,
      );
    await transaction();
    const before = wire.turnsOf(mark);
    for (let count = 1; count <= 15; count++) {
      await transaction();
      assert.equal(wire.turnsOf(mark), before + count);
    }
    await far.close();
    await wire.close();
  });
});

describe("operations", () => {
  it("health, readiness and metrics", async () => {
    assert.equal((await fetch(`${gateway.url}/healthz`)).status, 200);
    const ready = (await (await fetch(`${gateway.url}/readyz`)).json()) as { primary: string };
    assert.equal(ready.primary, "a");
    const committed = await gateway.metric(
      'highwater_gateway_transactions_total{ack="commit",outcome="committed"}',
    );
    assert.ok(committed > 10);
    assert.equal(await gateway.metric("highwater_gateway_active_transactions"), 0);
  });
});
