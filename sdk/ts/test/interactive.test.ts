// Interactive transactions of this language: what each call sends, how one ends that has failed, and a gateway that is silent. Lost
// replies and commits without an answer are in the scenarios of sdk/conformance.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type FakeServer, token } from "@highwater/conformance/fake";
import { type Highwater, type InteractiveTransaction, sql } from "../src/index.ts";
import { client, service } from "./client-support.ts";
import { E1, marks } from "./support.ts";

const one = sql`SELECT ${1}`;
const two = sql`SELECT 2`;
const sentOne = { sql: "SELECT $1", params: [1] };

/** A transaction that is open: one statement has run. */
async function openedOn(hw: Highwater): Promise<InteractiveTransaction> {
  const tx = await hw.begin();
  await tx.query(one);
  return tx;
}

test("the first statements ride on the begin; calls are numbered and in order", async (context) => {
  const fake = await service(context, { begin: { ok: { marks: { epoch: 1, levels: { region: 4 } } } } });
  const hw = client(context, [fake]);
  const tx = await hw.begin({ isolation: "read committed", metadata: { a: "b" }, maxDelayMs: 9 });
  assert.deepEqual([fake.calls.length, tx.isOpen, tx.expiresAt], [0, true, undefined]);
  const results = await Promise.all([tx.query<{ sql: string }>(one), tx.execute([two, two])]);
  assert.deepEqual(results[0].rows, [{ sql: "SELECT $1" }]);
  assert.equal(results[1].length, 2);
  assert.deepEqual(tx.expiresAt, new Date("2030-01-01T00:00:00Z"));
  assert.deepEqual(hw.marks, marks(E1, { region: 4 }));
  await assert.rejects(tx.durable(), { code: "not_committed" });
  const done = await tx.commit({
    statements: [one],
    ack: "durable",
    level: "global",
    maxWaitMs: 70,
    onTimeout: "pending",
  });
  assert.deepEqual(
    fake.calls.map(({ route, body }) => [route, body["seq"]]),
    [
      ["begin", undefined],
      ["statements", 1],
      ["commit", 2],
    ],
  );
  assert.deepEqual(fake.calls[0]?.body, {
    ...{ id: tx.id, isolation: "read committed", metadata: { a: "b" }, maxDelayMs: 9 },
    statements: [sentOne],
  });
  assert.deepEqual(fake.calls[2]?.body, {
    ...{ seq: 2, ack: "durable", level: "global", maxWaitMs: 70, statements: [sentOne] },
  });
  assert.deepEqual([done.token, done.level, tx.isOpen], [token(1, 10, tx.id), "global", false]);
  assert.equal(await tx.commit(), done);
  await assert.rejects(tx.query(one), { code: "transaction_ended" });
  await assert.rejects(tx.rollback(), { code: "transaction_ended" });
});

test("a transaction that has not begun is committed in one request, with its options", async (context) => {
  const fake = await service(context);
  const hw = client(context, [fake]);
  const tx = await hw.begin({ isolation: "read committed" });
  await tx.commit({ statements: [one] });
  await (await hw.begin()).commit();
  const [all, empty] = fake.of("transactions");
  assert.deepEqual(all?.body, { id: tx.id, isolation: "read committed", statements: [sentOne] });
  assert.deepEqual(empty?.body["statements"], [{ sql: "SELECT" }]);
  assert.equal(fake.calls.length, 2);
});

test("two commits at once: both have the one transaction", async (context) => {
  const fake = await service(context);
  const hw = client(context, [fake]);
  for (const tx of [await openedOn(hw), await hw.begin()]) {
    const [first, second] = await Promise.all([tx.commit(), tx.commit()]);
    assert.ok(first === second && first === tx.committed);
    await assert.rejects(tx.query(one), { code: "transaction_ended", outcome: "applied" });
  }
  assert.deepEqual([fake.seen.commit, fake.seen.transactions], [1, 1]);
});

