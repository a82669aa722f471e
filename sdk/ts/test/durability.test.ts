// Promises against a scripted tracker: stream, epochs, verdicts, waits that end and waits that are ended.
import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import {
  DurabilityTimeoutError,
  InvalidRequestError,
  PromiseBrokenError,
  sql,
  type TokenVerdict,
  TransactionLostError,
  UnknownOutcomeError,
} from "../src/index.ts";
import { type VerdictsRequest } from "../src/wire.ts";
import { client, service } from "./client-support.ts";
import { committed, type FakeService, ok, problem, type Reply, type Script } from "./fake-service.ts";
import { E1, E2, E3, epoch, marks, token, uuid, verdictOf } from "./support.ts";

const statement = sql`SELECT 1`;
const first = epoch(E1);
const second = epoch(E2, { previous: E1, fork: 50, start: 60 });

/** Transactions commit at these offsets, one after the other. */
const at = (...offsets: number[]): Script => ({
  transaction: (request, call) => ok(committed(request, { offset: offsets[call - 1] ?? 0 })),
});

const judge =
  (verdictFor: (token: string, call: number) => Partial<TokenVerdict>) =>
  (request: VerdictsRequest, call: number): Reply =>
    ok({
      marks: null,
      verdicts: request.tokens.map((each) => ({
        ...verdictOf({ id: E1, token: each }, "pending", { level: request.level ?? "?", offset: 51 }),
        ...verdictFor(each, call),
      })),
    });

const streaming = (fake: FakeService): Promise<void> => fake.until(() => fake.streams.size > 0);

test("one stream for all waits, opened for the first and closed after the last", async (context) => {
  const fake = await service(context, at(10, 20));
  const hw = client(context, [fake]);
  const [one, two] = [await hw.transaction(statement), await hw.transaction(statement)];
  assert.equal(fake.streamRequests.length, 0);
  const waits = [one.durable(), two.durable(), two.durable({ level: "global" })];
  await streaming(fake);
  assert.equal(hw.exposure.count, 2);
  assert.ok(hw.exposure.oldestMs > 0);
  fake.mark(marks(E1, { region: 15, global: 5 }));
  assert.deepEqual((await waits[0])?.position, { epoch: E1, offset: "10" });
  fake.mark(marks(E1, { region: 25, global: 20 }));
  assert.equal((await waits[1])?.rule, "client:mark");
  assert.equal((await waits[2])?.level, "global");
  assert.equal(two.state, "durable");
  assert.equal(hw.exposure.count, 0);
  await fake.until(() => fake.streams.size === 0);
  assert.equal(fake.streamRequests.length, 1);
});

test("marks that ride on answers settle promises too", async (context) => {
  const fake = await service(context, {
    transaction: (request, call) =>
      ok(committed(request, { offset: 10 * call, marks: call === 2 ? marks(E1, { region: 10 }) : null })),
  });
  const hw = client(context, [fake]);
  const one = await hw.transaction(statement);
  const wait = one.durable();
  const two = await hw.transaction(statement);
  assert.equal((await wait).verdict, "durable");
  assert.equal(two.verdict(), undefined);
});

test("10,000 promises are settled by one mark", async (context) => {
  const fake = await service(context);
  const hw = client(context, [fake]);
  const promises = Array.from({ length: 10_000 }, (_, i) => hw.promise(token(E1, 10_000 - i)));
  const waits = promises.map((promise) => promise.durable());
  await streaming(fake);
  assert.equal(hw.exposure.count, 10_000);
  fake.mark(marks(E1, { region: 10_000 }));
  await Promise.all(waits);
  assert.equal(hw.exposure.count, 0);
  assert.equal(fake.questions.length, 0);
});

test("a stream that is cut is resumed with the id of the last event", async (context) => {
  const fake = await service(context, at(10, 20));
  const hw = client(context, [fake]);
  const [one, two] = [await hw.transaction(statement), await hw.transaction(statement)];
  const [waitOne, waitTwo] = [one.durable(), two.durable()];
  await streaming(fake);
  fake.send("mark", marks(E1, { region: 10 }), "1.42");
  await waitOne;
  fake.cutStreams();
  await fake.until(() => fake.streamRequests.length === 2 && fake.streams.size === 1);
  assert.deepEqual(
    fake.streamRequests.map((headers) => headers["last-event-id"]),
    [undefined, "1.42"],
  );
  fake.mark(marks(E1, { region: 20 }));
  await waitTwo;
});

