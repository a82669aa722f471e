// What a client reports about itself: the events as they come, logs and the debug mode made of them, and spans of the real
// OpenTelemetry.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { type FakeServer } from "@highwater/conformance/fake";
import * as api from "@opentelemetry/api";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { type Log, logEvents, observers, printEvents } from "../src/debug.ts";
import { type ObservedEvent, type Observer, sql } from "../src/index.ts";
import { tracing } from "../src/opentelemetry.ts";
import { client, FAILOVER, service, streaming } from "./client-support.ts";

const statement = sql`SELECT ${"a secret"}`;

/** The first transaction meets an overloaded service and becomes durable; the last is lost with its epoch. */
async function live(context: TestContext, observe: Observer): Promise<FakeServer> {
  const fake = await service(context, {
    transactions: [{ problem: "overloaded" }, { ok: { offset: 10 } }, { ok: { offset: 60 } }],
    verdicts: ({ body }) => (body["level"] === "global" ? "hang" : { ok: { each: "lost" } }),
  });
  const hw = client(context, [fake], { observe, apiKey: "hwk_also_secret" });
  const kept = await hw.transaction(statement);
  const wait = kept.durable();
  await streaming(fake);
  fake.mark({ epoch: 1, levels: { region: 10 } });
  await wait;
  const tx = await hw.begin();
  await tx.execute([statement, statement]);
  await tx.query(statement);
  await tx.commit();
  const gone = await hw.transaction(statement);
  await assert.rejects(gone.durable({ timeoutMs: 1, level: "global" }), { code: "durability_timeout" });
  const loss = assert.rejects(gone.durable(), { code: "transaction_lost" });
  await streaming(fake);
  fake.epochs(FAILOVER);
  await loss;
  await hw.close();
  return fake;
}

test("every event of a client's life, in order, with its transaction", async (context) => {
  const received: (ObservedEvent | string)[] = [];
  await live(context, (event) => {
    received.push(event);
    return (end) => received.push(`end of ${event.type}: ${end.state ?? String(end.error)}`);
  });
  const names = received.map((each) => (typeof each === "string" ? each : each.type));
  assert.deepEqual(
    names.filter((name) => !name.startsWith("stream")),
    [
      ...["commit", "retry", "end of commit: committed", "durable"],
      ...["begin", "end of begin: active", "statements", "end of statements: active"],
      ...["commit", "end of commit: committed", "commit", "end of commit: committed", "timeout", "lost"],
    ],
  );
  assert.ok(names.includes("stream_open") && names.includes("stream_closed"));
  const events = received.filter((each) => typeof each !== "string");
  const about = (type: string): ObservedEvent | undefined => events.find((each) => each.type === type);
  assert.deepEqual([about("begin")?.statements, about("statements")?.statements], [2, 1]);
  assert.equal(about("retry")?.id, about("commit")?.id);
  assert.deepEqual(
    [about("durable")?.id, about("durable")?.verdict?.rule],
    [about("commit")?.id, "client:mark"],
  );
  assert.equal(about("lost")?.verdict?.verdict, "lost");
});

test("an observer that throws, at the beginning or the end of a call, disturbs no call", async (context) => {
  const printed: unknown[] = [];
  context.mock.method(console, "error", (_message: string, error: unknown) => printed.push(error));
  for (const observe of [
    () => {
      throw new Error("at the beginning");
    },
    () => () => {
      throw new Error("at the end");
    },
  ] satisfies Observer[]) {
    const fake = await service(context);
    const hw = client(context, [fake], { observe });
    assert.equal((await hw.transaction(statement)).state, "committed");
    assert.equal(await hw.transact(async (tx) => (await tx.query(statement)).command), "SELECT");
    const refusing = await service(context, { transactions: [{ problem: "constraint_violation" }] });
    const refused = client(context, [refusing], { observe }).transaction(statement);
    await assert.rejects(refused, { code: "constraint_violation" });
  }
  const texts = new Set(printed.map((error) => (error as Error).message));
  assert.deepEqual([...texts], ["at the beginning", "at the end"]);
});

