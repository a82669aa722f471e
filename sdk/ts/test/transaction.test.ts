// One-shot transactions of this language: what is sent, and what a handle has of the answer. The scenarios show what is sent
// again and what the caller learns: of sdk/conformance.
import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { describe, test } from "node:test";
import { token } from "@highwater/conformance/fake";
import { Highwater, newTransactionId, sql, UnknownOutcomeError } from "../src/index.ts";
import { client, service, streaming } from "./client-support.ts";
import { E1, marks } from "./support.ts";

const statement = sql`SELECT ${1}`;

test("a transaction: request, results, rows, token, marks, and where it was served", async (context) => {
  const served = {
    ...({ node: "b", region: "us-west", role: "replica" } as const),
    ...{ behindBytes: "0", behindMs: 4 },
  };
  const results = [
    { command: "UPDATE", rowCount: 2, fields: [], rows: [] },
    { command: "SELECT", rowCount: 1, fields: [{ name: "n", oid: 20 }], rows: [["7"]] },
  ];
  const fake = await service(context, {
    transactions: { ok: { results, served, marks: { epoch: 1, levels: { region: 4 } } } },
  });
  const hw = client(context, [fake], { headers: { authorization: "Bearer x" } });
  assert.equal(hw.marks, null);
  const id = newTransactionId();
  const execution = { isolation: "read committed", readOnly: true, metadata: { a: "b" } } as const;
  const tx = await hw.transaction([statement, sql`SELECT 2`], { id: id.toUpperCase(), ...execution });
  assert.deepEqual(fake.calls[0]?.body, {
    ...{ id, statements: [{ sql: "SELECT $1", params: [1] }, { sql: "SELECT 2" }], ...execution },
  });
  assert.deepEqual(
    [tx.id, tx.state, tx.token, tx.position, tx.replayed, tx.announced, tx.served],
    [id, "committed", token(1, 10, id), { epoch: E1, offset: "10" }, false, true, served],
  );
  assert.deepEqual(tx.rows, [{ n: 7n }]);
  assert.deepEqual(
    tx.results?.map(({ rowCount }) => rowCount),
    [2, 1],
  );
  assert.deepEqual(hw.marks, marks(E1, { region: 4 }));
  assert.deepEqual(hw.exposure, { count: 0, oldestMs: 0 });
});

test("a lost reply: the same id and body again, and a replay has no rows to give", async (context) => {
  const fake = await service(context, { transactions: ["cut", { ok: { replayed: true } }] });
  const tx = await client(context, [fake]).transaction(statement);
  const [first, second] = fake.of("transactions");
  assert.deepEqual(first?.body, second?.body);
  assert.equal(tx.results, null);
  assert.throws(() => tx.rows, { name: "HighwaterError", code: "results_not_kept", outcome: "applied" });
});

test("an attempt without an answer times out, and the next one goes elsewhere", async (context) => {
  const [near, far] = [await service(context, { transactions: "hang" }), await service(context)];
  const hw = client(context, [near, far], { requestTimeoutMs: 2_500, tuning: { cooldownBaseMs: 60_000 } });
  await hw.transaction(statement);
  assert.deepEqual(near.of("transactions")[0]?.body, far.of("transactions")[0]?.body);
  // The near one rests for a while.
  await hw.transaction(statement);
  assert.equal(near.seen.transactions, 1);
});

test("with a single endpoint there is no other service to ask whether the gateway is alive", async (context) => {
  const only = await service(context, { transactions: "hang" });
  const limits = { requestTimeoutMs: 500, totalTimeoutMs: 600, tuning: { probeMs: 100 } };
  await assert.rejects(client(context, [only], limits).transaction(statement), UnknownOutcomeError);
  assert.equal(only.seen.probes, 0);
});

test("endpoints of their own for gateway and tracker", async (context) => {
  const gateway = await service(context);
  const tracker = await service(context, { verdicts: { ok: {} } });
  const hw = new Highwater({ endpoints: [{ gateway: `${gateway.url}/`, tracker: tracker.url }] });
  context.after(() => hw.close());
  const tx = await hw.transaction(statement);
  await hw.verdicts([tx.token]);
  assert.deepEqual([gateway.seen.transactions, gateway.seen.verdicts], [1, 0]);
  assert.deepEqual([tracker.seen.transactions, tracker.seen.verdicts], [0, 1]);
});

