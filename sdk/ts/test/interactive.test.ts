// Interactive transactions against a scripted gateway: what each call sends, what is sent again when a reply is lost, and what
// becomes of a commit that nobody answers.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  ExposureLimitError,
  type Highwater,
  type InteractiveTransaction,
  sql,
  TransactionAbortedError,
  UnknownOutcomeError,
} from "../src/index.ts";
import { client, service } from "./client-support.ts";
import { committed, type FakeService, ok, opened, problem, type Script } from "./fake-service.ts";
import { E1, marks, token } from "./support.ts";

const one = sql`SELECT ${1}`;
const two = sql`SELECT 2`;

const sent = (fake: FakeService): [string, number | undefined][] =>
  fake.calls.map(({ name, body }) => [name, name === "begin" ? undefined : body.seq]);

/** A transaction that is open: one statement has run. */
async function openedOn(hw: Highwater): Promise<InteractiveTransaction> {
  const tx = await hw.begin();
  await tx.query(one);
  return tx;
}

test("the first statements ride on the begin; calls are numbered, pinned and in order", async (context) => {
  const fake = await service(context, {
    interactive: (call) =>
      call.name === "begin" ? opened(call, { marks: marks(E1, { region: 4 }) }) : undefined,
  });
  const hw = client(context, [fake]);
  const tx = await hw.begin({ isolation: "read committed", metadata: { a: "b" }, maxDelayMs: 9 });
  assert.deepEqual([fake.calls.length, tx.isOpen, tx.expiresAt], [0, true, undefined]);
  const results = await Promise.all([tx.query<{ sql: string }>(one), tx.execute([two, two])]);
  assert.deepEqual(results[0].rows, [{ sql: "SELECT $1" }]);
  assert.equal(results[1].length, 2);
  assert.deepEqual(tx.expiresAt, new Date("2030-01-01T00:00:00Z"));
  assert.deepEqual(hw.marks, marks(E1, { region: 4 }));
  const done = await tx.commit({ statements: [one], ack: "durable", level: "global", maxWaitMs: 70 });
  assert.deepEqual(sent(fake), [
    ["begin", undefined],
    ["statements", 1],
    ["commit", 2],
  ]);
  assert.deepEqual(fake.calls[0]?.body, {
    ...{ id: tx.id, isolation: "read committed", metadata: { a: "b" }, maxDelayMs: 9 },
    statements: [{ sql: "SELECT $1", params: [1] }],
  });
  assert.deepEqual(fake.calls[2]?.body, {
    ...{ seq: 2, ack: "durable", level: "global", maxWaitMs: 70 },
    statements: [{ sql: "SELECT $1", params: [1] }],
  });
  assert.deepEqual(
    fake.calls.slice(1).map(({ session }) => session),
    [`here.${tx.id}.mac`, `here.${tx.id}.mac`],
  );
  assert.deepEqual([done.token, done.level, tx.isOpen], [token(E1, 10, tx.id), "global", false]);
  assert.equal(await tx.commit(), done);
  await assert.rejects(tx.query(one), { code: "transaction_ended" });
  await assert.rejects(tx.rollback(), { code: "transaction_ended" });
});

test("durable() is the commit's, and there is none before", async (context) => {
  const fake = await service(context);
  const tx = await openedOn(client(context, [fake]));
  await assert.rejects(tx.durable(), { code: "not_committed" });
  await tx.commit();
  const wait = tx.durable();
  await fake.until(() => fake.streams.size === 1);
  fake.mark(marks(E1, { region: 10 }));
  assert.equal((await wait).verdict, "durable");
});

test("what is not begun is committed in one request, and rolled back in none", async (context) => {
  const fake = await service(context);
  const hw = client(context, [fake]);
  const tx = await hw.begin({ isolation: "read committed" });
  await tx.commit({ statements: [one] });
  assert.deepEqual(fake.transactions, [
    { id: tx.id, isolation: "read committed", statements: [{ sql: "SELECT $1", params: [1] }] },
  ]);
  await (await hw.begin()).commit();
  assert.deepEqual(fake.transactions[1]?.statements, [{ sql: "SELECT" }]);
  await (await hw.begin()).rollback();
  assert.equal(fake.calls.length, 0);
});

