// Promises of this language: what a handle and a client say of themselves, and streams that say nothing. How waits end is in the
// scenarios of sdk/conformance.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { token } from "@highwater/conformance/fake";
import { type LiveState, sql, TransactionLostError, UnknownOutcomeError } from "../src/index.ts";
import { client, FAILOVER, service, streaming } from "./client-support.ts";
import { E1, E2 } from "./support.ts";

const statement = sql`SELECT 1`;

test("a handle says how its transaction stands, and where it committed", async (context) => {
  const fake = await service(context, {
    verdicts: { ok: { each: { verdict: "pending", epoch: 2, offset: 60 } } },
  });
  const hw = client(context, [fake]);
  const tx = await hw.transaction(statement);
  await assert.rejects(tx.durable({ timeoutMs: 30 }), { name: "DurabilityTimeoutError" });
  assert.deepEqual([tx.state, tx.verdict(), hw.exposure.count], ["committed", undefined, 0]);
  const done = tx.afterDurable(() => "sent");
  await streaming(fake);
  assert.equal(hw.exposure.count, 1);
  assert.ok(hw.exposure.oldestMs > 0);
  fake.epochs(FAILOVER);
  await fake.until(({ verdicts }) => verdicts === 1);
  fake.mark({ epoch: 2, levels: { region: 60 } });
  assert.equal(await done, "sent");
  const verdict = tx.verdict();
  assert.deepEqual([tx.state, verdict?.rule], ["durable", "client:mark"]);
  assert.deepEqual(
    [tx.position, verdict?.position],
    [
      { epoch: E1, offset: "10" },
      { epoch: E2, offset: "60" },
    ],
  );
});

test("lost at every level that is waited for; each listener is called once, with the level that was judged first", async (context) => {
  const fake = await service(context, {
    ...{ transactions: { ok: { offset: 70 } }, verdicts: { ok: { each: "lost" } } },
  });
  const hw = client(context, [fake]);
  const reported: string[] = [];
  hw.onLost(() => reported.push("client"));
  const tx = await hw.transaction(statement);
  tx.onLost(({ verdict, level }) => reported.push(`${verdict} ${level}`));
  const waits = [tx.durable(), tx.durable({ level: "global" })];
  await streaming(fake);
  fake.epochs(FAILOVER);
  for (const wait of waits)
    await assert.rejects(
      wait,
      (error) => error instanceof TransactionLostError && error.level === error.verdict?.level,
    );
  assert.equal(tx.state, "lost");
  assert.deepEqual(reported, ["client", `lost ${tx.verdict()?.level ?? "?"}`]);
});

test("what a listener throws, or rejects with later, is printed, and nothing else comes of it", async (context) => {
  const fake = await service(context);
  const hw = client(context, [fake]);
  const printed: unknown[] = [];
  const enough = Promise.withResolvers<undefined>();
  context.mock.method(console, "error", (_text: unknown, error: unknown) => {
    printed.push(error);
    if (printed.length === 3) enough.resolve(undefined);
  });
  const [now, later] = [new Error("now"), new Error("later")];
  const tx = await hw.transaction(statement);
  const reported: string[] = [];
  hw.onDurable(() => {
    throw now;
  });
  tx.onDurable(() => Promise.reject(later));
  hw.subscribe(async ({ marks }) => {
    if (marks !== null) throw later;
  });
  tx.onDurable(({ verdict }) => reported.push(verdict));
  hw.onDurable(({ verdict }) => reported.push(verdict));
  const wait = tx.durable();
  const next = await hw.transaction(statement);
  await streaming(fake);
  fake.mark({ epoch: 1, levels: { region: 20 } });
  await Promise.all([wait, next.durable()]);
  await enough.promise;
  // The second listener of the first transaction, and the client's of the second one.
  assert.deepEqual(reported, ["durable", "durable"]);
  assert.ok(printed.includes(now) && printed.includes(later));
});

