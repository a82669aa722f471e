// Goal: a real Jaeger returns what the services send by OTLP: ids, times, kinds, errors, links and
// attributes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { realClock } from "@highwater/runtime";
import { startTelemetry } from "@highwater/service";
import { DevJaeger, findJaeger, JAEGER_VARIABLE, whyNoJaeger } from "../src/jaeger/index.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";

test("spans come back from Jaeger as they were sent", { skip: whyNoJaeger() }, async () => {
  await using jaeger = await DevJaeger.start();
  const variable = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
  process.env[variable] = `${jaeger.otlpUrl}/v1/traces`;
  const telemetry = await startTelemetry(
    {
      ...{ traces: true, metrics: false, logs: false, metricsEveryMs: 60_000 },
      sampling: { parent: true, ratio: 0 },
    },
    {
      ...{ service: "txn-gateway", identity: { name: "g1", region: "east" } },
      ...{ clock: realClock, random: Math.random },
    },
  );
  const before = Date.now();
  const trace = telemetry.tracer?.request(`00-${TRACE}-b7ad6b7169203331-00`) ?? assert.fail("no tracer");
  const [inner, other] = [trace.childContext(), trace.childContext()];
  trace.add({
    spans: () => [
      {
        ...{
          name: "highwater durable",
          kind: "internal",
          context: inner,
          parentSpanId: trace.context.spanId,
        },
        ...{ startMs: trace.startMs, endMs: trace.startMs + 12.5, error: "lost", links: [other] },
        attributes: { "highwater.verdict": "lost", "highwater.left.out": undefined },
      },
    ],
  });
  trace.fail("transaction_lost");
  trace.end("POST /v1/transactions", () => ({ "http.response.status_code": 409 }));
  await telemetry.close();
  Reflect.deleteProperty(process.env, variable);

  const spans = await jaeger.eventually(TRACE, (found) => found.length === 2);
  const server = spans.find(({ operationName }) => operationName === "POST /v1/transactions");
  const durable = spans.find(({ operationName }) => operationName === "highwater durable");
  assert.ok(server && durable);
  assert.equal(server.service, "txn-gateway");
  assert.equal(server.spanID, trace.context.spanId);
  assert.equal(server.tags["span.kind"], "server");
  assert.equal(server.tags["error"], true);
  assert.equal(server.tags["http.response.status_code"], 409);
  assert.ok(Math.abs(server.startTime / 1_000 - before) < 10_000, "by the wall clock");
  assert.equal(durable.duration, 12_500);
  assert.equal(durable.tags["otel.status_description"], "lost");
  assert.ok(!("highwater.left.out" in durable.tags));
  assert.deepEqual(durable.references.map(({ refType, spanID }) => [refType, spanID]).sort(), [
    ["CHILD_OF", trace.context.spanId],
    ["FOLLOWS_FROM", other.spanId],
  ]);
});

test("if there is no Jaeger, the message says how to get one", () => {
  const nowhere = { env: { PATH: "/bin" }, isProgram: () => false };
  assert.match(String(whyNoJaeger(nowhere)), /make jaeger/);
  assert.match(
    String(whyNoJaeger({ ...nowhere, env: { [JAEGER_VARIABLE]: "/x" } })),
    /HIGHWATER_JAEGER names no/,
  );
  const there = { env: { PATH: "/opt/bin" }, isProgram: (path: string) => path.startsWith("/opt/") };
  assert.equal(findJaeger(there), "/opt/bin/jaeger-all-in-one");
});
