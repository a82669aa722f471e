// Goal: whatever breaks at whatever step of a transaction, its effects are there once or not at all, every answer is true, and the
// same request sent again never runs it twice. Method: a table without a key that counts runs; relays that read along and cut the
// database's or the client's connection at a known step; gates that hold a statement or a COMMIT; a gateway process that is killed.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { eventually } from "@highwater/lab-tools/process";
import { type Problem, type TransactionResponse } from "@highwater/protocol";
import { SESSION_HEADER } from "../../src/interactive/session-header.ts";
import { type Database } from "../support/database.ts";
import { newId } from "../support/fakes.ts";
import {
  type GatewayResponse,
  checkedCommit,
  gatewayEnv,
  problemOf,
  statementsOf,
  type TestGateway,
  type TestTransaction,
} from "../support/gateway.ts";
import { Bench, briefly, PATIENT_ENV } from "../support/interactive.ts";
import { Wire } from "../support/wire.ts";

const MAIN = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
const ABORTED = ["transaction_aborted", 409, "transaction", "not_applied"];

let bench: Bench;
let database: Database;
let gateway: TestGateway;
/** Between `wired` and the database. */
let wire: Wire;
let wired: TestGateway;

before(async () => {
  bench = await Bench.start({ id: "a", region: "us-east" });
  ({ database, gateway } = bench);
  await gateway.run("CREATE TABLE run (id text)");
  wire = await Wire.start(bench.cluster.nodes[0]?.port ?? 0);
  wired = await bench.start({}, { url: urlOf(wire) });
});

after(async () => {
  await wired.close();
  await wire.close();
  await bench.close();
});

const urlOf = ({ port }: Wire): string => `postgresql://postgres@127.0.0.1:${String(port)}/app`;
const run = (id: string): { sql: string } => ({ sql: `INSERT INTO run VALUES ('${id}')` });
const runs = (id: string): Promise<number> => database.count("run WHERE id = $1", [id]);
const post = (on: TestGateway, id: string, ...more: { sql: string }[]): Promise<GatewayResponse<unknown>> =>
  on.call("", { id, statements: [run(id), ...more] });

/** What a relay knows a commit by: the words of COMMIT itself may have been prepared before. */
const lastStatement = (id: string): string => `the last word of ${id}`;
const commitOf = (id: string) => ({ seq: 1, ...statementsOf([`SELECT '${lastStatement(id)}'`]) });

/** It never commits any more, and an attempt under a new id is another transaction. */
async function settledAsAborted(id: string, answered: GatewayResponse<unknown>, on = wired): Promise<void> {
  assert.deepEqual(briefly(problemOf(answered)).slice(0, 4), ABORTED);
  assert.equal(await runs(id), 0);
  assert.deepEqual(briefly(problemOf(await post(on, id))).slice(0, 4), ABORTED);
  assert.equal((await on.state(id)).state, "aborted");
  assert.equal(await runs(id), 0);
}

/** It has run once; the same request is answered from its receipt, and another one under its id is refused. */
async function ranOnce(id: string, on: TestGateway, ...more: { sql: string }[]): Promise<void> {
  assert.equal(await runs(id), 1);
  const again = checkedCommit(await post(on, id, ...more));
  assert.deepEqual([again.status, again.body.replayed, again.body.results], [200, true, null]);
  const other = problemOf(await post(on, id, ...more, { sql: "SELECT 'another body'" }));
  assert.deepEqual(briefly(other).slice(0, 4), ["id_reused", 422, "transaction", "not_applied"]);
  assert.equal((await on.state(id)).state, "committed");
  assert.equal(await runs(id), 1);
}

async function recovered(): Promise<void> {
  await wired.ready();
  await bench.nothingOpen(wired);
}

describe("a one-shot transaction whose database connection is cut", () => {
  it("before its BEGIN arrives", async () => {
    const id = newId();
    const [answered] = await Promise.all([post(wired, id), wire.once(id, "cut")]);
    await settledAsAborted(id, answered);
    await recovered();
  });

  it("in a statement, by the network or by the server", async () => {
    for (const byServer of [false, true]) {
      const [id, gate] = [newId(), await database.gate()];
      const answer = post(wired, id, gate.inStatement);
      await gate.reached();
      if (byServer) await gate.terminate();
      else wire.cutAll();
      await settledAsAborted(id, await answer);
      await gate.open();
      await recovered();
      assert.equal(await runs(id), 0);
    }
  });

  it("in its COMMIT, before that takes place", async () => {
    for (const byServer of [false, true]) {
      const [id, gate] = [newId(), await database.gate()];
      const answer = post(wired, id, gate.atCommit);
      await gate.reached();
      if (byServer) await gate.terminate();
      else wire.cutAll();
      await settledAsAborted(id, await answer);
      await gate.open();
      await recovered();
      assert.equal(await runs(id), 0);
    }
  });

  it("after its COMMIT took place, before the answer", async () => {
    const id = newId();
    const held = wire.once(id, "hold");
    const answer = post(wired, id);
    await held;
    await database.untilRows("run WHERE id = $1", [id]);
    wire.cutAll();
    const { status, body } = checkedCommit(await answer);
    assert.deepEqual([status, body.state, body.replayed, body.results], [200, "committed", true, null]);
    await ranOnce(id, wired);
    await recovered();
  });
});

