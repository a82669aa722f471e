// `transact` against a scripted gateway: what runs the body again, what does not, and under which id.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type InteractiveTransaction,
  sql,
  TransactionAbortedError,
  UnknownOutcomeError,
} from "../src/index.ts";
import { client, service } from "./client-support.ts";
import { committed, ok, problem } from "./fake-service.ts";
import { E1, marks } from "./support.ts";

const statement = sql`SELECT 1`;

test("conflicts run the body again under a new id, until one run commits; the value is that run's", async (context) => {
  let commits = 0;
  const fake = await service(context, {
    interactive: ({ name }, number) => {
      if (name === "statements" && number < 4) return problem("serialization_failure", { open: false });
      if (name === "commit" && ++commits === 1) return problem("serialization_failure", { open: false });
      return undefined;
    },
  });
  const hw = client(context, [fake]);
  const ids: string[] = [];
  const value = await hw.transact(async (tx) => {
    ids.push(tx.id);
    await tx.query(statement);
    await tx.query(statement);
    return ids.length;
  });
  assert.equal(value, 3);
  assert.equal(new Set(ids).size, 3);
  assert.equal(fake.calls.at(-1)?.id, ids[2]);
  assert.equal(commits, 2);
});

test("an error of the body rolls back and passes through as it is", async (context) => {
  const fake = await service(context);
  const error = new Error("mine");
  await assert.rejects(
    client(context, [fake]).transact(async (tx) => {
      await tx.query(statement);
      throw error;
    }),
    (thrown) => thrown === error,
  );
  assert.deepEqual(
    fake.calls.map(({ name }) => name),
    ["begin", "rollback"],
  );
});

test("an error of the database that no repetition helps passes through, and is not run again", async (context) => {
  const fake = await service(context, {
    interactive: ({ name }) =>
      name === "statements" ? problem("constraint_violation", { constraint: "c", open: true }) : undefined,
  });
  let runs = 0;
  await assert.rejects(
    client(context, [fake]).transact(async (tx) => {
      runs += 1;
      await tx.query(statement);
      await tx.query(statement);
    }),
    { name: "ConstraintError" },
  );
  assert.equal(runs, 1);
  assert.equal(fake.calls.at(-1)?.name, "rollback");
});

test("what a body makes of a conflict is not believed: wrapped or swallowed, it runs again", async (context) => {
  const fake = await service(context, {
    interactive: ({ name }, number) =>
      name === "statements" && number <= 4 ? problem("serialization_failure", { open: false }) : undefined,
  });
  let runs = 0;
  await client(context, [fake]).transact(async (tx) => {
    runs += 1;
    await tx.query(statement);
    await tx.query(statement).catch((cause: unknown) => {
      if (runs === 1) throw new Error("wrapped", { cause });
    });
  });
  assert.equal(runs, 3);
});

test("a gateway that died: again elsewhere", async (context) => {
  const near = await service(context, {
    interactive: ({ name }) => {
      if (name === "statements") void near[Symbol.asyncDispose]();
      return name === "statements" ? "cut" : undefined;
    },
  });
  const far = await service(context);
  await client(context, [near, far]).transact(async (tx) => {
    await tx.query(statement);
    await tx.query(statement);
  });
  assert.deepEqual(
    far.calls.map(({ name }) => name),
    ["begin", "statements", "commit"],
  );
});

test("an unknown outcome is thrown, and the body is never run again", async (context) => {
  const fake = await service(context, {
    interactive: ({ name }) => (name === "commit" ? problem("internal") : undefined),
    state: (id) => ok({ id, state: "active", marks: null }),
  });
  let runs = 0;
  await assert.rejects(
    client(context, [fake]).transact(
      async (tx) => {
        runs += 1;
        await tx.query(statement);
      },
      { timeout: 2_500 },
    ),
    UnknownOutcomeError,
  );
  assert.equal(runs, 1);
});

test("ack durable: resolves when durable, and a loss before that runs the body again", async (context) => {
  let commits = 0;
  const fake = await service(context, {
    interactive: (call) => {
      if (call.name !== "commit") return undefined;
      commits += 1;
      if (commits === 1) return problem("transaction_lost");
      return { status: 202, body: committed(call, { state: "pending", level: "region" }) };
    },
  });
  const done = client(context, [fake]).transact((tx) => tx.query(statement), { ack: "durable" });
  let isDone = false;
  void done.then(() => {
    isDone = true;
  });
  await fake.until(() => fake.streams.size === 1);
  assert.equal(isDone, false);
  fake.mark(marks(E1, { region: 10 }));
  await done;
  assert.equal(commits, 2);
  assert.equal(fake.calls.filter(({ name }) => name === "begin").length, 2);
});

test("attempts are bounded, and the last error is told", async (context) => {
  const fake = await service(context, {
    interactive: ({ name }) =>
      name === "commit" ? problem("transaction_aborted", { open: false }) : undefined,
  });
  let runs = 0;
  const body = async (tx: { query(s: typeof statement): Promise<unknown> }): Promise<void> => {
    runs += 1;
    await tx.query(statement);
  };
  await assert.rejects(
    client(context, [fake]).transact(body, { maxAttempts: 3 }),
    (error) => error instanceof TransactionAbortedError,
  );
  assert.equal(runs, 3);
});

test("a signal ends it between runs and within one, with its reason as the cause", async (context) => {
  const fake = await service(context, { interactive: ({ name }) => (name === "begin" ? "hang" : undefined) });
  const abort = new AbortController();
  const reason = new Error("enough");
  const call = client(context, [fake]).transact((tx) => tx.query(statement), { signal: abort.signal });
  await fake.until(() => fake.held === 1);
  abort.abort(reason);
  const aborted = { name: "AbortError", cause: reason, outcome: "not_applied" };
  await assert.rejects(call, aborted);
  await assert.rejects(
    client(context, [fake]).transact((tx) => tx.query(statement), { signal: abort.signal }),
    aborted,
  );
  assert.equal(fake.calls.length, 1);
});

test("a body may commit or roll back by itself", async (context) => {
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
  assert.deepEqual(
    fake.calls.map(({ name }) => name),
    ["begin", "rollback", "begin", "commit"],
  );
});

test("a body without a statement is one request", async (context) => {
  const fake = await service(context);
  assert.equal(await client(context, [fake]).transact(() => 5), 5);
  assert.deepEqual([fake.calls.length, fake.transactions.length], [0, 1]);
});

test("its time is for all runs and calls together, and what is left of it for each", async (context) => {
  const fake = await service(context, {
    interactive: ({ name }) => (name === "statements" ? "hang" : undefined),
  });
  const hw = client(context, [fake], { requestTimeoutMs: 600_000, totalTimeoutMs: 600_000 });
  const body = async (tx: InteractiveTransaction): Promise<void> => {
    await tx.query(statement);
    await tx.query(statement);
  };
  const expected = { code: "gateway_lost", outcome: "not_applied" };
  const transact = assert.rejects(hw.transact(body, { timeout: 2_500 }), expected);
  const tx = await hw.begin({ timeout: 2_500 });
  await Promise.all([transact, assert.rejects(body(tx), { code: "gateway_lost" })]);
});