test("a call behind a commit without an answer does not say that nothing was applied", async (context) => {
  const fake = await service(context, { commit: "hang", states: "hang" });
  const tx = await openedOn(client(context, [fake]));
  const committing = tx.commit({ timeoutMs: 400 });
  await assert.rejects(tx.commit({ timeoutMs: 50 }), { code: "request_timeout", outcome: "unknown" });
  const late = assert.rejects(tx.commit(), { code: "transaction_ended", outcome: "unknown" });
  await assert.rejects(committing, { code: "outcome_unknown" });
  await late;
  await assert.rejects(tx.query(one), { retry: "resolve_outcome", transactionId: tx.id });
});

test("expired, aborted, and a conflict are typed and end it, and every later call throws them", async (context) => {
  for (const [code, name] of [
    ["transaction_expired", "TransactionAbortedError"],
    ["transaction_aborted", "TransactionAbortedError"],
    ["serialization_failure", "SerializationError"],
  ] as const) {
    const refusal = { problem: code, open: false };
    const fake = await service(context, { statements: refusal });
    const tx = await openedOn(client(context, [fake]));
    await assert.rejects(tx.query(two), { code, name, retry: "transaction", outcome: "not_applied" });
    assert.equal(tx.isOpen, false);
    await assert.rejects(tx.commit(), { code: "transaction_ended", cause: tx.failure });
    await tx.rollback();
    assert.equal(fake.calls.length, 2);
  }
});

test("a gateway that is silent for a while keeps its transaction; one that stays so is asked once more, and given up", async (context) => {
  const patient = { requestTimeoutMs: 60_000, totalTimeoutMs: 60_000 };
  // Two addresses of one service: where there are two, signs of life are asked for, and none is better than the other.
  const twice = ({ url }: FakeServer): string[] => [url, url.replace("127.0.0.1", "localhost")];
  let asked = 0;
  const fake = await service(context, {
    statements: async () => {
      await fake.until(({ probes }) => probes > asked);
      // Of a one-shot transaction this would be the end; here the gateway would roll back what runs.
      await new Promise((resolve) => setTimeout(resolve, 150));
      return "ok" as const;
    },
  });
  const slow = { ...patient, tuning: { probeMs: 50, pinnedPatience: 1_000 } };
  const kept = await openedOn(client(context, [], { ...slow, url: twice(fake) }));
  // On a slow machine its begin was asked after as well, and made again.
  asked = fake.seen.probes;
  fake.follow({ probes: "hang" });
  await kept.query(one);
  await kept.commit();
  assert.deepEqual([fake.seen.statements, fake.seen.commit], [1, 1]);

  const silent = await service(context, { statements: "hang" });
  // Long enough for a call to arrive before it is given up.
  const soon = { ...patient, tuning: { probeMs: 250, pinnedPatience: 2 } };
  const lost = await openedOn(client(context, [], { ...soon, url: twice(silent) }));
  silent.follow({ probes: "hang" });
  await assert.rejects(lost.query(one), { name: "TransactionAbortedError", code: "gateway_lost" });
  assert.deepEqual([silent.seen.statements, silent.seen.commit, silent.seen.rollback], [2, 0, 0]);
});

test("a rollback out of sequence comes again under the next number if the transaction is open", async (context) => {
  for (const [open, numbers] of [
    [true, [1, 2]],
    [false, [1]],
  ] as const) {
    const refusal = { problem: "out_of_sequence", open };
    const fake = await service(context, { rollback: [refusal, "ok"] });
    const tx = await openedOn(client(context, [fake]));
    await tx.rollback();
    assert.deepEqual(
      fake.of("rollback").map(({ body }) => body["seq"]),
      numbers,
    );
  }
});

test("await using rolls back what is left open, also when the service is gone", async (context) => {
  const fake = await service(context);
  const hw = client(context, [fake], { totalTimeoutMs: 3_000 });
  const last = (): unknown => [fake.calls.at(-1)?.route, fake.calls.at(-1)?.body["seq"]];
  {
    await using tx = await hw.begin();
    await tx.query(one);
  }
  assert.deepEqual(last(), ["rollback", 1]);
  {
    await using tx = await hw.begin();
    await tx.query(one);
    await tx.commit();
  }
  assert.deepEqual(last(), ["commit", 1]);
  {
    await using tx = await hw.begin();
    await tx.query(one);
    await fake[Symbol.asyncDispose]();
  }
});
