// What is told as it happens: listeners for durable, subscriptions, refused tokens; and how the client hears of marks where streams
// do not come through, or moves on from an endpoint that says nothing.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type LiveState, sql, TokenRefusedError } from "../src/index.ts";
import { client, service } from "./client-support.ts";
import { committed, ok } from "./fake-service.ts";
import { E1, E2, epoch, marks, verdictOf } from "./support.ts";

const statement = sql`SELECT 1`;

test("onDurable: of a transaction and of the client, once, and never for what is lost", async (context) => {
  const fake = await service(context, {
    transaction: (request, call) =>
      ok(
        committed(request, {
          offset: call * 10,
          ...(call === 3 ? { state: "durable", level: "region" } : {}),
        }),
      ),
  });
  const hw = client(context, [fake]);
  const received: string[] = [];
  const off = hw.onDurable(({ id }) => received.push(id));
  const first = await hw.transaction(statement);
  const second = await hw.transaction(statement);
  const own = Promise.withResolvers<string>();
  second.onDurable(({ rule }) => own.resolve(rule));
  const removed = second.onDurable(() => assert.fail("was taken away"));
  removed();
  await fake.until(() => fake.streams.size === 1);
  fake.mark(marks(E1, { region: 20 }));
  assert.equal(await own.promise, "client:mark");
  assert.deepEqual(received, [first.id, second.id]);
  const third = await hw.transaction(statement, { ack: "durable" });
  assert.deepEqual(received, [first.id, second.id, third.id]);
  off();
  await hw.transaction(statement, { ack: "durable" });
  assert.equal(received.length, 3);
  const late = Promise.withResolvers<string>();
  third.onDurable(({ id }) => late.resolve(id));
  assert.equal(await late.promise, third.id);
});

test("afterDurable runs when it is durable, and not before or otherwise", async (context) => {
  const fake = await service(context, { transaction: (request) => ok(committed(request, { offset: 10 })) });
  const hw = client(context, [fake]);
  const tx = await hw.transaction(statement);
  let runs = 0;
  const run = (): string => `run ${String(++runs)}`;
  await assert.rejects(tx.afterDurable(run, { timeout: 20 }), { name: "DurabilityTimeoutError" });
  assert.equal(runs, 0);
  const done = tx.afterDurable(run);
  await fake.until(() => fake.streams.size === 1);
  fake.mark(marks(E1, { region: 10 }));
  assert.equal(await done, "run 1");
});

test("subscribe: how things stand now and after every change, and the stream is open for it", async (context) => {
  const fake = await service(context, { transaction: (request) => ok(committed(request, { offset: 10 })) });
  const hw = client(context, [fake]);
  const received: LiveState[] = [];
  let changed = Promise.withResolvers<undefined>();
  const until = async (condition: (last: LiveState | undefined) => boolean): Promise<void> => {
    while (!condition(received.at(-1))) await changed.promise;
  };
  const off = hw.subscribe((state) => {
    received.push(state);
    changed.resolve(undefined);
    changed = Promise.withResolvers<undefined>();
  });
  await until((last) => last?.marks === null && last.exposure.count === 0);
  await fake.until(() => fake.streams.size === 1);
  fake.mark(marks(E1, { region: 4 }));
  await until((last) => last?.marks?.levels["region"] === "4");
  const tx = await hw.transaction(statement);
  const wait = tx.durable();
  await until((last) => last?.exposure.count === 1);
  fake.mark(marks(E1, { region: 10 }));
  await wait;
  await until((last) => last?.exposure.count === 0 && last.marks?.levels["region"] === "10");
  // Nothing is waited for, and the stream stays all the same; longer than it would otherwise.
  assert.equal(fake.streams.size, 1);
  off();
  await fake.until(() => fake.streams.size === 0);
});