test("a silent stream is dead; comments keep one alive; another tracker takes over from a refusing one", async (context) => {
  const silent = await service(context);
  const refusing = await service(context, { stream: () => 503 });
  const far = await service(context);
  const hw = client(context, [refusing, silent, far], {
    // The refusing one is not tried again.
    tuning: { streamSilenceMs: 2_500, streamOpenMs: 30_000, cooldownBaseMs: 60_000 },
  });
  const wait = hw.promise(token(E1, 10)).durable();
  await streaming(far);
  assert.deepEqual([refusing.streamRequests.length, silent.streamRequests.length], [1, 1]);
  // Longer than it may be silent, all together.
  for (let i = 0; i < 14; i++) {
    await new Promise((resolve) => setTimeout(resolve, 200));
    for (const stream of far.streams) stream.write(": alive\n\n");
  }
  assert.equal(far.streamRequests.length, 1);
  far.mark(marks(E1, { region: 10 }));
  await wait;
});

test("epoch change: carried over, says the tracker; and durable when the successor's mark says so", async (context) => {
  const fake = await service(context, {
    ...at(50),
    verdicts: judge(() => ({ position: { epoch: E2, offset: "60" } })),
  });
  const hw = client(context, [fake]);
  const tx = await hw.transaction(statement);
  const wait = tx.durable();
  await streaming(fake);
  fake.epochs(first);
  fake.mark(marks(E1, { region: 49 }));
  fake.epochs(first, second);
  await fake.until(() => fake.questions.length === 1);
  fake.mark(marks(E2, { region: 60 }));
  assert.deepEqual((await wait).position, { epoch: E2, offset: "60" });
  assert.deepEqual(tx.position, { epoch: E1, offset: "50" });
  assert.equal(fake.questions.length, 1);
});

test("epoch change: above the fork the tracker judges; lost settles all, and tells every listener once", async (context) => {
  const fake = await service(context, {
    ...at(51),
    verdicts: judge((_, call) => (call === 1 ? {} : { verdict: "lost", retriedIn: E2 })),
  });
  const hw = client(context, [fake]);
  const seen: string[] = [];
  hw.onLost(() => seen.push("client"));
  const tx = await hw.transaction(statement, { metadata: { order: "7" } });
  tx.onLost(({ verdict, level }) => seen.push(`${verdict} ${level}`));
  tx.onLost(() => seen.push("taken away"))();
  const waits = [tx.durable(), tx.durable({ level: "global" })];
  await streaming(fake);
  fake.epochs(first, second);
  for (const wait of waits)
    await assert.rejects(wait, (error) => {
      assert.ok(error instanceof TransactionLostError);
      assert.equal(error.verdict?.retriedIn, E2);
      assert.deepEqual([error.code, error.transactionId], ["transaction_lost", tx.id]);
      assert.deepEqual([error.metadata, error.successor], [{ order: "7" }, E2]);
      assert.deepEqual([error.position?.epoch, error.level], [E1, error.verdict.level]);
      assert.deepEqual(
        [error.outcome, error.retry],
        ["applied", "resolve_outcome"],
        "another attempt is there",
      );
      return true;
    });
  assert.equal(tx.state, "lost");
  // Whichever level was judged first: a verdict is about its own.
  const shown = `lost ${tx.verdict()?.level ?? "?"}`;
  assert.deepEqual(seen, ["client", shown]);
  await assert.rejects(tx.durable(), TransactionLostError);
  tx.onLost(() => seen.push("late"));
  await Promise.resolve();
  assert.deepEqual(seen, ["client", shown, "late"]);
  assert.equal(hw.exposure.count, 0);
});

test("two handles of one transaction: the client's listeners are told of it once", async (context) => {
  const fake = await service(context, { verdicts: judge(() => ({ verdict: "lost" })) });
  const hw = client(context, [fake]);
  const seen: string[] = [];
  hw.onLost(({ token: of }) => seen.push(of));
  const text = token(E1, 51);
  const handles = [hw.promise(text), hw.promise(text)];
  assert.equal(hw.exposure.count, 1);
  const waits = handles.map((handle) => handle.durable());
  await streaming(fake);
  fake.epochs(first, second);
  for (const wait of waits) await assert.rejects(wait, TransactionLostError);
  assert.deepEqual(seen, [text]);
  assert.deepEqual(fake.questions[0]?.tokens, [text]);
});

