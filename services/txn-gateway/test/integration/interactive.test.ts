// Goal: the calls of an interactive transaction each run once and in order, and calls of other principals have no effect.
// Method: a real gateway on a real database, and the database's own view of its sessions and rows.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { SESSION_HEADER } from "../../src/interactive/session-header.ts";
import { type Database } from "../support/database.ts";
import { newId } from "../support/fakes.ts";
import { checkedCommit, problemOf, statementsOf, type TestGateway } from "../support/gateway.ts";
import { Bench, briefly, note, openSessions } from "../support/interactive.ts";
import { Wire } from "../support/wire.ts";

let bench: Bench;
let database: Database;
let gateway: TestGateway;

before(async () => {
  bench = await Bench.start({ id: "a", region: "us-east" });
  ({ database, gateway } = bench);
  await gateway.run(
    "CREATE TABLE parent (id int PRIMARY KEY)",
    "CREATE TABLE child (parent int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)",
  );
});

after(() => bench.close());

describe("the calls", () => {
  it("several of them make one transaction, which is invisible before its commit", async () => {
    const open = await gateway.open(statementsOf([note(1), "SELECT 1 AS one"]));
    assert.deepEqual(
      open.begun.results.map(({ command, rows }) => [command, rows]),
      [
        ["INSERT", []],
        ["SELECT", [["1"]]],
      ],
    );
    const second = await open.run(
      "UPDATE note SET text = 'y' WHERE id = 1",
      "SELECT text FROM note WHERE id = 1",
    );
    assert.deepEqual(second.results[1]?.rows, [["y"]]);
    await open.run(note(2));
    assert.deepEqual([await bench.notes(1), await bench.notes(2)], [0, 0]);
    assert.equal((await gateway.state(open.id)).state, "active");
    assert.equal(await gateway.metric("highwater_gateway_open_transactions"), 1);
    const { status, body } = await open.commit(statementsOf(["SELECT count(*) FROM note"]));
    assert.deepEqual([status, body.state, body.results?.[0]?.rows], [200, "committed", [["2"]]]);
    assert.deepEqual([await bench.notes(1), await bench.notes(2)], [1, 1]);
    assert.deepEqual((await gateway.state(open.id)).state, "committed");
    await bench.nothingOpen(gateway);
  });

  it("run in one round trip each: BEGIN and its statements, and the last statements with COMMIT", async () => {
    const wire = await Wire.start(bench.cluster.nodes[0]?.port ?? 0);
    const url = `postgresql://postgres@127.0.0.1:${String(wire.port)}/app`;
    const far = await bench.start({}, { url });
    const mark = "SELECT 'on this connection'";
    await (await far.open(statementsOf([mark]))).rollback();
    const many = Array.from({ length: 20 }, (_, at) => `SELECT ${String(at)}`);
    const turns = [wire.turnsOf(mark)];
    const open = await far.open(statementsOf([mark, ...many]));
    turns.push(wire.turnsOf(mark));
    await open.run(...many);
    turns.push(wire.turnsOf(mark));
    await open.commit(statementsOf(many));
    turns.push(wire.turnsOf(mark));
    assert.deepEqual(
      turns.slice(1).map((now, at) => now - (turns[at] ?? 0)),
      [1, 1, 1],
    );
    await far.close();
    await wire.close();
  });

  it("a rollback undoes all of it, and its id is free", async () => {
    const open = await gateway.open(statementsOf([note(10)]));
    assert.deepEqual(await open.rollback(), { id: open.id, state: "aborted" });
    await bench.nothingOpen(gateway);
    assert.equal(await bench.notes(10), 0);
    assert.equal((await gateway.state(open.id)).state, "unknown");
    assert.deepEqual(briefly(await open.refused("commit")), [
      "out_of_sequence",
      409,
      "never",
      "not_applied",
      false,
    ]);
    assert.equal((await gateway.commit({ id: open.id, ...statementsOf([note(10)]) })).status, 200);
  });

  it("a begin that is repeated is answered as before, until the first call shows that the answer came", async () => {
    const id = newId();
    const begin = { id, ...statementsOf([note(20), "SELECT pg_backend_pid()"]) };
    const first = await gateway.open(begin);
    const again = gateway.opened(id, await gateway.call("/begin", begin));
    assert.deepEqual(again.begun.results, first.begun.results);
    assert.equal(again.session, first.session);
    const other = problemOf(await gateway.call("/begin", { id, ...statementsOf([note(21)]) }));
    assert.deepEqual(briefly(other), ["id_reused", 422, "transaction", "not_applied", true]);
    await first.run("SELECT 1");
    const late = problemOf(await gateway.call("/begin", begin));
    assert.deepEqual([late.code, late.status], ["transaction_in_progress", 409]);
    const { body } = await first.commit();
    const replayed = checkedCommit(await gateway.call("/begin", begin));
    assert.deepEqual([replayed.status, replayed.body.replayed, replayed.body.results], [200, true, null]);
    assert.equal(replayed.headers.get(SESSION_HEADER), null);
    assert.equal(replayed.body.position.epoch, body.position.epoch);
    assert.equal(await bench.notes(20), 1);
  });

  it("the id of a one-shot transaction begins no other, and the other way round", async () => {
    const id = newId();
    await gateway.commit({ id, ...statementsOf([note(25)]) });
    const begun = problemOf(await gateway.call("/begin", { id }));
    assert.deepEqual([begun.code, begun.status], ["id_reused", 422]);
    const open = await gateway.open(statementsOf([note(26)]));
    await open.commit();
    assert.equal((await gateway.refused({ id: open.id, ...statementsOf([note(26)]) })).code, "id_reused");
    await bench.nothingOpen(gateway);
  });

  it("words that control the transaction are refused, and it stays open", async () => {
    for (const keyword of [
      "COMMIT",
      "ROLLBACK",
      "BEGIN",
      "/* x */ end",
      "PREPARE TRANSACTION 'x'",
      "abort",
    ]) {
      const open = await gateway.open(
        statementsOf([`INSERT INTO note VALUES (30, '${newId()}') ON CONFLICT DO NOTHING`]),
      );
      const problem = await open.refused("statements", statementsOf(["SELECT 1", keyword]));
      assert.deepEqual(
        [problem.code, problem.statement, problem.open],
        ["transaction_control", 1, true],
        keyword,
      );
      const atCommit = await open.refused("commit", statementsOf([keyword]));
      assert.deepEqual(
        [atCommit.code, atCommit.statement, atCommit.open],
        ["transaction_control", 0, true],
        keyword,
      );
      assert.deepEqual((await open.run("SELECT count(*) FROM note WHERE id = 30")).results[0]?.rows, [["1"]]);
      await open.rollback();
      const begin = problemOf(await gateway.call("/begin", { id: newId(), ...statementsOf([keyword]) }));
      assert.equal(begin.code, "transaction_control");
    }
    assert.equal(await bench.notes(30), 0);
    await bench.nothingOpen(gateway);
  });

  it("runs at the isolation that was asked for, read-only and deferrable too", async () => {
    const shown =
      "SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only'), current_setting('transaction_deferrable')";
    for (const [options, expected] of [
      [{}, ["serializable", "off", "off"]],
      [{ isolation: "read committed" }, ["read committed", "off", "off"]],
      [{ isolation: "repeatable read", readOnly: true }, ["repeatable read", "on", "off"]],
      [{ readOnly: true, deferrable: true }, ["serializable", "on", "on"]],
    ] as const) {
      const open = await gateway.open(options);
      assert.deepEqual((await open.run(shown)).results[0]?.rows, [expected]);
      if ("readOnly" in options) {
        const problem = await open.refused("statements", statementsOf([note(40)]));
        assert.deepEqual([problem.code, problem.sqlstate, problem.open], ["statement_failed", "25006", true]);
        await open.rollback();
      } else assert.equal((await open.commit()).body.state, "committed");
    }
  });

  it("a result over the limit is refused, and what ran stays open", async () => {
    const small = await bench.start({ GATEWAY_MAX_ROWS: "10" });
    const rows = "SELECT generate_series(1, 11)";
    const open = await small.open();
    const problem = await open.refused("statements", statementsOf([note(50), rows]));
    assert.deepEqual(
      [problem.code, problem.open, problem.limit?.name],
      ["result_too_large", true, "maxRows"],
    );
    await open.commit();
    assert.equal(await bench.notes(50), 1);
    const begin = problemOf(await small.call("/begin", { id: newId(), ...statementsOf([rows]) }));
    assert.deepEqual([begin.code, begin.open], ["result_too_large", false]);
    const reading = await small.open({ readOnly: true });
    assert.equal((await reading.refused("commit", statementsOf([rows]))).code, "result_too_large");
    await bench.nothingOpen(small);
    await small.close();
  });
});