test("lost replies: the same call with the same number to the same gateway, whatever it is", async (context) => {
  const seen = new Set<string>();
  const script: Script = {
    interactive: (call) => {
      const key = JSON.stringify([call.name, call.body]);
      if (seen.has(key)) return undefined;
      seen.add(key);
      return "cut";
    },
  };
  const [near, far] = [await service(context, script), await service(context, script)];
  const hw = client(context, [near, far]);
  const tx = await hw.begin();
  await tx.query(one);
  await tx.query(two);
  await tx.commit();
  const other = await openedOn(hw);
  await other.rollback();
  // Whichever gateway answered the begin has all further calls.
  const calls = [...near.calls, ...far.calls];
  for (const { id } of [tx, other]) {
    const own = calls.filter((call) => call.id === id && call.name !== "begin");
    const on = [near, far].filter((fake) =>
      fake.calls.some((call) => call.id === id && call.name !== "begin"),
    );
    assert.equal(on.length, 1);
    const numbers = own.map(({ body }) => body.seq);
    assert.deepEqual(numbers, id === tx.id ? [1, 1, 2, 2] : [1, 1]);
  }
});

test("a failed statement leaves it open and uses its number up; what was refused unseen does not", async (context) => {
  const fake = await service(context, {
    interactive: (_call, number) => {
      if (number === 2) return problem("constraint_violation", { constraint: "c", statement: 0, open: true });
      if (number === 3) return problem("transaction_control");
      if (number === 4) return problem("exposure_limit", { open: true, limit: { name: "x", value: 1 } });
      return undefined;
    },
  });
  const tx = await openedOn(client(context, [fake]));
  await assert.rejects(tx.query(two), { name: "ConstraintError", constraint: "c", open: true });
  await assert.rejects(tx.query(sql`COMMIT`), { code: "transaction_control" });
  assert.ok(tx.isOpen);
  await tx.query(sql`ROLLBACK TO SAVEPOINT a`);
  await tx.commit();
  // The fourth call was refused for now, and came again by itself.
  assert.deepEqual(
    sent(fake).map(([, seq]) => seq),
    [undefined, 1, 2, 2, 2, 3],
  );
});

test("exposure_limit: typed, with what is at risk, and the transaction may be committed later", async (context) => {
  let full = true;
  const exposure = { transactions: 7, bytes: "123", oldestMs: 5 };
  const fake = await service(context, {
    interactive: (call) =>
      call.name === "commit" && full
        ? problem("exposure_limit", {
            open: true,
            exposure,
            limit: { name: "exposureTransactions", value: 5 },
          })
        : undefined,
  });
  const tx = await openedOn(client(context, [fake]));
  await assert.rejects(tx.commit({ timeout: 2_500 }), (error) => {
    assert.ok(error instanceof ExposureLimitError);
    assert.deepEqual([error.exposure, error.limit], [exposure, { name: "exposureTransactions", value: 5 }]);
    return true;
  });
  full = false;
  await tx.commit();
  assert.equal(fake.calls.at(-1)?.body.seq, 1);
});

test("expired, aborted, and a conflict: typed, ended, and told to every later call", async (context) => {
  for (const [code, name] of [
    ["transaction_expired", "TransactionAbortedError"],
    ["transaction_aborted", "TransactionAbortedError"],
    ["serialization_failure", "SerializationError"],
  ] as const) {
    const fake = await service(context, {
      interactive: ({ name: call }) => (call === "statements" ? problem(code, { open: false }) : undefined),
    });
    const tx = await openedOn(client(context, [fake]));
    await assert.rejects(tx.query(two), { code, name, retry: "transaction", outcome: "not_applied" });
    assert.equal(tx.isOpen, false);
    await assert.rejects(tx.commit(), (error: Error) => {
      assert.equal((error as { code?: string }).code, "transaction_ended");
      assert.equal(error.cause, tx.failure);
      return true;
    });
    await tx.rollback();
    assert.equal(fake.calls.length, 2);
  }
});

