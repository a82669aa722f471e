// Sessions against scripted services: what later reads must see, and what a process that comes after can find out.
import assert from "node:assert/strict";
import { test } from "node:test";
import { newTransactionId, sql } from "../src/index.ts";
import { client, service } from "./client-support.ts";
import { committed, ok, type Script } from "./fake-service.ts";
import { E1, E2, marks, verdictOf } from "./support.ts";

const statement = sql`SELECT 1`;

/** Transactions commit at these offsets, one after another, in the epoch. */
const at = (...places: (readonly [epoch: string, offset: number])[]): Script => ({
  transaction: (request, call) => {
    const [epoch, offset] = places[call - 1] ?? [E1, 0];
    return ok(committed(request, { epoch, offset }));
  },
});

test("causal: reads carry the furthest token of the newest epoch; writes and other sessions carry none", async (context) => {
  const fake = await service(context, at([E1, 20], [E1, 10], [E1, 25], [E2, 3], [E2, 4]));
  const hw = client(context, [fake]);
  const session = hw.session({ causal: true });
  const read = { readOnly: true } as const;
  const first = await session.transaction(statement, read);
  await session.transaction(statement);
  const second = await session.transaction(statement, read);
  const third = await session.transaction(statement, read);
  await session.transaction(statement, { ...read, after: "own" });
  await hw.session().transaction(statement, read);
  await hw.transaction(statement, { ...read, after: third, mode: "local" });
  assert.deepEqual(
    fake.transactions.map(({ after }) => after),
    [undefined, undefined, first.token, second.token, "own", undefined, third.token],
  );
  assert.equal(fake.transactions.at(-1)?.mode, "local");
});

test("served tells where a read ran", async (context) => {
  const served = {
    ...({ node: "b", region: "us-west", role: "replica" } as const),
    ...{ behindBytes: "0", behindMs: 4 },
  };
  const fake = await service(context, { transaction: (request) => ok(committed(request, { served })) });
  const tx = await client(context, [fake]).transaction(statement, { readOnly: true, mode: "local" });
  assert.deepEqual(tx.served, served);
});

test("a session goes over to the next process, which learns what became of each transaction", async (context) => {
  const fake = await service(context, {
    ...at([E1, 10], [E1, 20], [E1, 30]),
    verdicts: ({ tokens }) =>
      ok({
        verdicts: tokens.map((each, index) => {
          const verdict = (["durable", "lost", "pending"] as const)[index] ?? "unknown";
          return verdictOf({ id: newTransactionId(), token: each }, verdict, { offset: 30 });
        }),
        marks: null,
      }),
  });
  const before = client(context, [fake]).session();
  const [first, second, third] = [
    await before.transaction(statement),
    await before.transaction(statement),
    await before.transaction(statement),
  ];
  const hw = client(context, [fake]);
  const session = hw.session({ causal: true });
  const verdicts = await session.resume(before.token);
  assert.deepEqual(
    verdicts.map(({ token: each, verdict }) => [each, verdict]),
    [
      [first.token, "durable"],
      [second.token, "lost"],
      [third.token, "pending"],
    ],
  );
  assert.equal(session.token, ["hws1", first.token, third.token].join("."));
  await session.transaction(statement, { readOnly: true });
  assert.equal(fake.transactions.at(-1)?.after, third.token);
});

test("the token of a session: short where all is durable, and one of nothing is one", async (context) => {
  const fake = await service(context, at([E1, 10], [E1, 20], [E1, 30]));
  const hw = client(context, [fake]);
  const session = hw.session();
  assert.equal(session.token, "hws1");
  assert.deepEqual(await session.resume("hws1"), []);
  await session.transaction(statement);
  const second = await session.transaction(statement);
  const third = await session.transaction(statement);
  const wait = session.durable({ level: "region", timeout: 60_000 }).catch(() => undefined);
  await fake.until(() => fake.streams.size === 1);
  fake.mark(marks(E1, { region: 20 }));
  const standing = Promise.withResolvers<undefined>();
  second.onDurable(() => standing.resolve(undefined));
  await standing.promise;
  assert.equal(session.token, ["hws1", second.token, third.token].join("."));
  fake.mark(marks(E1, { region: 30 }));
  await wait;
  assert.equal(session.token, ["hws1", third.token].join("."));
  for (const wrong of ["", "nonsense", third.token])
    await assert.rejects(session.resume(wrong), { code: "invalid_token" });
  await assert.rejects(session.resume("hws1.x"), { code: "invalid_token" });
});

test("interactive transactions and transact belong to the session that they are of", async (context) => {
  const fake = await service(context);
  const session = client(context, [fake]).session();
  const tx = await session.begin();
  await tx.query(statement);
  assert.equal(session.token, "hws1");
  await tx.commit();
  await session.transact((inner) => inner.query(statement));
  assert.equal(session.token.split(".").length, 3);
  assert.ok(session.token.includes(tx.committed?.token ?? "?"));
});