describe("the numbers of calls", () => {
  it("a repeated call gets the answer that it had, and runs nothing", async () => {
    const open = await gateway.open();
    const body = { seq: 1, ...statementsOf([note(100), "SELECT clock_timestamp()"]) };
    const first = await open.send("statements", body);
    assert.equal(first.status, 200);
    const again = await open.send("statements", body);
    assert.deepEqual([again.status, again.body], [first.status, first.body]);
    const other = problemOf(await open.send("statements", { seq: 1, ...statementsOf([note(101)]) }));
    assert.deepEqual(briefly(other), ["out_of_sequence", 409, "never", "not_applied", true]);
    const failing = { seq: 2, ...statementsOf(["SAVEPOINT s", note(100)]) };
    const failed = await open.send("statements", failing);
    const repeated = await open.send("statements", failing);
    assert.deepEqual([failed.status, repeated.body], [409, failed.body]);
    open.seq = 2;
    await open.run("ROLLBACK TO SAVEPOINT s");
    const commit = await open.commit();
    const replay = checkedCommit(await open.send("commit", { seq: open.seq }));
    assert.deepEqual([replay.status, replay.body], [commit.status, commit.body]);
    assert.deepEqual([await bench.notes(100), await bench.notes(101)], [1, 0]);
  });

  it("a gap or a step back is refused, and the transaction is still open", async () => {
    const open = await gateway.open();
    await open.run(note(110));
    await open.run("SELECT 1");
    for (const seq of [1, 4, 1_000]) {
      const problem = problemOf(await open.send("statements", { seq, ...statementsOf([note(111)]) }));
      assert.deepEqual(briefly(problem), ["out_of_sequence", 409, "never", "not_applied", true], String(seq));
    }
    const commit = problemOf(await open.send("commit", { seq: 4 }));
    assert.deepEqual(briefly(commit), ["out_of_sequence", 409, "never", "not_applied", true]);
    await open.commit();
    assert.deepEqual([await bench.notes(110), await bench.notes(111)], [1, 0]);
  });

  it("a call while another runs is refused, whatever its number and kind", async () => {
    const gate = await database.gate();
    const open = await gateway.open(statementsOf([note(120)]));
    const body = { seq: 1, statements: [gate.inStatement] };
    const running = open.send("statements", body);
    await gate.reached();
    for (const [name, other] of [
      ["statements", body],
      ["statements", { seq: 2, ...statementsOf(["SELECT 1"]) }],
      ["commit", { seq: 2 }],
      ["rollback", { seq: 2 }],
    ] as const) {
      const problem = problemOf(await open.send(name, other));
      assert.deepEqual(briefly(problem), ["transaction_in_progress", 409, "wait", "not_applied", true], name);
    }
    await gate.open();
    const answered = await running;
    assert.equal(answered.status, 200);
    assert.deepEqual((await open.send("statements", body)).body, answered.body);
    open.seq = 1;
    await open.commit();
    assert.equal(await bench.notes(120), 1);
  });
});