describe("its time is over", { concurrency: true }, () => {
  test("a resend is refused while its first copy may be on its way: the outcome is unknown", async (context) => {
    const fake = await service(context, {
      transactions: (_call, number) => (number === 1 ? "cut" : { problem: "split_brain" }),
    });
    const wait = client(context, [fake]).transaction(statement, { timeoutMs: 2_500 });
    await assert.rejects(wait, UnknownOutcomeError, "it may still commit");
  });

  test("refused as long as it lasts, it was not applied; without any answer, the cause is the connection", async (context) => {
    const [split, cut] = [{ transactions: { problem: "split_brain" } }, { transactions: "cut" } as const];
    // The last attempt has longer than a busy machine stalls: cut short, it would leave the outcome unknown.
    const options = { tuning: { attemptMinMs: 2_000 } };
    const run = async (script: typeof split | typeof cut): Promise<unknown> =>
      client(context, [await service(context, script)], options).transaction(statement, { timeoutMs: 2_500 });
    await Promise.all([
      assert.rejects(run(split), { name: "UnavailableError", code: "split_brain", outcome: "not_applied" }),
      assert.rejects(run(cut), (error: Error) => (error.cause as Error).name === "NoAnswerError"),
    ]);
  });
});

test("a call that ended by itself leaves no listener on its signal", async (context) => {
  const fake = await service(context, { transactions: [{ problem: "overloaded" }] });
  const { signal } = new AbortController();
  const tx = await client(context, [fake]).transaction(statement, { signal });
  assert.equal(getEventListeners(signal, "abort").length, 0);
  const wait = tx.durable({ signal });
  assert.equal(getEventListeners(signal, "abort").length, 1);
  await streaming(fake);
  fake.mark({ epoch: 1, levels: { region: 10 } });
  await wait;
  assert.equal(getEventListeners(signal, "abort").length, 0);
});

test("what questions say of the answer that is wanted: level, and how long to wait for it", async (context) => {
  const fake = await service(context, {
    transactions: { problem: "commit_unconfirmed" },
    states: [
      { ok: { state: "committed" } },
      { ok: { state: "durable", marks: { epoch: 1, levels: { disk: 3 } } } },
    ],
    verdicts: { ok: { each: "durable" } },
  });
  const hw = client(context, [fake]);
  const tx = await hw.transaction(statement, { ack: "durable", maxWaitMs: 1_500, onTimeout: "pending" });
  assert.equal(tx.state, "pending");
  const { state } = await hw.status(tx.id, { level: "disk", waitMs: 10 });
  assert.deepEqual([state, hw.marks], ["durable", marks(E1, { disk: 3 })]);
  await hw.verdicts([tx.token], { level: "disk", waitMs: 10 });
  assert.deepEqual(
    fake.of("states").map(({ query }) => query.toString()),
    ["wait=1.5&level=region", "wait=0.01&level=disk"],
  );
  assert.deepEqual(fake.of("verdicts")[0]?.body, { tokens: [tx.token], level: "disk", waitMs: 10 });
});

test("a look-up waits for what is left of the time, in the decimals that the service takes", async (context) => {
  const fake = await service(context, {
    transactions: { problem: "commit_unconfirmed" },
    states: { ok: { state: "committed" } },
  });
  const hw = client(context, [fake], { totalTimeoutMs: 20_000 });
  await hw.transaction(statement, { ack: "durable", maxWaitMs: 30_000, onTimeout: "pending" });
  await hw.status(newTransactionId(), { waitMs: 1_234.567_891_2 });
  const waits = fake.of("states").map(({ query }) => query.get("wait") ?? "");
  assert.equal(waits.length, 2);
  for (const wait of waits) assert.match(wait, /^[0-9]{1,5}([.][0-9]{1,6})?$/);
});

test("mistakes of the caller are reported at once", async (context) => {
  const fake = await service(context);
  const wrong = ["here", "localhost:4600", "postgresql://app@127.0.0.1/app"].map((url) => ({ url }));
  for (const options of [{}, { url: [] }, ...wrong, { url: fake.url, endpoints: [] }])
    assert.throws(() => new Highwater(options), { code: "invalid_options" });
  const hw = client(context, [fake]);
  await assert.rejects(hw.transaction(statement, { id: "1" }), { code: "invalid_id" });
  const params = [undefined as never];
  await assert.rejects(hw.transaction({ sql: "x", params }), { code: "invalid_parameter" });
  await hw.close();
  await assert.rejects(hw.begin(), { code: "client_closed" });
  assert.equal(fake.calls.length, 0);
});
