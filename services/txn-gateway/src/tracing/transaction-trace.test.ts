// Goal: a transaction's trace ends at its durability point, or says that it was lost; a loss is traced even if it was not sampled.
import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeToken, type EpochId, type Offset, parseTxnId } from "@highwater/protocol";
import { type FinishedSpan, Tracer } from "@highwater/service";
import { testDeploymentKeys } from "@highwater/service/testing";
import { Tokens } from "../txn/tokens.ts";
import { endCarriedTraces } from "./lost-traces.ts";
import { TransactionTrace } from "./transaction-trace.ts";

const ID = parseTxnId("01890a5d-ac96-774b-bcce-b302099a8057") ?? assert.fail();
const EPOCH = "11111111-1111-4111-8111-111111111111" as EpochId;
const TOKENS = new Tokens(testDeploymentKeys(), () => null);
const PARENT = (flags: string): string => `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-${flags}`;
const COMMITTED_AT = { epoch: EPOCH, offset: 1_234n as Offset, owner: 7n };

function makeTrace(flags: "00" | "01", waitsAt: string | null = null) {
  const spans: FinishedSpan[] = [];
  let nowMs = 0;
  const tracer = new Tracer({
    sampling: { parent: true, ratio: 0 },
    clock: { monotonicMs: () => nowMs++ },
    random: Math.random,
    onSpan: (span) => spans.push(span),
  });
  const request = tracer.request(PARENT(flags));
  const trace = new TransactionTrace(
    request,
    {
      ...{ id: ID, ack: waitsAt === null ? "commit" : "durable", isolation: "serializable" },
      ...{ readOnly: false, form: "one_shot", statements: 2 },
    },
    waitsAt,
  );
  const commit = (): void => {
    trace.storeBegan("east");
    trace.storeEnded();
    trace.committed(COMMITTED_AT);
  };
  const answer = (): void => {
    trace.ended("committed");
    request.end("POST /v1/transactions", () => ({}));
  };
  return {
    trace,
    spans,
    commit,
    answer,
    named: (name: string) => spans.filter((span) => span.name === name),
  };
}

test("the durable span begins at the commit, ends when the mark passes, and is linked to its transaction", () => {
  const { trace, spans, commit, answer, named } = makeTrace("01");
  commit();
  answer();
  assert.deepEqual(
    spans.map(({ name }) => name),
    ["POST /v1/transactions", "highwater transaction", "COMMIT"],
  );
  trace.settled("durable", "region");
  const [durable] = named("highwater durable");
  const [own] = named("highwater transaction");
  const [commitSpan] = named("COMMIT");
  const [server] = named("POST /v1/transactions");
  assert.ok(durable && own && commitSpan && server);
  assert.equal(durable.startMs, commitSpan.endMs);
  assert.ok(durable.endMs > own.endMs);
  assert.deepEqual(durable.links, [own.context]);
  assert.equal(durable.error, null);
  assert.equal(durable.attributes["highwater.level"], "region");
  assert.equal(own.parentSpanId, server.context.spanId);
  assert.equal(commitSpan.parentSpanId, own.context.spanId);
  assert.equal(commitSpan.attributes["db.system.name"], "postgresql");
  assert.equal(commitSpan.attributes["db.operation.batch.size"], 2);
  assert.equal(new Set(spans.map(({ context }) => context.traceId)).size, 1);
  assert.equal(new Set(spans.map(({ context }) => context.spanId)).size, 4);
  trace.settled("durable", "region");
  assert.equal(named("highwater durable").length, 1, "reported once");
});

test("durable before the answer: all of it leaves together", () => {
  const { trace, commit, answer, named } = makeTrace("01");
  commit();
  trace.settled("durable", "disk");
  assert.equal(named("highwater durable").length, 0);
  answer();
  assert.equal(named("highwater durable").length, 1);
});

test("a safe transaction is reported at the level for which it waits", () => {
  const { trace, commit, answer, named } = makeTrace("01", "global");
  commit();
  trace.settled("durable", "region");
  trace.settled("durable", "global");
  answer();
  assert.deepEqual(
    named("highwater durable").map(({ attributes }) => attributes["highwater.level"]),
    ["global"],
  );
});

test("not sampled and without an error: nothing is exported", () => {
  const { trace, commit, answer, spans } = makeTrace("00");
  commit();
  answer();
  trace.settled("durable", "region");
  assert.deepEqual(spans, []);
});

test("not sampled and lost at a failover: its trace is exported, with the loss as an error", async () => {
  const { trace, commit, answer, named, spans } = makeTrace("00");
  commit();
  answer();
  const asked: unknown[] = [];
  await endCarriedTraces([trace], "region", {
    verdicts: {
      ask: (question) => {
        asked.push(question);
        return Promise.resolve("lost");
      },
    },
    tokens: TOKENS,
  });
  const [question] = asked as [{ token: string; level: string }];
  assert.deepEqual(decodeToken(question.token), {
    ...{ kind: "write", id: ID, attempt: EPOCH, parent: null },
    ...COMMITTED_AT,
  });
  const [durable] = named("highwater durable");
  assert.equal(durable?.error, "lost");
  assert.equal(durable.context.traceId, "0af7651916cd43dd8448eb211c80319c");
  const [own] = named("highwater transaction");
  assert.equal(
    own?.parentSpanId,
    "b7ad6b7169203331",
    "below the client's span: the server's own was not kept",
  );
  assert.equal(spans.length, 3);
});

test("what a tracker says is durable after a failover ends its span without an error", async () => {
  const { trace, commit, answer, named } = makeTrace("01");
  commit();
  answer();
  await endCarriedTraces([trace], "region", {
    verdicts: { ask: () => Promise.resolve("durable") },
    tokens: TOKENS,
  });
  assert.deepEqual(
    named("highwater durable").map(({ error }) => error),
    [null],
  );
});

test("lost while its safe client still waits: the request is kept as the error that it is", () => {
  const { trace, commit, answer, named } = makeTrace("00", "region");
  commit();
  trace.settled("lost", "region");
  answer();
  assert.equal(named("highwater durable")[0]?.error, "lost");
  assert.equal(named("POST /v1/transactions")[0]?.error, "transaction_lost");
});
