// One-shot transactions against a scripted gateway: what is sent, what is sent again, and what the caller is told.
import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { describe, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import {
  Highwater,
  newTransactionId,
  sql,
  TransactionAbortedError,
  TransactionLostError,
  UnknownOutcomeError,
} from "../src/index.ts";
import { client, service } from "./client-support.ts";
import { committed, ok, problem } from "./fake-service.ts";
import { E1, marks, token } from "./support.ts";

const statement = sql`SELECT ${1}`;
/** A port that the kernel gives to no server. */
const REFUSING = "http://127.0.0.1:2";

test("a transaction: request, results, rows, token, marks", async (context) => {
  const fake = await service(context, {
    transaction: (request) =>
      ok(
        committed(request, {
          offset: 10,
          marks: marks(E1, { region: 4 }),
          results: [
            { command: "UPDATE", rowCount: 2, fields: [], rows: [] },
            { command: "SELECT", rowCount: 1, fields: [{ name: "n", oid: 20 }], rows: [["7"]] },
          ],
        }),
      ),
  });
  const hw = client(context, [fake], { headers: { authorization: "Bearer x" } });
  assert.equal(hw.marks, null);
  const id = newTransactionId();
  const tx = await hw.transaction([statement, sql`SELECT 2`], {
    ...{ id: id.toUpperCase(), isolation: "read committed", readOnly: true, metadata: { a: "b" } },
  });
  assert.deepEqual(fake.transactions, [
    {
      id,
      statements: [{ sql: "SELECT $1", params: [1] }, { sql: "SELECT 2" }],
      ...{ isolation: "read committed", readOnly: true, metadata: { a: "b" } },
    },
  ]);
  assert.deepEqual(
    [tx.id, tx.state, tx.token, tx.position, tx.replayed, tx.announced],
    [id, "committed", token(E1, 10, id), { epoch: E1, offset: "10" }, false, true],
  );
  assert.deepEqual(tx.rows, [{ n: 7n }]);
  assert.deepEqual(
    tx.results?.map(({ rowCount }) => rowCount),
    [2, 1],
  );
  assert.deepEqual(hw.marks, marks(E1, { region: 4 }));
  assert.deepEqual(hw.exposure, { count: 0, oldestMs: 0 });
});

test("a lost reply: the same id and body again, and the replay is told from the run", async (context) => {
  const fake = await service(context, {
    transaction: (request, call) =>
      call === 1 ? "cut" : ok(committed(request, { replayed: true, results: null })),
  });
  const tx = await client(context, [fake]).transaction(statement);
  assert.equal(fake.transactions.length, 2);
  assert.deepEqual(fake.transactions[0], fake.transactions[1]);
  assert.equal(tx.replayed, true);
  assert.equal(tx.results, null);
  assert.throws(() => tx.rows, { name: "HighwaterError", code: "results_not_kept", outcome: "applied" });
});

test("503 wait: again after Retry-After", async (context) => {
  const fake = await service(context, {
    transaction: (request, call) => {
      if (call === 1) return { ...problem("exposure_limit"), headers: { "retry-after": "1" } };
      return call === 2 ? problem("epoch_changed", { retryAfterMs: 40 }) : ok(committed(request));
    },
  });
  const hw = client(context, [fake]);
  const startMs = performance.now();
  await hw.transaction(statement);
  assert.ok(performance.now() - startMs >= 1_040 - 2);
  assert.equal(fake.transactions.length, 3);
});

test("an attempt without an answer times out, and the next one goes elsewhere", async (context) => {
  const [near, far] = [await service(context, { transaction: () => "hang" }), await service(context)];
  const hw = client(context, [near, far], { requestTimeoutMs: 2_500 });
  await hw.transaction(statement);
  assert.deepEqual(near.transactions, far.transactions);
  // The near one rests for a while.
  await hw.transaction(statement);
  assert.equal(near.transactions.length, 1);
});

test("endpoint failover: refused connections cost nothing, and the near endpoint is taken up again", async (context) => {
  const far = await service(context);
  const hw = client(context, [], { url: [REFUSING, far.url] });
  const tx = await hw.transaction(statement);
  assert.equal(tx.replayed, false);
  assert.equal(far.transactions.length, 1);
});

test("endpoints of their own for gateway and tracker", async (context) => {
  const [gateway, tracker] = [
    await service(context),
    await service(context, { verdicts: () => ok({ verdicts: [], marks: null }) }),
  ];
  const hw = new Highwater({ endpoints: [{ gateway: `${gateway.url}/`, tracker: tracker.url }] });
  context.after(() => hw.close());
  const tx = await hw.transaction(statement);
  await hw.verdicts([tx.token]);
  assert.deepEqual([gateway.transactions.length, gateway.questions.length], [1, 0]);
  assert.deepEqual([tracker.transactions.length, tracker.questions.length], [0, 1]);
});

test("a conflict is the caller's: thrown at once, with its details, never rerun", async (context) => {
  const fake = await service(context, {
    transaction: () => problem("serialization_failure", { sqlstate: "40001" }),
  });
  await assert.rejects(client(context, [fake]).transaction(statement), {
    ...{
      name: "SerializationError",
      retry: "transaction",
      outcome: "not_applied",
      sqlstate: "40001",
      status: 409,
    },
  });
  assert.equal(fake.transactions.length, 1);
});

test("commit_unconfirmed: the state is asked for until the id is settled", async (context) => {
  const fake = await service(context, {
    transaction: () => problem("commit_unconfirmed"),
    state: (id, _query, call) => {
      if (call === 1) return problem("primary_unavailable");
      if (call === 2) return ok({ id, state: "active", marks: null });
      return ok({
        id,
        state: "committed",
        token: token(E1, 9, id),
        position: { epoch: E1, offset: "9" },
        marks: null,
      });
    },
  });
  const tx = await client(context, [fake]).transaction(statement);
  assert.equal(fake.transactions.length, 1);
  assert.deepEqual([tx.state, tx.replayed, tx.results, tx.position.offset], ["committed", true, null, "9"]);
});

test("commit_unconfirmed and nobody has heard of the id: it is sent again", async (context) => {
  const fake = await service(context, {
    transaction: (request, call) => (call === 1 ? problem("commit_unconfirmed") : ok(committed(request))),
  });
  const tx = await client(context, [fake]).transaction(statement);
  assert.deepEqual([fake.transactions.length, fake.states.length, tx.replayed], [2, 1, false]);
});

test("an id that was settled otherwise is a typed error", async (context) => {
  for (const [state, error] of [
    ["aborted", TransactionAbortedError],
    ["lost", TransactionLostError],
  ] as const) {
    const fake = await service(context, {
      transaction: () => problem("internal"),
      state: (id) => ok({ id, state, marks: null }),
    });
    await assert.rejects(client(context, [fake]).transaction(statement), (thrown) => {
      assert.ok(thrown instanceof error);
      assert.deepEqual([thrown.outcome, thrown.retry], ["not_applied", "transaction"]);
      return true;
    });
  }
});

test("a resend that fails on what its own first attempt did: the state decides, not the failure", async (context) => {
  const fake = await service(context, {
    transaction: (_request, call) => (call === 1 ? "cut" : problem("constraint_violation")),
    state: (id) =>
      ok({
        id,
        state: "durable",
        level: "region",
        token: token(E1, 9, id),
        position: { epoch: E1, offset: "9" },
        marks: null,
      }),
  });
  const tx = await client(context, [fake]).transaction(statement);
  assert.equal(tx.replayed, true);
  assert.equal((await tx.durable()).rule, "client:acknowledged");
  const refused = await service(context, {
    transaction: (_request, call) =>
      call === 1 ? "cut" : problem("constraint_violation", { constraint: "c" }),
  });
  await assert.rejects(client(context, [refused]).transaction(statement), {
    name: "ConstraintError",
    constraint: "c",
  });
  assert.equal(refused.states.length, 1);
});

describe("its time is over", { concurrency: true }, () => {
  test("a resend that conflicts while the first copy may be on its way: nobody is told to run it under a new id", async (context) => {
    const settled = await service(context, {
      transaction: (request, call) => {
        if (call === 1) return "cut";
        return call < 4 ? problem("serialization_failure") : ok(committed(request));
      },
    });
    const id = newTransactionId();
    const tx = await client(context, [settled]).transaction(statement, { id });
    assert.equal(tx.state, "committed");
    assert.deepEqual(new Set(settled.transactions.map((request) => request.id)), new Set([id]));
    const open = await service(context, {
      transaction: (_request, call) => (call === 1 ? "cut" : problem("serialization_failure")),
    });
    await assert.rejects(
      client(context, [open]).transaction(statement, { timeout: 2_500 }),
      UnknownOutcomeError,
      "it may still commit",
    );
    // Without a copy on its way the conflict is the answer, at once.
    const plain = await service(context, { transaction: () => problem("serialization_failure") });
    await assert.rejects(client(context, [plain]).transaction(statement), { name: "SerializationError" });
    assert.equal(plain.transactions.length, 1);
  });

  test("time is over: unknown only if an attempt may have been applied", async (context) => {
    const cut = await service(context, { transaction: () => "cut" });
    const id = newTransactionId();
    const unknown = assert.rejects(
      client(context, [cut]).transaction(statement, { id, timeout: 2_500 }),
      (error) => {
        assert.ok(error instanceof UnknownOutcomeError);
        assert.deepEqual(
          [error.code, error.transactionId, error.outcome],
          ["outcome_unknown", id, "unknown"],
        );
        assert.equal((error.cause as Error).name, "ConnectionError");
        return true;
      },
    );
    const split = await service(context, { transaction: () => problem("split_brain") });
    const refused = assert.rejects(client(context, [split]).transaction(statement, { timeout: 2_500 }), {
      ...{ name: "UnavailableError", code: "split_brain", outcome: "not_applied" },
    });
    const nowhere = client(context, [], { url: REFUSING });
    const unreachable = assert.rejects(nowhere.transaction(statement, { timeout: 2_500 }), {
      ...{ name: "ConnectionError", code: "connection_failed", outcome: "not_applied" },
    });
    await Promise.all([unknown, refused, unreachable]);
    assert.ok(cut.transactions.length > 1);
  });

  test("a split brain after a lost reply is still an unknown outcome", async (context) => {
    const fake = await service(context, {
      transaction: (_request, call) => (call === 1 ? "cut" : problem("split_brain")),
    });
    await assert.rejects(
      client(context, [fake]).transaction(statement, { timeout: 2_500 }),
      UnknownOutcomeError,
    );
  });
});

test("an answer that is no answer of the service counts as none", async (context) => {
  const fake = await service(context, {
    transaction: (request, call) => {
      if (call === 1) return { status: 200, body: "<html>" };
      if (call === 2) return { status: 200, body: { hello: "world" } };
      return call === 3 ? { status: 502, body: "bad gateway" } : ok(committed(request));
    },
  });
  await client(context, [fake]).transaction(statement);
  assert.equal(fake.transactions.length, 4);
});

test("an aborted signal ends the call with its reason as the cause, in an attempt and between attempts", async (context) => {
  const fake = await service(context, { transaction: () => "hang" });
  const abort = new AbortController();
  const call = client(context, [fake]).transaction(statement, { signal: abort.signal });
  await fake.until(() => fake.held === 1);
  const reason = new Error("enough");
  abort.abort(reason);
  await assert.rejects(call, { name: "AbortError", cause: reason, outcome: "unknown" });
  await fake.until(() => fake.held === 0);
  await assert.rejects(client(context, [fake]).transaction(statement, { signal: abort.signal }), {
    ...{ name: "AbortError", cause: reason, outcome: "not_applied" },
  });
  assert.equal(fake.transactions.length, 1);
  const waiting = await service(context, {
    transaction: () => problem("overloaded", { retryAfterMs: 4_000 }),
  });
  const second = new AbortController();
  const refused = Promise.withResolvers<undefined>();
  const between = client(context, [waiting], {
    fetch: async (url, init) => {
      const response = await fetch(url, init);
      await response.clone().text();
      refused.resolve(undefined);
      return response;
    },
  }).transaction(statement, { signal: second.signal });
  await refused.promise;
  // The client reads what is there already, and then pauses.
  for (let turn = 0; turn < 20; turn++) await setImmediate();
  second.abort(reason);
  await assert.rejects(between, { name: "AbortError", cause: reason, outcome: "not_applied" });
});

test("a call that ended by itself leaves no listener on its signal", async (context) => {
  const fake = await service(context, {
    transaction: (request, call) => (call === 1 ? problem("overloaded") : ok(committed(request))),
  });
  const { signal } = new AbortController();
  await client(context, [fake]).transaction(statement, { signal });
  assert.equal(getEventListeners(signal, "abort").length, 0);
});

test("ack durable: level and wait go along; 200 is durable already, 202 is pending and goes on", async (context) => {
  const fake = await service(context, {
    transaction: (request, call) =>
      call === 1
        ? ok(committed(request, { state: "durable", level: "global" }))
        : { status: 202, body: committed(request, { state: "pending", level: "region" }) },
  });
  const hw = client(context, [fake]);
  const safe = await hw.transaction(statement, { ack: "durable", level: "global", maxWaitMs: 70 });
  assert.deepEqual([fake.transactions[0]?.level, fake.transactions[0]?.maxWaitMs], ["global", 70]);
  assert.equal(safe.state, "durable");
  assert.equal((await safe.durable()).level, "global");
  assert.equal(fake.streamRequests.length, 0);
  const slow = await hw.transaction(statement, { ack: "durable" });
  assert.deepEqual([fake.transactions[1]?.level, fake.transactions[1]?.maxWaitMs], ["region", 10_000]);
  assert.equal(slow.state, "pending");
  const wait = slow.durable();
  await fake.until(() => fake.streams.size === 1);
  fake.mark(marks(E1, { region: 10 }));
  assert.equal((await wait).verdict, "durable");
  assert.equal(slow.state, "durable");
});

test("ack durable whose answer was lost: the state is waited for at its level", async (context) => {
  const queries: string[] = [];
  const fake = await service(context, {
    transaction: () => problem("commit_unconfirmed"),
    state: (id, query) => {
      queries.push(query.toString());
      return ok({
        id,
        state: "committed",
        token: token(E1, 9, id),
        position: { epoch: E1, offset: "9" },
        marks: null,
      });
    },
  });
  const tx = await client(context, [fake]).transaction(statement, { ack: "durable", maxWaitMs: 1_500 });
  assert.deepEqual(queries, ["wait=2&level=region"]);
  assert.equal(tx.state, "pending");
});

test("status and its query", async (context) => {
  const fake = await service(context, {
    state: (id, query, call) =>
      call === 1
        ? "cut"
        : ok({
            id,
            state: query.get("level") === "disk" ? "durable" : "unknown",
            marks: marks(E1, { disk: 3 }),
          }),
  });
  const hw = client(context, [fake]);
  const state = await hw.status(newTransactionId(), { level: "disk", waitMs: 10 });
  assert.equal(state.state, "durable");
  assert.deepEqual(hw.marks, marks(E1, { disk: 3 }));
  await assert.rejects(hw.status("nonsense"), { code: "invalid_id" });
});

test("mistakes of the caller are told at once", async (context) => {
  const fake = await service(context);
  for (const options of [{}, { url: [] }, { url: "here" }, { url: fake.url, endpoints: [] }])
    assert.throws(() => new Highwater(options), { code: "invalid_options" });
  const hw = client(context, [fake]);
  await assert.rejects(hw.transaction(statement, { id: "1" }), { code: "invalid_id" });
  await assert.rejects(hw.transaction({ sql: "x", params: [undefined as never] }), {
    code: "invalid_parameter",
  });
  assert.throws(() => hw.promise("nonsense"), { code: "invalid_token" });
  await hw.close();
  await assert.rejects(hw.transaction(statement), { code: "client_closed" });
  assert.equal(fake.transactions.length, 0);
});