describe("the header", () => {
  it("missing, forged or another transaction's gets nowhere", async () => {
    const [open, other] = [await gateway.open(statementsOf([note(150)])), await gateway.open()];
    const [name = "", , mac = ""] = [gateway.name, "", open.session.split(".").at(-1)];
    const missing = problemOf(await open.send("commit", { seq: 1 }, { session: null }));
    assert.deepEqual([missing.code, missing.status], ["invalid_request", 400]);
    for (const session of [
      "",
      "x",
      other.session,
      `${name}.${open.id}.`,
      `${name}.${open.id}.${"A".repeat(mac.length)}`,
      `${name}.${other.id}.${mac}`,
      `elsewhere.${open.id}.${mac}`,
      `${open.session}, ${open.session}`,
    ]) {
      const problem = problemOf(await open.send("commit", { seq: 1 }, { session }));
      assert.deepEqual([problem.code, problem.status], ["transaction_not_open", 404], session);
      // A client that has sent its commit before does not get the answer that it came to nothing.
      assert.equal(problem.outcome, "unknown");
    }
    assert.equal((await open.commit()).body.state, "committed");
    await other.rollback();
  });

  it("of an id that was never begun there is none: 404", async () => {
    const open = await gateway.open();
    const id = newId();
    const how = { headers: { [SESSION_HEADER]: open.session } };
    for (const call of ["statements", "commit", "rollback"] as const) {
      const body = { seq: 1, ...(call === "statements" ? statementsOf(["SELECT 1"]) : {}) };
      const problem = problemOf(await gateway.call(`/${id}/${call}`, body, how));
      assert.deepEqual([problem.code, problem.status], ["transaction_not_open", 404]);
    }
    await open.rollback();
  });

  it("of another gateway of the deployment: 421, and the transaction goes on where it is", async () => {
    const [sister, stranger] = [await bench.start(), await bench.stranger()];
    const open = await gateway.open(statementsOf([note(160)]));
    const sent = problemOf(await open.send("commit", { seq: 1 }, { on: sister }));
    assert.deepEqual(
      [sent.code, sent.status, sent.retry, sent.outcome],
      ["wrong_gateway", 421, "wait", "unknown"],
    );
    assert.match(sent.detail ?? "", /^Gateway \S+ has the transaction/);
    const strange = problemOf(await open.send("commit", { seq: 1 }, { on: stranger }));
    assert.deepEqual([strange.code, strange.status], ["transaction_not_open", 404]);
    await open.commit();
    assert.equal(await bench.notes(160), 1);
    await sister.close();
    await stranger.close();
  });

  it("of another gateway: a rollback settles it there, so that what its gateway does later commits nothing", async () => {
    const sister = await bench.start();
    const open = await gateway.open(statementsOf([note(161)]));
    const settled = await open.send("rollback", { seq: 1 }, { on: sister });
    assert.deepEqual([settled.status, settled.body], [200, { id: open.id, state: "aborted" }]);
    const late = await open.refused("commit", { seq: 1 });
    assert.deepEqual([late.code, late.outcome, late.open], ["transaction_aborted", "not_applied", false]);
    assert.equal(await bench.notes(161), 0);
    assert.equal((await sister.state(open.id)).state, "aborted");
    const done = await gateway.open(statementsOf([note(162)]));
    await done.commit();
    const refused = problemOf(await done.send("rollback", { seq: 2 }, { on: sister }));
    assert.deepEqual([refused.code, refused.outcome], ["out_of_sequence", "applied"]);
    assert.equal(await bench.notes(162), 1);
    await sister.close();
  });
});