test("logs and the debug mode: a line for each event, and no secrets", async (context) => {
  const lines: string[] = [];
  const logged: [string, string, Record<string, unknown>][] = [];
  const write =
    (level: string) =>
    (message: string, fields: Record<string, unknown>): void => {
      logged.push([level, message, fields]);
    };
  const log: Log = {
    ...{ debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") },
  };
  await live(
    context,
    observers(
      printEvents((line) => lines.push(line)),
      logEvents(log),
    ),
  );
  const [first = ""] = lines;
  assert.match(
    first,
    /^highwater +\d+\.\d ms {2}retry +id=\S+ url=\S+ attempt=1 error=UnavailableError code=overloaded/,
  );
  assert.ok(lines.some((line) => /commit +id=\S+ .*state=committed in \d+\.\d ms$/.test(line)));
  assert.equal(logged.length, lines.length);
  const levels = new Map(logged.map(([level, , fields]) => [fields["event"], level]));
  assert.deepEqual(
    ["commit", "retry", "timeout", "lost"].map((type) => levels.get(type)),
    ["debug", "info", "warn", "error"],
  );
  assert.doesNotMatch(JSON.stringify([lines, logged]), /secret/);
});

test("spans: calls under the active one, a wait beside its commit and linked to it; and headers go out", async (context) => {
  const exporter = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const tracer = provider.getTracer("test");
  const traceparent = (of: api.SpanContext | undefined): string =>
    `00-${of?.traceId ?? ""}-${of?.spanId ?? ""}-01`;
  api.propagation.setGlobalPropagator({
    inject: (of, carrier, setter) => {
      setter.set(carrier, "traceparent", traceparent(api.trace.getSpanContext(of)));
    },
    extract: (of) => of,
    fields: () => ["traceparent"],
  });
  context.after(() => {
    api.propagation.disable();
  });
  const root = tracer.startSpan("request");
  const active = api.trace.setSpan(api.ROOT_CONTEXT, root);
  const fake = await live(context, tracing({ api: { ...api, context: { active: () => active } }, tracer }));
  const spans = exporter.getFinishedSpans();
  assert.deepEqual(
    spans.map(({ name, attributes }) => [
      name,
      attributes["highwater.outcome"] ?? attributes["highwater.state"],
    ]),
    [
      ["highwater commit", "committed"],
      ["highwater durable", "durable"],
      ["highwater begin", "active"],
      ["highwater statements", "active"],
      ["highwater commit", "committed"],
      ["highwater commit", "committed"],
      ["highwater durable", "timeout"],
      ["highwater durable", "lost"],
    ],
  );
  const [commit, durable, begin] = spans;
  for (const { parentSpanContext } of spans)
    assert.equal(parentSpanContext?.spanId, root.spanContext().spanId);
  assert.equal(durable?.links[0]?.context.spanId, commit?.spanContext().spanId);
  assert.deepEqual(
    commit?.events.map(({ name }) => name),
    ["retry"],
  );
  assert.equal(commit?.kind, api.SpanKind.CLIENT);
  assert.equal(spans.at(-1)?.status.code, api.SpanStatusCode.ERROR);
  const sent = traceparent(begin?.spanContext());
  assert.ok(fake.calls.some(({ headers }) => headers["traceparent"] === sent));
});

test("the span of a refused call has the error's code, and none of the values that its message quotes", async (context) => {
  const exporter = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const detail = 'invalid input syntax for type integer: "a secret"';
  const refusal = { problem: "statement_failed", detail, sqlstate: "22P02" };
  const fake = await service(context, { transactions: [refusal] });
  const hw = client(context, [fake], { observe: tracing({ api, tracer: provider.getTracer("test") }) });
  await assert.rejects(hw.transaction(statement), { message: detail });
  const [span] = exporter.getFinishedSpans();
  assert.deepEqual(span?.status, { code: api.SpanStatusCode.ERROR, message: "statement_failed" });
  assert.equal(span.attributes["db.response.status_code"], "22P02");
  assert.doesNotMatch(JSON.stringify([span.attributes, span.status, span.events]), /secret/);
});