test("a wait for several that is over has a token of one that is pending", async (context) => {
  const fake = await service(context, { transactions: [{ ok: { offset: 10 } }, { ok: { offset: 20 } }] });
  const hw = client(context, [fake]);
  const session = hw.session();
  await session.transaction(statement);
  const second = await session.transaction(statement);
  const wait = session.durable({ timeoutMs: 1_000 });
  await streaming(fake);
  fake.mark({ epoch: 1, levels: { region: 10 } });
  await assert.rejects(wait, { name: "DurabilityTimeoutError", state: "pending", token: second.token });
});

test("a transaction that no tracker knows has an unknown outcome", async (context) => {
  const fake = await service(context, {
    ...{ transactions: { ok: { offset: 70 } }, verdicts: { ok: { each: "unknown" } } },
  });
  const wait = (await client(context, [fake]).transaction(statement)).durable();
  await streaming(fake);
  fake.epochs(FAILOVER);
  await assert.rejects(wait, UnknownOutcomeError);
});

test("a silent stream is dead; comments keep one alive; another tracker takes over from a refusing one", async (context) => {
  const unasked = { marks: { problem: "not_found" } };
  const silent = await service(context, unasked);
  const refusing = await service(context, { streams: 503, ...unasked });
  const far = await service(context);
  const hw = client(context, [refusing, silent, far], {
    // The refusing one is not tried again.
    tuning: { streamSilenceMs: 2_500, streamOpenMs: 30_000, cooldownBaseMs: 60_000 },
  });
  const wait = hw.promise(token(1, 10)).durable();
  await streaming(far);
  assert.deepEqual([refusing.seen.streams, silent.seen.streams], [1, 1]);
  // Longer than it may be silent, all together.
  for (let i = 0; i < 14; i++) {
    await new Promise((resolve) => setTimeout(resolve, 200));
    far.rawEvents(": alive\n\n");
  }
  assert.equal(far.seen.streams, 1);
  far.mark({ epoch: 1, levels: { region: 10 } });
  await wait;
});

test("where there is no tracker, a wait ends with that", async (context) => {
  const gateway = await service(context, { streams: 404, marks: { problem: "not_found" } });
  const wait = client(context, [gateway]).promise(token(1, 10)).durable();
  await assert.rejects(wait, { name: "InvalidRequestError", code: "no_tracker" });
});

test("subscribe: how things stand now and after every change, and the stream is open for it", async (context) => {
  const fake = await service(context);
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
  await streaming(fake);
  fake.mark({ epoch: 1, levels: { region: 4 } });
  await until((last) => last?.marks?.levels["region"] === "4");
  const wait = (await hw.transaction(statement)).durable();
  await until((last) => last?.exposure.count === 1);
  fake.mark({ epoch: 1, levels: { region: 10 } });
  await wait;
  await until((last) => last?.exposure.count === 0 && last.marks?.levels["region"] === "10");
  // Nothing is waited for, and the stream stays all the same.
  assert.equal(fake.seen.openStreams, 1);
  off();
  await fake.until(({ openStreams }) => openStreams === 0);
});

test("verdicts: trackers that are blind are asked within one time limit, and about what is open", async (context) => {
  const [near, far] = [
    await service(context, { verdicts: { ok: { each: "pending", blind: true } } }),
    await service(context, { verdicts: "hang" }),
  ];
  const timeoutMs = 4_000;
  // The first answer comes when most of the time is over.
  const slowly = async (url: string, init: RequestInit): Promise<Response> => {
    const answer = await fetch(url, init);
    if (url.startsWith(near.url) && url.endsWith("/verdicts")) await pause(0.6 * timeoutMs);
    return answer;
  };
  const hw = client(context, [near, far], { fetch: slowly });
  const beganMs = performance.now();
  await assert.rejects(hw.verdicts([token(1, 10)], { timeoutMs }), { name: "NoAnswerError" });
  assert.ok(performance.now() - beganMs < 1.4 * timeoutMs);
  assert.equal(far.seen.verdicts, 1);
  near.follow({ verdicts: { ok: { each: "durable", blind: true } } });
  const [verdict] = await client(context, [near, far]).verdicts([token(1, 10)]);
  assert.equal(verdict?.verdict, "durable");
  assert.equal(far.seen.verdicts, 1);
});