describe("an interactive transaction whose database connection is cut", () => {
  const opened = (id: string, ...more: { sql: string }[]): Promise<TestTransaction> =>
    wired.open({ id, statements: [run(id), ...more] });

  it("at its begin: nothing is open, and the id can begin again", async () => {
    const id = newId();
    const begin = { id, statements: [run(id)] };
    const [answered] = await Promise.all([wired.call("/begin", begin), wire.once(id, "cut")]);
    assert.deepEqual(briefly(problemOf(answered)).slice(0, 4), ABORTED);
    await recovered();
    await (await opened(id)).commit();
    assert.equal(await runs(id), 1);
  });

  it("in a statement, and between statements and COMMIT", async () => {
    for (const isRunning of [true, false]) {
      const [id, gate] = [newId(), await database.gate()];
      const open = await opened(id);
      const call = isRunning ? open.send("statements", { statements: [gate.inStatement] }) : null;
      if (call !== null) await gate.reached();
      wire.cutAll();
      if (call !== null) assert.deepEqual(briefly(problemOf(await call)), [...ABORTED, false]);
      assert.deepEqual(briefly(await open.refused("commit")), [...ABORTED, false]);
      await gate.open();
      await recovered();
      assert.equal(await runs(id), 0);
    }
  });

  it("with the COMMIT on its way, and in it", async () => {
    for (const arrives of [false, true]) {
      const [id, gate] = [newId(), await database.gate()];
      const open = await opened(id, gate.atCommit);
      const cut = arrives ? gate.reached() : wire.once(lastStatement(id), "cut");
      const call = open.send("commit", commitOf(id));
      await cut;
      wire.cutAll();
      const answered = await call;
      assert.deepEqual(briefly(problemOf(answered)), [...ABORTED, false]);
      await gate.open();
      assert.deepEqual((await open.send("commit", commitOf(id))).body, answered.body);
      assert.equal((await wired.state(id)).state, "aborted");
      await recovered();
      assert.equal(await runs(id), 0);
    }
  });

  it("after the COMMIT took place, before the answer", async () => {
    const id = newId();
    const open = await opened(id);
    const held = wire.once(lastStatement(id), "hold");
    const call = open.send("commit", commitOf(id));
    await held;
    await database.untilRows("run WHERE id = $1", [id]);
    wire.cutAll();
    const { status, body } = checkedCommit(await call);
    assert.deepEqual([status, body.state, body.replayed], [200, "committed", true]);
    const again = checkedCommit(await open.send("commit", commitOf(id)));
    assert.deepEqual([again.status, again.body], [status, { ...body, marks: again.body.marks }]);
    const begun = checkedCommit(await wired.call("/begin", { id, statements: [run(id)] }));
    assert.equal(begun.body.replayed, true);
    assert.equal(await runs(id), 1);
    await recovered();
  });

  it("and the database stays away for longer than a client waits: unknown, and later resolved by the same call", async () => {
    for (const commits of [true, false]) {
      const id = newId();
      const open = await opened(id);
      const arrived = wire.once(lastStatement(id), commits ? "hold" : "cut");
      const call = open.send("commit", commitOf(id));
      await arrived;
      if (commits) await database.untilRows("run WHERE id = $1", [id]);
      wire.isDown = true;
      wire.cutAll();
      const unknown = problemOf(await call);
      assert.deepEqual(
        [unknown.code, unknown.status, unknown.outcome, unknown.retry],
        ["commit_unconfirmed", 503, "unknown", "resolve_outcome"],
      );
      // Another call gets no more than that, and the id is not free for another attempt.
      for (const other of [await open.send("commit", commitOf(id)), await open.send("rollback", { seq: 2 })])
        assert.equal(problemOf(other).outcome, "unknown");
      assert.equal(problemOf(await wired.call("/begin", { id })).code, "transaction_in_progress");
      wire.isDown = false;
      let last: GatewayResponse<unknown> | undefined;
      await eventually("it is resolved", async () => {
        last = await open.send("commit", commitOf(id));
        return ![503, 409].includes(last.status);
      });
      assert.ok(last !== undefined);
      if (commits) assert.equal(checkedCommit(last).body.replayed, true);
      else
        assert.deepEqual(briefly(problemOf(last)).slice(0, 4), [
          "transaction_expired",
          410,
          "transaction",
          "not_applied",
        ]);
      assert.equal(await runs(id), commits ? 1 : 0);
      await recovered();
    }
  });
});