test("found by its receipt: pending with a place in the new epoch, then durable there", async (context) => {
  const fake = await service(context, {
    ...at(51),
    verdicts: judge(() => ({ position: { epoch: E2, offset: "77" } })),
  });
  const hw = client(context, [fake]);
  const wait = (await hw.transaction(statement)).durable();
  await streaming(fake);
  fake.epochs(first, second);
  await fake.until(() => fake.questions.length === 1);
  fake.mark(marks(E2, { region: 77 }));
  assert.deepEqual((await wait).position, { epoch: E2, offset: "77" });
});

test("broken: the wait is rejected, hw.onBroken hears of it, onLost too because nobody had seen it durable", async (context) => {
  const fake = await service(context, { ...at(51), verdicts: judge(() => ({ verdict: "broken" })) });
  const hw = client(context, [fake]);
  const seen: string[] = [];
  hw.onBroken(({ verdict }) => seen.push(`broken ${verdict}`));
  hw.onLost(({ verdict }) => seen.push(`lost ${verdict}`));
  const tx = await hw.transaction(statement);
  const wait = tx.durable();
  await streaming(fake);
  fake.epochs(first, second);
  await assert.rejects(
    wait,
    (error) => error instanceof PromiseBrokenError && error.verdict?.verdict === "broken",
  );
  assert.deepEqual(seen, ["broken broken", "lost broken"]);
});

test("durable at its level: a later loss at a stronger level is no news for its listeners", async (context) => {
  const fake = await service(context, { ...at(51), verdicts: judge(() => ({ verdict: "lost" })) });
  const hw = client(context, [fake]);
  hw.onLost(() => assert.fail("the client's listener"));
  const tx = await hw.transaction(statement);
  tx.onLost(() => assert.fail("the transaction's listener"));
  const wait = tx.durable({ level: "global" });
  await streaming(fake);
  fake.mark(marks(E1, { region: 51, global: 0 }));
  fake.epochs(first, second);
  await assert.rejects(wait, TransactionLostError);
  assert.equal((await tx.durable()).verdict, "durable");
});

test("onLost alone keeps the stream, and lets go when the transaction is durable", async (context) => {
  const fake = await service(context, at(10, 20));
  const hw = client(context, [fake]);
  (await hw.transaction(statement)).onLost(() => assert.fail());
  const off = (await hw.transaction(statement)).onLost(() => assert.fail());
  await streaming(fake);
  assert.equal(hw.exposure.count, 2);
  off();
  fake.mark(marks(E1, { region: 10 }));
  await fake.until(() => fake.streams.size === 0);
  assert.equal(hw.exposure.count, 0);
});

test("hw.onLost watches what the client commits from then on, until it is taken away", async (context) => {
  const fake = await service(context, at(10, 20, 30));
  const hw = client(context, [fake]);
  await hw.transaction(statement);
  const off = hw.onLost(() => assert.fail());
  await hw.transaction(statement);
  hw.promise(token(E1, 25));
  assert.equal(hw.exposure.count, 2);
  off();
  assert.equal(hw.exposure.count, 0);
  await hw.transaction(statement);
  assert.equal(hw.exposure.count, 0);
});

test("a wait has an end: the timeout is no loss, and a later wait goes on", async (context) => {
  const fake = await service(context, at(10));
  const hw = client(context, [fake]);
  const tx = await hw.transaction(statement);
  await assert.rejects(tx.durable({ timeout: 30 }), (error) => {
    assert.ok(error instanceof DurabilityTimeoutError);
    assert.deepEqual([error.code, error.outcome, error.retry], ["durability_timeout", "applied", "wait"]);
    return true;
  });
  assert.deepEqual([tx.state, hw.exposure.count], ["committed", 0]);
  const wait = tx.durable();
  await streaming(fake);
  fake.mark(marks(E1, { region: 10 }));
  await wait;
});

test("an aborted wait ends at once with the signal's reason as the cause, and leaves no listener", async (context) => {
  const fake = await service(context, at(10));
  const hw = client(context, [fake]);
  const tx = await hw.transaction(statement);
  const abort = new AbortController();
  const wait = tx.durable({ signal: abort.signal });
  assert.equal(getEventListeners(abort.signal, "abort").length, 1);
  const reason = new Error("enough");
  abort.abort(reason);
  await assert.rejects(wait, { name: "AbortError", cause: reason, outcome: "applied" });
  assert.equal(getEventListeners(abort.signal, "abort").length, 0);
  assert.equal(hw.exposure.count, 0);
  await assert.rejects(tx.durable({ signal: abort.signal }), { name: "AbortError", cause: reason });
  await assert.rejects(tx.durable({ signal: AbortSignal.abort() }), { name: "AbortError" });
  const unused = new AbortController();
  const settled = tx.durable({ signal: unused.signal });
  await streaming(fake);
  fake.mark(marks(E1, { region: 10 }));
  await settled;
  assert.equal(getEventListeners(unused.signal, "abort").length, 0);
});