describe("a failure", () => {
  it("of a statement leaves it open: from a savepoint it goes on, without one nothing commits", async () => {
    const open = await gateway.open(statementsOf([note(200), "SAVEPOINT s"]));
    const problem = await open.refused("statements", statementsOf(["SELECT 1", note(200)]));
    assert.deepEqual(briefly(problem), ["constraint_violation", 409, "never", "not_applied", true]);
    assert.deepEqual([problem.statement, problem.sqlstate, problem.constraint], [1, "23505", "note_key"]);
    assert.equal((await open.refused("statements", statementsOf(["SELECT 1"]))).sqlstate, "25P02");
    await open.run("ROLLBACK TO SAVEPOINT s", note(201));
    await open.commit();
    assert.deepEqual([await bench.notes(200), await bench.notes(201)], [1, 1]);

    const doomed = await gateway.open(statementsOf([note(202)]));
    await doomed.refused("statements", statementsOf(["SELECT 1/0"]));
    const commit = await doomed.refused("commit");
    assert.deepEqual(
      [commit.code, commit.sqlstate, commit.outcome, commit.open],
      ["statement_failed", "25P02", "not_applied", false],
    );
    assert.equal(await bench.notes(202), 0);
    assert.equal((await gateway.state(doomed.id)).state, "unknown");
    await bench.nothingOpen(gateway);
  });

  it("of a statement that lacks memory uses its number up, as any other", async () => {
    const lacking = statementsOf([
      "DO $$ BEGIN RAISE EXCEPTION 'out of shared memory' USING ERRCODE = '53200'; END $$",
    ]);
    const open = await gateway.open(statementsOf([note(203), "SAVEPOINT s"]));
    const problem = await open.refused("statements", lacking);
    assert.deepEqual(briefly(problem), ["statement_failed", 422, "never", "not_applied", true]);
    assert.deepEqual([problem.statement, problem.sqlstate, problem.retryAfterMs], [0, "53200", undefined]);
    const again = problemOf(await open.send("statements", { seq: open.seq, ...lacking }));
    assert.deepEqual(briefly(again), briefly(problem));
    await open.run("ROLLBACK TO SAVEPOINT s");
    const last = await open.refused("commit", lacking);
    assert.deepEqual(briefly(last), ["statement_failed", 422, "never", "not_applied", false]);
    assert.equal(await bench.notes(203), 0);
  });

  it("of a read that finds no memory for its rows uses its number up, and the next call runs", async (context) => {
    const small = await bench.start({
      GATEWAY_RESULT_MEMORY_BYTES: "18000000",
      GATEWAY_MAX_RESULT_BYTES: "3000000",
      // What a failure leaves open must not hold up the end of the gateway.
      GATEWAY_IDLE_TIMEOUT_MS: "10000",
    });
    context.after(() => small.close());
    const rows = (count: number): string =>
      `SELECT repeat('x', 1000) FROM generate_series(1, ${String(count)})`;
    const holding = await small.open(statementsOf([rows(2_200)]));
    const open = await small.open(statementsOf(["SELECT 1"]));
    const problem = await open.refused("statements", statementsOf([rows(2_800)]));
    assert.deepEqual(briefly(problem), ["result_too_large", 422, "never", "not_applied", true]);
    assert.deepEqual(problem.limit, { name: "resultMemoryBytes", value: 18_000_000 });
    await holding.rollback();
    await open.run(rows(2_800));
    await open.rollback();
  });

  it("of a begin's statement opens nothing, and the id can be used", async () => {
    const id = newId();
    const problem = problemOf(
      await gateway.call("/begin", { id, ...statementsOf([note(210), "SELECT 1/0"]) }),
    );
    assert.deepEqual([problem.code, problem.statement, problem.sqlstate], ["statement_failed", 1, "22012"]);
    await bench.nothingOpen(gateway);
    await (await gateway.open({ id, ...statementsOf([note(210)]) })).commit();
    assert.equal(await bench.notes(210), 1);
  });

  it("of a statement that rides on the commit: nothing is applied", async () => {
    const open = await gateway.open(statementsOf([note(220)]));
    const problem = await open.refused("commit", statementsOf([note(221), "SELECT 1/0"]));
    assert.deepEqual(
      [problem.code, problem.statement, problem.outcome, problem.open],
      ["statement_failed", 1, "not_applied", false],
    );
    assert.deepEqual([await bench.notes(220), await bench.notes(221)], [0, 0]);
    const again = problemOf(
      await open.send("commit", { seq: 1, ...statementsOf([note(221), "SELECT 1/0"]) }),
    );
    // The evidence is the log's end, which may have moved on.
    const withoutEvidence = ({ evidence: _evidence, ...rest }: typeof problem) => rest;
    assert.deepEqual(withoutEvidence(again), withoutEvidence(problem));
    assert.deepEqual(briefly(await open.refused("rollback")), [
      "transaction_aborted",
      409,
      "transaction",
      "not_applied",
      false,
    ]);
    await bench.nothingOpen(gateway);
  });

  it("by a conflict in a statement ends it: run it all again", async () => {
    await gateway.run(note(230));
    const open = await gateway.open(statementsOf(["SELECT * FROM note WHERE id = 230"]));
    await gateway.run("UPDATE note SET text = 'theirs' WHERE id = 230");
    const problem = await open.refused(
      "statements",
      statementsOf(["UPDATE note SET text = 'ours' WHERE id = 230"]),
    );
    assert.deepEqual(briefly(problem), ["serialization_failure", 409, "transaction", "not_applied", false]);
    assert.equal(problem.sqlstate, "40001");
    await database.untilNone(openSessions(gateway));
    assert.deepEqual(briefly(await open.refused("commit")), [
      "transaction_aborted",
      409,
      "transaction",
      "not_applied",
      false,
    ]);
  });

  it("by a deadlock ends one of two, and the other goes on", async () => {
    await gateway.run(note(240), note(241));
    const options = { isolation: "read committed" } as const;
    const update = (key: number): string => `UPDATE note SET text = 'd' WHERE id = ${String(key)}`;
    const one = await gateway.open({ ...options, ...statementsOf([update(240)]) });
    const two = await gateway.open({ ...options, ...statementsOf([update(241)]) });
    const answers = await Promise.all([
      one.send("statements", statementsOf([update(241)])),
      two.send("statements", statementsOf([update(240)])),
    ]);
    const loser = answers.find(({ status }) => status !== 200);
    assert.ok(loser !== undefined && answers.some(({ status }) => status === 200));
    const problem = problemOf(loser);
    assert.deepEqual(briefly(problem), ["serialization_failure", 409, "transaction", "not_applied", false]);
    assert.equal(problem.sqlstate, "40P01");
    await (answers[0] === loser ? two : one).commit();
  });

  it("at COMMIT itself, by a conflict or a deferred constraint: not applied", async () => {
    const one = await gateway.open(statementsOf(["SELECT count(*) FROM note", note(250)]));
    const two = await gateway.open(statementsOf(["SELECT count(*) FROM note", note(251)]));
    await one.commit();
    const conflict = await two.refused("commit");
    assert.deepEqual(briefly(conflict), ["serialization_failure", 409, "transaction", "not_applied", false]);
    assert.deepEqual([await bench.notes(250), await bench.notes(251)], [1, 0]);
    const orphan = await gateway.open(statementsOf([note(252), "INSERT INTO child VALUES (9)"]));
    const deferred = await orphan.refused("commit");
    assert.deepEqual(briefly(deferred), ["constraint_violation", 409, "never", "not_applied", false]);
    assert.deepEqual([deferred.statement, deferred.constraint], [undefined, "child_parent_fkey"]);
    assert.equal(await bench.notes(252), 0);
    await bench.nothingOpen(gateway);
  });

  it("of its session, between two calls: it is aborted, and nothing was applied", async () => {
    const open = await gateway.open(statementsOf([note(260)]));
    await database.query(`SELECT pg_terminate_backend(pid) FROM ${openSessions(gateway)}`);
    await database.untilNone(openSessions(gateway));
    const problem = await open.refused("commit");
    assert.deepEqual(briefly(problem), ["transaction_aborted", 409, "transaction", "not_applied", false]);
    assert.equal(await bench.notes(260), 0);
    await bench.nothingOpen(gateway);
    await bench.poolIsWhole(gateway);
  });
});