describe("a client whose connection is cut", () => {
  /** Between the client and the gateway. */
  let front: Wire;
  let viaFront: TestGateway;

  before(async () => {
    front = await Wire.start(Number(new URL(gateway.url).port));
    viaFront = gateway.reachedBy(`http://127.0.0.1:${String(front.port)}`);
  });

  after(() => front.close());

  it("before its request arrives: it was not run, and the same request is its first run", async () => {
    const id = newId();
    void front.once(id, "cut");
    await assert.rejects(post(viaFront, id));
    assert.equal(await runs(id), 0);
    const { body } = checkedCommit(await post(viaFront, id));
    assert.equal(body.replayed, undefined);
    await ranOnce(id, gateway);
  });

  it("in a statement or in COMMIT: the same request runs it, or is answered as it ended", async () => {
    for (const step of ["inStatement", "atCommit"] as const) {
      const [id, gate] = [newId(), await database.gate()];
      const statement = gate[step];
      const lost = assert.rejects(post(viaFront, id, statement));
      await gate.reached();
      front.cutAll();
      await lost;
      // While the first still runs the same request is refused; afterwards it is the first run, or the first one's answer.
      await gate.open();
      const refused: GatewayResponse<unknown>[] = [];
      await eventually("it is answered", async () => {
        const answered = await post(viaFront, id, statement);
        if (answered.status === 200) return true;
        refused.push(answered);
        return false;
      });
      for (const problem of refused.map(problemOf))
        assert.deepEqual(
          [problem.code, problem.status, problem.retry],
          ["transaction_in_progress", 409, "wait"],
        );
      await ranOnce(id, gateway, statement);
    }
  });

  it("before the answer arrives: the same request is answered, and nothing runs again", async () => {
    const id = newId();
    void front.once(id, "hold");
    const lost = assert.rejects(post(viaFront, id));
    await eventually("it was answered", async () => front.hasHeld);
    front.cutAll();
    await lost;
    await ranOnce(id, gateway);
  });

  it("before the answer to an interactive commit arrives: the same call is answered in full", async () => {
    const id = newId();
    const open = await gateway.open({ id, statements: [run(id)] });
    const body = { seq: 1, ...statementsOf(["SELECT 'the last word'"]) };
    void front.once(`/${id}/commit`, "hold");
    const lost = assert.rejects(open.send("commit", body, { on: viaFront }));
    await eventually("it was answered", async () => front.hasHeld);
    front.cutAll();
    await lost;
    const { body: answer } = checkedCommit(await open.send("commit", body));
    assert.deepEqual([answer.replayed, answer.results?.[0]?.rows], [undefined, [["the last word"]]]);
    const other = problemOf(await open.send("commit", { seq: 1, ...statementsOf(["SELECT 'another'"]) }));
    assert.equal(other.code, "out_of_sequence");
    assert.equal(await runs(id), 1);
  });
});

