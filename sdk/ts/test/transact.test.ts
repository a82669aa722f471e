// `transact` with bodies that only this language can write. The reasons to run a body again are in the scenarios of sdk/conformance.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type InteractiveTransaction, sql } from "../src/index.ts";
import { client, service } from "./client-support.ts";

const statement = sql`SELECT 1`;

test("what a body makes of a conflict is not believed: wrapped or swallowed, it runs again; the value is the last run's", async (context) => {
  const conflict = { problem: "serialization_failure", open: false };
  const fake = await service(context, { statements: [conflict, conflict] });
  let runs = 0;
  const value = await client(context, [fake]).transact(async (tx) => {
    runs += 1;
    await tx.query(statement);
    await tx.query(statement).catch((cause: unknown) => {
      if (runs === 1) throw new Error("wrapped", { cause });
    });
    return runs;
  });
  assert.deepEqual([value, runs], [3, 3]);
});

test("a body may commit or roll back by itself, and one without a statement is one request", async (context) => {
  const fake = await service(context);
  const hw = client(context, [fake]);
  await hw.transact(async (tx) => {
    await tx.query(statement);
    await tx.rollback();
  });
  await hw.transact(async (tx) => {
    await tx.query(statement);
    await tx.commit();
  });
  assert.equal(await hw.transact(() => 5), 5);
  assert.deepEqual(
    fake.calls.map(({ route }) => route),
    ["begin", "rollback", "begin", "commit", "transactions"],
  );
});

test("a body need not await its commit: it ends as the commit does", async (context) => {
  const conflict = { problem: "serialization_failure", open: false };
  const fake = await service(context, { commit: [conflict] });
  const ids: string[] = [];
  const value = await client(context, [fake]).transact(async (tx) => {
    ids.push(tx.id);
    await tx.query(statement);
    tx.commit().catch(() => undefined);
    return ids.length;
  });
  assert.deepEqual([value, fake.seen.commit, fake.seen.rollback], [2, 2, 0]);
  assert.equal(new Set(ids).size, 2);
});

test("its time is for all runs and calls together, and what is left of it for each", async (context) => {
  const fake = await service(context, { statements: "hang" });
  const hw = client(context, [fake], { requestTimeoutMs: 600_000, totalTimeoutMs: 600_000 });
  const body = async (tx: InteractiveTransaction): Promise<void> => {
    await tx.query(statement);
    await tx.query(statement);
  };
  const expected = { code: "gateway_lost", outcome: "not_applied" };
  const transact = assert.rejects(hw.transact(body, { timeoutMs: 2_500 }), expected);
  const tx = await hw.begin({ timeoutMs: 2_500 });
  await Promise.all([transact, assert.rejects(body(tx), { code: "gateway_lost" })]);
});

test("a signal that is aborted after the body has committed takes nothing back", async (context) => {
  const fake = await service(context);
  const hw = client(context, [fake]);
  const published = new AbortController();
  const value = await hw.transact(
    async (tx) => {
      await tx.query(statement);
      await tx.commit();
      published.abort();
      return 5;
    },
    { signal: published.signal },
  );
  assert.equal(value, 5);
  const tx = await hw.begin();
  await tx.query(statement);
  const committed = await tx.commit();
  const signal = AbortSignal.abort();
  assert.equal(await tx.commit({ signal }), committed);
  const applied = { name: "AbortError", outcome: "applied" };
  await assert.rejects(tx.commit({ signal, ack: "durable" }), applied);
  await assert.rejects(tx.query(statement, { signal }), applied);
  await assert.rejects(tx.rollback({ signal }), applied);
});