test("a wait that was aborted takes its question with it", { timeout: 60_000 }, async (context) => {
  const fake = await service(context, { ...at(51), verdicts: () => "hang" });
  const hw = client(context, [fake], { requestTimeoutMs: 60_000 });
  const tx = await hw.transaction(statement);
  const abort = new AbortController();
  const wait = tx.durable({ signal: abort.signal });
  await streaming(fake);
  fake.epochs(first, second);
  await fake.until(() => fake.held === 1);
  abort.abort();
  await assert.rejects(wait, { name: "AbortError" });
  await fake.until(() => fake.held === 0);
});

test("verdicts are asked in batches, and judged one by one", async (context) => {
  const fake = await service(context, {
    verdicts: judge((each) => ({
      verdict: Number(BigInt(`0x${offsetHex(each)}`) % 2n) === 0 ? "durable" : "lost",
    })),
  });
  const hw = client(context, [fake]);
  const waits = Array.from({ length: 2_500 }, (_, i) => hw.promise(token(E1, 100 + i)).durable());
  await streaming(fake);
  fake.epochs(first, second);
  const ends = await Promise.allSettled(waits);
  assert.ok(ends.every(({ status }, i) => status === (i % 2 === 0 ? "fulfilled" : "rejected")));
  assert.ok(fake.questions.every(({ tokens }) => tokens.length <= 1_000));
  const asked = fake.questions.flatMap(({ tokens }) => tokens);
  assert.deepEqual([asked.length, new Set(asked).size], [2_500, 2_500]);
});

const offsetHex = (text: string): string =>
  // The last byte of the offset is all that its readers need; the MAC's 16 bytes stand behind it.
  Buffer.from(text.slice(4), "base64url").subarray(-17, -16).toString("hex");

test("a question that fails is asked again; a token without an answer too", async (context) => {
  const fake = await service(context, {
    ...at(51),
    verdicts: (request, call) => {
      if (call === 1) return "cut";
      if (call === 2) return problem("marks_unavailable");
      if (call === 3) return ok({ verdicts: [], marks: null });
      return judge(() => ({ verdict: "durable" }))(request, call);
    },
  });
  const hw = client(context, [fake]);
  const wait = (await hw.transaction(statement)).durable();
  await streaming(fake);
  fake.epochs(first, second);
  assert.equal((await wait).verdict, "durable");
  assert.equal(fake.questions.length, 4);
});

test("a level that does not exist is refused, not waited for until the timeout", async (context) => {
  const fake = await service(context, { ...at(10), verdicts: () => problem("unknown_level") });
  const hw = client(context, [fake]);
  const wait = (await hw.transaction(statement)).durable({ level: "regoin" });
  await streaming(fake);
  fake.mark(marks(E1, { region: 5 }));
  await assert.rejects(
    wait,
    (error) => error instanceof InvalidRequestError && error.code === "unknown_level",
  );
});

test("a token that the tracker refuses by itself ends its own wait and no other", async (context) => {
  const fake = await service(context, {
    verdicts: (request) =>
      ok({
        marks: null,
        verdicts: request.tokens.map((each) =>
          each === foreign
            ? {
                ...{ token: each, verdict: "unknown", level: "region", rule: "refused" },
                error: { code: "forbidden", detail: "The token belongs to another owner." },
              }
            : verdictOf({ id: uuid(9), token: each }, "durable"),
        ),
      }),
  });
  const [own, foreign] = [token(E2, 10), token(E2, 20)];
  const hw = client(context, [fake], { apiKey: "hwk_a_b" });
  const waits = [hw.promise(own).durable(), hw.promise(foreign).durable()];
  await streaming(fake);
  assert.equal(fake.streamRequests[0]?.authorization, "Bearer hwk_a_b");
  fake.epochs(
    epoch(E1),
    epoch(E2, { previous: E1, fork: 5, start: 6 }),
    epoch(E3, { previous: E2, fork: 7 }),
  );
  assert.equal((await waits[0])?.verdict, "durable");
  await assert.rejects(waits[1] ?? Promise.resolve(), (error) => {
    assert.ok(error instanceof InvalidRequestError);
    return error.code === "forbidden" && error.retry === "never";
  });
  assert.equal(fake.questionHeaders[0]?.authorization, "Bearer hwk_a_b");
  const [first, second] = await hw.verdicts([own, foreign]);
  assert.deepEqual([first?.verdict, second?.verdict, second?.rule], ["durable", "unknown", "refused"]);
});