test("a gateway that died: a typed error that says what to do, and nothing was applied", async (context) => {
  const far = await service(context);
  const near = await service(context);
  const hw = client(context, [near, far]);
  const tx = await openedOn(hw);
  await near[Symbol.asyncDispose]();
  await assert.rejects(tx.query(two), (error) => {
    assert.ok(error instanceof TransactionAbortedError);
    assert.deepEqual(
      [error.code, error.retry, error.outcome],
      ["gateway_lost", "transaction", "not_applied"],
    );
    return true;
  });
  assert.equal(tx.isOpen, false);
  assert.equal(far.calls.length, 0);
});

test("another gateway in its place: the same, for a statement and for a commit", async (context) => {
  for (const code of ["wrong_gateway", "transaction_not_open"] as const) {
    const fake = await service(context, {
      interactive: ({ name }) => (name === "begin" ? undefined : problem(code, { outcome: "unknown" })),
    });
    const hw = client(context, [fake]);
    await assert.rejects((await openedOn(hw)).query(two), { code: "gateway_lost", outcome: "not_applied" });
    // No commit had been sent before: the word "unknown" is for those who had.
    await assert.rejects((await openedOn(hw)).commit(), { code: "gateway_lost", outcome: "not_applied" });
  }
});

test("a commit without an answer is resolved by the state of its id, and never run again", async (context) => {
  const near = await service(context, {
    interactive: async (call) => {
      if (call.name !== "commit") return undefined;
      void near[Symbol.asyncDispose]();
      return "cut";
    },
  });
  const far = await service(context, {
    state: (id) =>
      ok({
        id,
        state: "committed",
        token: token(E1, 9, id),
        position: { epoch: E1, offset: "9" },
        marks: null,
      }),
  });
  const tx = await openedOn(client(context, [near, far]));
  const done = await tx.commit();
  assert.deepEqual([done.id, done.replayed, done.results], [tx.id, true, null]);
  assert.equal(far.calls.length, 0);
});

test("a commit nobody has heard of is settled elsewhere so that it never commits; if it cannot be, it stays unknown", async (context) => {
  for (const settles of [true, false]) {
    const near = await service(context, {
      interactive: async (call) => {
        if (call.name !== "commit") return undefined;
        void near[Symbol.asyncDispose]();
        return "cut";
      },
    });
    const far = await service(context, {
      interactive: () => (settles ? undefined : problem("wrong_gateway", { retryAfterMs: 1 })),
    });
    const tx = await openedOn(client(context, [near, far]));
    const commit = tx.commit({ timeout: 4_000 });
    if (settles) await assert.rejects(commit, { code: "transaction_aborted", retry: "transaction" });
    else await assert.rejects(commit, (error) => error instanceof UnknownOutcomeError);
    assert.ok(far.calls.every(({ name, session }) => name === "rollback" && session === `here.${tx.id}.mac`));
    assert.ok(far.calls.length > 0);
    assert.equal(tx.isOpen, false);
  }
});