test("a token that is refused is an error of its own", async (context) => {
  const fake = await service(context, {
    transaction: (request) => ok(committed(request, { epoch: E1, offset: 10 })),
    verdicts: ({ tokens }) =>
      ok({
        verdicts: tokens.map((each) => ({
          ...({ token: each, verdict: "unknown", level: "region", rule: "refused" } as const),
          error: { code: "forbidden", detail: "another owner's" } as const,
        })),
        marks: null,
      }),
  });
  const hw = client(context, [fake]);
  const tx = await hw.transaction(statement);
  const wait = tx.durable();
  await fake.until(() => fake.streams.size === 1);
  fake.epochs(epoch(E1), epoch(E2, { previous: E1, fork: 5, start: 9 }));
  await assert.rejects(wait, (error) => {
    assert.ok(error instanceof TokenRefusedError);
    assert.deepEqual([error.code, error.token], ["forbidden", tx.token]);
    return true;
  });
});

test("a proxy that holds streams back: marks and epochs are asked for, and streams tried again later", async (context) => {
  let blocked = true;
  const fake = await service(context, {
    transaction: (request, call) =>
      ok(committed(request, call === 1 ? { offset: 10 } : { epoch: E2, offset: 40 })),
    stream: () => (blocked ? "held" : undefined),
    verdicts: ({ tokens }) =>
      ok({
        verdicts: tokens.map((each) =>
          verdictOf({ id: E1, token: each }, "pending", { epoch: E2, offset: 15 }),
        ),
        marks: null,
      }),
    marks: (call) =>
      ok({
        marks: call < 3 ? marks(E1, { region: 5 }) : marks(E2, { region: 20 }),
        levels: ["region"],
        epochs: call < 3 ? [epoch(E1)] : [epoch(E1), epoch(E2, { previous: E1, fork: 10, start: 15 })],
      }),
  });
  const tuning = { streamOpenMs: 50, pollBaseMs: 5, pollMaxMs: 20, pollForMs: 300 };
  const hw = client(context, [fake], { tuning });
  const verdict = await (await hw.transaction(statement)).durable();
  // Carried over to the second epoch: so the epochs were learned, too.
  assert.deepEqual(verdict.position, { epoch: E2, offset: "15" });
  assert.ok(fake.polls >= 3);
  blocked = false;
  const second = (await hw.transaction(statement)).durable();
  let isDone = false;
  void second.finally(() => (isDone = true)).catch(() => undefined);
  while (!isDone) {
    // Again and again: on a busy machine a stream may be given up before its first word, and opened anew.
    fake.mark(marks(E2, { region: 40 }));
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await second;
});

test("a poll that fails at once moves on to the next tracker", async (context) => {
  const near = await service(context, { stream: () => 502 });
  const far = await service(context);
  const gateway = await service(context);
  const hw = client(context, [near, far], {
    endpoints: [near, far].map(({ url }) => ({ gateway: gateway.url, tracker: url })),
    url: undefined as never,
  });
  const wait = (await hw.transaction(statement)).durable();
  await far.until(() => far.streams.size === 1);
  far.mark(marks(E1, { region: 10 }));
  await wait;
  assert.equal(near.polls, 1);
});

test("a black hole is left long before the time of an attempt is over; a slow answer is waited for", async (context) => {
  const near = await service(context, { transaction: () => "hang", blackHole: true });
  const far = await service(context);
  // Time enough for a busy machine to answer the question whether anybody is there.
  const options = { requestTimeoutMs: 60_000, totalTimeoutMs: 60_000, tuning: { probeMs: 1_500 } };
  const hw = client(context, [near, far], options);
  await hw.transaction(statement);
  assert.deepEqual([near.probes, near.transactions.length, far.transactions.length], [1, 1, 1]);
  const slow = await service(context, {
    transaction: async (request) => {
      await slow.until(() => slow.probes === 1);
      return ok(committed(request));
    },
  });
  await client(context, [slow, far], options).transaction(statement);
  assert.deepEqual([slow.transactions.length, far.transactions.length], [1, 1]);
  // With nowhere else to go there is nothing to find out.
  const only = await service(context, { transaction: () => "hang" });
  const alone = client(context, [only], { ...options, requestTimeoutMs: 500, totalTimeoutMs: 600 });
  await assert.rejects(alone.transaction(statement), { name: "UnknownOutcomeError" });
  assert.equal(only.probes, 0);
});