describe("one id twice at the same time", () => {
  it("on one gateway: the second is refused while the first runs, whatever its body", async () => {
    const [id, gate] = [newId(), await database.gate()];
    const first = post(gateway, id, gate.inStatement);
    await gate.reached();
    for (const answered of [
      await post(gateway, id, gate.inStatement),
      await post(gateway, id),
      await gateway.call("/begin", { id }),
    ]) {
      const problem = problemOf(answered);
      assert.deepEqual(
        [problem.code, problem.status, problem.retry],
        ["transaction_in_progress", 409, "wait"],
      );
    }
    await gate.open();
    assert.equal(checkedCommit(await first).body.replayed, undefined);
    await ranOnce(id, gateway, gate.inStatement);
  });

  it("on two gateways: one runs it, and the other answers with that", async () => {
    const [id, gate] = [newId(), await database.gate()];
    const first = post(gateway, id, gate.inStatement);
    await gate.reached();
    const second = post(wired, id, gate.inStatement);
    await database.untilRows(
      `pg_stat_activity WHERE application_name = 'highwater:${wired.name}' AND wait_event = 'transactionid'`,
    );
    await gate.open();
    assert.equal(checkedCommit(await first).body.replayed, undefined);
    assert.equal(checkedCommit(await second).body.replayed, true);
    await ranOnce(id, wired, gate.inStatement);
  });

  it("many at once on two gateways: each runs once", async () => {
    const ids = Array.from({ length: 100 }, () => newId());
    const answers = await Promise.all(
      ids.flatMap((id) =>
        [gateway, wired, gateway, wired].map(async (on) => ({ id, answered: await post(on, id) })),
      ),
    );
    const first = new Map<string, number>();
    for (const { id, answered } of answers) {
      if (answered.status === 200) {
        if ((answered.body as TransactionResponse).replayed !== true) first.set(id, (first.get(id) ?? 0) + 1);
      } else
        assert.equal(
          (answered.body as Problem).code,
          "transaction_in_progress",
          JSON.stringify(answered.body),
        );
    }
    for (const id of ids) assert.deepEqual([first.get(id), await runs(id)], [1, 1]);
  });

  it("begun on two gateways: the second waits for the end of the first", async () => {
    for (const commits of [true, false]) {
      const id = newId();
      const begin = { id, statements: [run(id)] };
      const open = await gateway.open(begin);
      const second = wired.call("/begin", begin);
      await database.untilRows(
        `pg_stat_activity WHERE application_name = 'highwater:${wired.name}' AND wait_event = 'transactionid'`,
      );
      if (commits) {
        await open.commit();
        assert.equal(checkedCommit(await second).body.replayed, true);
      } else {
        await open.rollback();
        await wired.opened(id, await second).commit();
      }
      assert.equal(await runs(id), 1);
    }
  });
});

describe("a gateway that is killed in an interactive COMMIT", () => {
  const children: ChildProcess[] = [];

  after(() => {
    for (const child of children) child.kill("SIGKILL");
  });

  async function startProcess(name: string): Promise<{ child: ChildProcess; url: string }> {
    const [{ id, region, zone } = { id: "a", region: "", zone: "" }] = bench.cluster.nodes;
    const nodes = [{ id, region, zone, url: urlOf(wire) }];
    const env = gatewayEnv(name, nodes, { env: { ...PATIENT_ENV, PATH: process.env["PATH"] ?? "" } });
    const child = spawn(process.execPath, [MAIN], { env, stdio: ["ignore", "pipe", "ignore"] });
    children.push(child);
    const [line] = (await once(child.stdout.setEncoding("utf8"), "data")) as [string];
    return { child, url: (JSON.parse(line) as { url: string }).url };
  }

  for (const step of ["before it takes place", "after it took place"] as const)
    it(`${step}: its successor answers the same call with the true outcome`, async () => {
      const hasCommitted = step === "after it took place";
      const name = hasCommitted ? "killed-after" : "killed-before";
      const { child, url } = await startProcess(name);
      await eventually("it is ready", async () => (await fetch(`${url}/readyz`)).status === 200);
      const [id, gate] = [newId(), await database.gate()];
      const statements = hasCommitted ? [run(id)] : [run(id), gate.atCommit];
      const headers = { "content-type": "application/json" };
      const begun = await fetch(`${url}/v1/transactions/begin`, {
        ...{ method: "POST", headers, body: JSON.stringify({ id, statements }) },
      });
      const session = begun.headers.get(SESSION_HEADER);
      assert.ok(session !== null, await begun.text());
      const reached = hasCommitted ? wire.once(lastStatement(id), "hold") : gate.reached();
      const commit = fetch(`${url}/v1/transactions/${id}/commit`, {
        ...{ method: "POST", headers: { ...headers, [SESSION_HEADER]: session } },
        body: JSON.stringify(commitOf(id)),
      });
      await reached;
      if (hasCommitted) await database.untilRows("run WHERE id = $1", [id]);
      child.kill("SIGKILL");
      await assert.rejects(commit);
      const successor = await bench.start({ GATEWAY_NAME: name });
      const call = (path: string, seq: number): Promise<GatewayResponse<unknown>> =>
        successor.call(`/${id}/${path}`, { seq }, { headers: { [SESSION_HEADER]: session } });
      const answered = await call("commit", 1);
      if (hasCommitted) assert.equal(checkedCommit(answered).body.replayed, true);
      else
        assert.deepEqual(briefly(problemOf(answered)), [
          ...["transaction_expired", 410, "transaction", "not_applied", false],
        ]);
      await gate.open();
      assert.deepEqual((await call("commit", 1)).status, answered.status);
      const late = problemOf(await call("rollback", 2));
      assert.deepEqual(
        [late.code, late.outcome],
        hasCommitted ? ["out_of_sequence", "applied"] : ["transaction_expired", "not_applied"],
      );
      assert.equal(await runs(id), hasCommitted ? 1 : 0);
      await successor.close();
    });
});