test("a gateway that is silent for a while keeps its transaction; one that stays so is asked once more, and given up", async (context) => {
  const patient = { requestTimeoutMs: 60_000, totalTimeoutMs: 60_000 };
  // Two addresses of one service: where there are two, signs of life are asked for, and none is better than the other.
  const twice = ({ url }: FakeService): string[] => [url, url.replace("127.0.0.1", "localhost")];
  const namesOf = ({ calls }: FakeService): string[] =>
    calls.map(({ name }) => name).filter((name) => name !== "begin");
  let isSilent = false;
  const fake: FakeService = await service(context, {
    interactive: async ({ name }) => {
      if (name !== "statements") return undefined;
      await fake.until(() => fake.probes > 0);
      // Of a one-shot transaction this would be the end; here the gateway would roll back what runs.
      await new Promise((resolve) => setTimeout(resolve, 150));
      return undefined;
    },
    get blackHole() {
      return isSilent;
    },
  });
  const slow = { ...patient, tuning: { probeMs: 50, pinnedPatience: 1_000 } };
  const kept = await openedOn(client(context, [], { ...slow, url: twice(fake) }));
  // On a slow machine its begin was asked after as well, and made again.
  fake.probes = 0;
  isSilent = true;
  await kept.query(one);
  await kept.commit();
  assert.deepEqual(namesOf(fake), ["statements", "commit"]);

  isSilent = false;
  const silent = await service(context, {
    interactive: ({ name }) => (name === "statements" ? "hang" : undefined),
    get blackHole() {
      return isSilent;
    },
  });
  const soon = { ...patient, tuning: { probeMs: 50, pinnedPatience: 2 } };
  const lost = await openedOn(client(context, [], { ...soon, url: twice(silent) }));
  isSilent = true;
  await assert.rejects(lost.query(one), { name: "TransactionAbortedError", code: "gateway_lost" });
  assert.deepEqual(namesOf(silent), ["statements", "statements"]);
});

test("commit_unconfirmed is resolved, not believed", async (context) => {
  const fake = await service(context, {
    interactive: ({ name }) =>
      name === "commit" ? problem("commit_unconfirmed", { open: false }) : undefined,
    state: (id) =>
      ok({
        id,
        state: "durable",
        token: token(E1, 9, id),
        position: { epoch: E1, offset: "9" },
        marks: null,
      }),
  });
  const tx = await openedOn(client(context, [fake]));
  assert.equal((await tx.commit()).state, "durable");
});

test("await using rolls back what is left open, also when the service is gone", async (context) => {
  const fake = await service(context);
  const hw = client(context, [fake], { totalTimeoutMs: 3_000 });
  {
    await using tx = await hw.begin();
    await tx.query(one);
  }
  assert.deepEqual(sent(fake).at(-1), ["rollback", 1]);
  {
    await using tx = await hw.begin();
    await tx.query(one);
    await tx.commit();
  }
  assert.deepEqual(sent(fake).at(-1), ["commit", 1]);
  {
    await using tx = await hw.begin();
    await tx.query(one);
    await fake[Symbol.asyncDispose]();
  }
});

test("a signal ends a call, and with it the transaction", async (context) => {
  const fake = await service(context, {
    interactive: ({ name }) => (name === "statements" ? "hang" : undefined),
  });
  const tx = await openedOn(client(context, [fake]));
  const abort = new AbortController();
  const reason = new Error("enough");
  const call = tx.query(two, { signal: abort.signal });
  await fake.until(() => fake.held === 1);
  abort.abort(reason);
  await assert.rejects(call, { name: "AbortError", cause: reason, outcome: "not_applied" });
  assert.equal(tx.isOpen, false);
  await fake.until(() => fake.held === 0);
});

test("after close, nothing begins and open ones are over", async (context) => {
  const fake = await service(context);
  const hw = client(context, [fake]);
  const tx = await openedOn(hw);
  await hw.close();
  await assert.rejects(hw.begin(), { code: "client_closed" });
  await assert.rejects(tx.query(one), { code: "client_closed" });
  await assert.rejects(
    hw.transact(() => 1),
    { code: "client_closed" },
  );
});

test("an answer of a commit is a transaction like any other", async (context) => {
  const fake = await service(context, {
    interactive: (call) =>
      call.name === "commit"
        ? { status: 202, body: committed(call, { state: "pending", level: "region" }) }
        : undefined,
  });
  const tx = await openedOn(client(context, [fake]));
  assert.equal((await tx.commit({ ack: "durable" })).state, "pending");
});