test("what nobody can judge any more is an unknown outcome", async (context) => {
  for (const verdict of ["expired", "unknown"] as const) {
    const fake = await service(context, { ...at(51), verdicts: judge(() => ({ verdict })) });
    const wait = (await client(context, [fake]).transaction(statement)).durable();
    await streaming(fake);
    fake.epochs(first, second);
    await assert.rejects(wait, UnknownOutcomeError);
  }
});

test("a promise that waits for long is asked about without any event", async (context) => {
  const fake = await service(context, {
    ...at(10),
    stream: () => 503,
    verdicts: judge(() => ({ verdict: "durable" })),
  });
  const hw = client(context, [fake], { tuning: { recheckMs: 30 } });
  assert.equal((await (await hw.transaction(statement)).durable()).verdict, "durable");
});

test("hw.verdicts: in the order of the tokens, in batches", async (context) => {
  const fake = await service(context, {
    verdicts: (request) =>
      ok({
        verdicts: request.tokens.map((each) => verdictOf({ id: E1, token: each }, "durable")).reverse(),
        marks: marks(E1, { disk: 1 }),
      }),
  });
  const hw = client(context, [fake], { tuning: { verdictBatch: 2 } });
  const tokens = [1, 2, 3].map((offset) => token(E1, offset));
  const verdicts = await hw.verdicts(tokens, { level: "disk", waitMs: 10 });
  assert.deepEqual(
    verdicts.map((each) => each.token),
    tokens,
  );
  assert.deepEqual(
    fake.questions.map(({ level, waitMs, tokens: { length } }) => [level, waitMs, length]),
    [
      ["disk", 10, 2],
      ["disk", 10, 1],
    ],
  );
  assert.deepEqual(hw.marks, marks(E1, { disk: 1 }));
  assert.deepEqual(await hw.verdicts([]), []);
});

test("session: nothing to wait for resolves at once; all of it, reads included, is waited for", async (context) => {
  const fake = await service(context, at(10, 20, 30));
  const hw = client(context, [fake]);
  const session = hw.session();
  await session.durable({ timeout: 0 });
  const first = await session.transaction(statement);
  await session.transaction(statement, { readOnly: true });
  await hw.transaction(statement);
  const wait = session.durable({ level: "disk" });
  await streaming(fake);
  fake.mark(marks(E1, { disk: 19 }));
  await first.durable({ level: "disk" });
  await assert.rejects(session.durable({ level: "disk", timeout: 20 }), {
    ...{ name: "DurabilityTimeoutError", message: /1 still pending/ },
  });
  fake.mark(marks(E1, { disk: 20 }));
  await wait;
  await session.durable({ level: "disk", timeout: 0 });
});

test("session: a loss is reported once, and the rest can be waited for", async (context) => {
  const lost = new Set<string>();
  const fake = await service(context, {
    ...at(40, 51),
    verdicts: judge((each) =>
      lost.has(each) ? { verdict: "lost" } : { position: { epoch: E2, offset: "60" } },
    ),
  });
  const hw = client(context, [fake]);
  const session = hw.session();
  await session.transaction(statement);
  lost.add((await session.transaction(statement)).token);
  const wait = session.durable();
  await streaming(fake);
  fake.epochs(first, second);
  await assert.rejects(wait, TransactionLostError);
  fake.mark(marks(E2, { region: 60 }));
  await session.durable();
});

test("close ends every wait, question and stream", async (context) => {
  const fake = await service(context, { ...at(51), verdicts: () => "hang" });
  const hw = client(context, [fake]);
  const tx = await hw.transaction(statement);
  const wait = tx.durable();
  await streaming(fake);
  fake.epochs(first, second);
  await fake.until(() => fake.held === 1);
  await Promise.all([hw.close(), assert.rejects(wait, { code: "client_closed" })]);
  await fake.until(() => fake.held === 0 && fake.streams.size === 0);
  await assert.rejects(tx.durable(), { code: "client_closed" });
});

test("what is known needs no connection, also after close", async (context) => {
  const fake = await service(context, {
    transaction: (request) => ok(committed(request, { offset: 10, marks: marks(E1, { region: 10 }) })),
  });
  const hw = client(context, [fake]);
  const tx = await hw.transaction(statement);
  await hw.close();
  assert.equal((await tx.durable({ timeout: 0 })).verdict, "durable");
  assert.equal(fake.streamRequests.length, 0);
});
