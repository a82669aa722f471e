// Which token the reads of a session carry. All else that a session does is in the scenarios of sdk/conformance.
import assert from "node:assert/strict";
import { test } from "node:test";
import { token } from "@highwater/conformance/fake";
import { sql } from "../src/index.ts";
import { client, service } from "./client-support.ts";

const statement = sql`SELECT 1`;

test("causal: reads carry the furthest token of the newest epoch; writes and other sessions carry none", async (context) => {
  const places = [
    ...[{ offset: 20 }, { offset: 10 }, { offset: 25 }],
    ...[
      { epoch: 2, offset: 3 },
      { epoch: 2, offset: 4 },
    ],
  ];
  const fake = await service(context, { transactions: places.map((place) => ({ ok: place })) });
  const hw = client(context, [fake]);
  const session = hw.session({ causal: true });
  const read = { readOnly: true } as const;
  const own = token(1, 1);
  const first = await session.transaction(statement, read);
  await session.transaction(statement);
  const second = await session.transaction(statement, read);
  const third = await session.transaction(statement, read);
  await session.transaction(statement, { ...read, after: own });
  await hw.session().transaction(statement, read);
  await hw.transaction(statement, { ...read, after: third, mode: "local" });
  assert.deepEqual(
    fake.calls.map(({ body }) => body["after"]),
    [undefined, undefined, first.token, second.token, own, undefined, third.token],
  );
  assert.equal(fake.calls.at(-1)?.body["mode"], "local");
});

test("a wait for a session says how much of it is pending", async (context) => {
  const session = client(context, [await service(context)]).session();
  await session.transaction(statement);
  await assert.rejects(session.durable({ timeoutMs: 20 }), { message: /^pending at region/ });
});
