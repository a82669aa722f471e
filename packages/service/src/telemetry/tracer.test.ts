// Goal: failed requests are traced whatever the sampling, sampled ones are traced whole, and all
// others leave nothing.
import assert from "node:assert/strict";
import { test } from "node:test";
import { HighwaterError } from "@highwater/protocol";
import { type FinishedSpan, noteFailure, traceFields, Tracer } from "./index.ts";
import { formatTraceparent, parseTraceparent, randomHex } from "./trace-context.ts";

const PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED = PARENT.replace(/01$/, "00");

function makeTracer(sampling = { parent: true, ratio: 0 }, random = Math.random) {
  const spans: FinishedSpan[] = [];
  let nowMs = 1_000;
  const clock = { monotonicMs: () => nowMs };
  const tracer = new Tracer({ sampling, clock, random, onSpan: (span) => spans.push(span) });
  return {
    tracer,
    spans,
    pass: (ms: number) => {
      nowMs += ms;
    },
  };
}

const child = (name: string) => ({
  spans: (): FinishedSpan[] => [
    {
      ...{ name, kind: "internal", context: { traceId: "t", spanId: "s", isSampled: true } },
      ...{ parentSpanId: undefined, startMs: 0, endMs: 1, attributes: {}, error: null },
    },
  ],
});

test("a sampled parent's trace goes on, with what its parts have to say", () => {
  const { tracer, spans, pass } = makeTracer();
  const trace = tracer.request(PARENT);
  trace.add(child("inside"));
  pass(25);
  trace.end("POST /v1/transactions", () => ({ "http.response.status_code": 200 }));
  const [server, inside] = spans;
  assert.equal(spans.length, 2);
  assert.equal(server?.context.traceId, "0af7651916cd43dd8448eb211c80319c");
  assert.equal(server.parentSpanId, "b7ad6b7169203331");
  assert.match(server.context.spanId, /^[0-9a-f]{16}$/);
  assert.equal(server.endMs - server.startMs, 25);
  assert.equal(server.error, null);
  assert.equal(inside?.name, "inside");
});

test("an unsampled trace leaves nothing, and not even its attributes are computed", () => {
  const { tracer, spans } = makeTracer();
  const trace = tracer.request(UNSAMPLED);
  trace.add({ spans: () => assert.fail("no one asked") });
  trace.end("GET", () => assert.fail("no one asked"));
  assert.deepEqual(spans, []);
});

test("an error is kept as an error in an unsampled trace", () => {
  const { tracer, spans } = makeTracer();
  const trace = tracer.request(UNSAMPLED);
  noteFailure(trace, new HighwaterError("commit_unconfirmed"));
  trace.end("POST", () => ({}));
  assert.equal(spans[0]?.error, "commit_unconfirmed");
  assert.equal(spans[0]?.context.traceId, "0af7651916cd43dd8448eb211c80319c");
});

test("a conflict and a refusal of strangers are no reason to keep a trace", () => {
  const { tracer, spans } = makeTracer();
  for (const code of ["serialization_failure", "unauthenticated", "rate_limited", "not_found"] as const) {
    const trace = tracer.request(undefined);
    noteFailure(trace, new HighwaterError(code));
    trace.end("POST", () => ({}));
  }
  assert.deepEqual(spans, []);
});

test("a flood of errors keeps a hundred traces a second", () => {
  const { tracer, spans, pass } = makeTracer();
  const flood = (): void => {
    for (let n = 0; n < 1_000; n++) {
      const trace = tracer.request(undefined);
      trace.fail("internal");
      trace.end("POST", () => ({}));
    }
  };
  flood();
  assert.equal(spans.length, 100);
  pass(1_000);
  flood();
  assert.equal(spans.length, 200);
});

test("without a parent the ratio decides; without `parent` it always does", () => {
  let next = 0;
  const values = [0.04, 0.05, 0.9];
  const random = (): number => values[next++ % values.length] ?? 0;
  const decided = (sampling: { parent: boolean; ratio: number }, header?: string): boolean[] =>
    values.map(() => makeTracer(sampling, random).tracer.request(header).isSampled);
  assert.deepEqual(decided({ parent: true, ratio: 0.05 }), [true, false, false]);
  assert.deepEqual(decided({ parent: true, ratio: 0.05 }, PARENT), [true, true, true]);
  assert.deepEqual(decided({ parent: false, ratio: 0.05 }, PARENT), [true, false, false]);
});

test("a traceparent is read as the standard says, and what is none begins a new trace", () => {
  const context = parseTraceparent(PARENT);
  assert.ok(context !== undefined);
  assert.equal(formatTraceparent(context), PARENT);
  assert.ok(parseTraceparent("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-comes-later"));
  for (const wrong of [
    undefined,
    "",
    "ff" + PARENT.slice(2),
    PARENT.toUpperCase(),
    PARENT.replace("0af7651916cd43dd8448eb211c80319c", "0".repeat(32)),
    PARENT.replace("b7ad6b7169203331", "0".repeat(16)),
    PARENT.slice(0, -1),
    `${PARENT}1`,
  ])
    assert.equal(parseTraceparent(wrong), undefined, String(wrong));
  const trace = makeTracer().tracer.request("nonsense");
  assert.match(trace.context.traceId, /^[0-9a-f]{32}$/);
  assert.equal(trace.parent, undefined);
});

test("no id is all zeros, and the log has the same ids as the trace", () => {
  assert.equal(
    randomHex(16, () => 0),
    "0000000000000001",
  );
  const trace = makeTracer().tracer.request(PARENT);
  assert.deepEqual(traceFields(trace), {
    trace_id: "0af7651916cd43dd8448eb211c80319c",
    span_id: trace.context.spanId,
    trace_flags: "01",
  });
  assert.deepEqual(traceFields(undefined), {});
});
