// Goal: one trace goes from an application through the edge and a gateway to PostgreSQL and on to the durability point. A commit that
// a failover loses ends its trace as an error although it was not sampled, and so does a read that waits for a commit in vain.
// Method: everything real: three regions, Envoy, the SDK with OpenTelemetry's own tracer, and a Jaeger from which the traces are read back.
import assert from "node:assert/strict";
import { type EventEmitter } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import * as api from "@opentelemetry/api";
import pg from "pg";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { whyNoEnvoy } from "@highwater/lab-tools/envoy";
import { DevJaeger, type JaegerSpan, whyNoJaeger } from "@highwater/lab-tools/jaeger";
import { System } from "@highwater/lab-system";
import { decodeToken, type Statement } from "@highwater/protocol";
import { Highwater, sql } from "@highwater/sdk";
import { tracing } from "@highwater/sdk/opentelemetry";
import { createTable, eventually, newId, put, starve } from "@highwater/lab-system/testing";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
const skip = whyNoJaeger();
const LIMIT_MS = 60_000;

let folder: string;
let jaeger: DevJaeger;
let system: System;

before(async () => {
  if (skip !== false) return;
  folder = await mkdtemp(join(tmpdir(), "highwater-traces-"));
  jaeger = await DevJaeger.start();
  system = await System.start({
    env: {
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${jaeger.otlpUrl}/v1/traces`,
      // What a client has sampled, what fails and what is lost, and nothing else.
      OTEL_TRACES_SAMPLER: "parentbased_always_off",
      OTEL_BSP_SCHEDULE_DELAY: "100",
    },
  });
  await createTable(system, EAST);
});

after(async () => {
  if (skip !== false) return;
  await system.close();
  await jaeger.close();
  await rm(folder, { recursive: true, force: true });
});

function application(): { provider: BasicTracerProvider; spans: InMemorySpanExporter } {
  const spans = new InMemorySpanExporter();
  const exporter = new OTLPTraceExporter({ url: `${jaeger.otlpUrl}/v1/traces` });
  const provider = new BasicTracerProvider({
    resource: resourceFromAttributes({ "service.name": "application" }),
    spanProcessors: [new SimpleSpanProcessor(spans), new SimpleSpanProcessor(exporter)],
  });
  return { provider, spans };
}

const named = (spans: readonly JaegerSpan[], service: string, name: string): JaegerSpan => {
  const found = spans.find((span) => span.service === service && span.operationName === name);
  return found ?? assert.fail(`no span ${name} of ${service}`);
};
const parentOf = (span: JaegerSpan): string | undefined =>
  span.references.find(({ refType }) => refType === "CHILD_OF")?.spanID;
const linksOf = ({ references }: JaegerSpan): string[] =>
  references.filter(({ refType }) => refType === "FOLLOWS_FROM").map(({ spanID }) => spanID);

const CLIENT_SPAN = "00f067aa0ba902b7";

/** A transaction of a client that has a trace, and does not want it kept. */
async function postUnsampled(
  region: string,
  traceId: string,
  statement: Statement,
): Promise<{ readonly status: number; readonly body: { id: string; state?: string; detail?: string } }> {
  const response = await fetch(`${system.gateway(region).url}/v1/transactions`, {
    method: "POST",
    headers: { "content-type": "application/json", traceparent: `00-${traceId}-${CLIENT_SPAN}-00` },
    body: JSON.stringify({ id: newId(), statements: [statement] }),
    signal: AbortSignal.timeout(LIMIT_MS),
  });
  return { status: response.status, body: (await response.json()) as { id: string } };
}

test(
  "one whole trace: application, edge, gateway, PostgreSQL, durability point",
  { skip: skip === false ? whyNoEnvoy() : skip },
  async () => {
    const edge = await system.startEdge(EAST, {
      traces: { address: "127.0.0.1", port: jaeger.otlpPort },
    });
    const { provider, spans: own } = application();
    api.propagation.setGlobalPropagator(new W3CTraceContextPropagator());
    const hw = new Highwater({
      url: edge.url,
      observe: tracing({ api, tracer: provider.getTracer("test") }),
    });
    try {
      const done = await hw.transaction([sql`INSERT INTO kv (key, value) VALUES (${"traced"}, 1)`]);
      await done.durable({ level: "region", timeoutMs: LIMIT_MS });
      const traceId = own
        .getFinishedSpans()
        .find(({ name }) => name === "highwater commit")
        ?.spanContext().traceId;
      assert.ok(traceId !== undefined);
      const spans = await jaeger.eventually(traceId, (found) => {
        const names = found.map(({ service, operationName }) => `${service} ${operationName}`);
        return (
          [
            "application highwater commit",
            "txn-gateway POST /v1/transactions",
            "txn-gateway highwater transaction",
            "txn-gateway COMMIT",
            "txn-gateway highwater durable",
          ].every((name) => names.includes(name)) && found.some(({ service }) => service === "highwater-edge")
        );
      });
      const commit = named(spans, "application", "highwater commit");
      const edgeSpan = spans.find(({ service }) => service === "highwater-edge") ?? assert.fail();
      const server = named(spans, "txn-gateway", "POST /v1/transactions");
      const transaction = named(spans, "txn-gateway", "highwater transaction");
      const database = named(spans, "txn-gateway", "COMMIT");
      const durable = named(spans, "txn-gateway", "highwater durable");
      assert.equal(parentOf(edgeSpan), commit.spanID);
      assert.equal(parentOf(server), edgeSpan.spanID);
      assert.equal(parentOf(transaction), server.spanID);
      assert.equal(parentOf(database), transaction.spanID);
      assert.deepEqual(linksOf(durable), [transaction.spanID]);
      const endOf = ({ startTime, duration }: JaegerSpan): number => startTime + duration;
      assert.ok(endOf(durable) >= endOf(database), "it ends when the mark has passed");
      assert.equal(durable.tags["highwater.verdict"], "durable");
      assert.equal(durable.tags["highwater.transaction.id"], done.id);
      assert.equal(server.tags["http.response.status_code"], 200);
      assert.equal(server.tags["http.route"], "/v1/transactions");
      assert.equal(server.tags["span.kind"], "server");
      assert.equal(database.tags["db.system.name"], "postgresql");
      assert.equal(database.tags["span.kind"], "client");
      assert.ok(!spans.some(({ tags }) => tags["error"] === true));
    } finally {
      await hw.close();
      await provider.shutdown();
    }
  },
);

test("without sampling, an error is traced and a success is not", { skip }, async () => {
  const [good, bad] = ["4bf92f3577b34da6a3ce929d0e0e4736", "5bf92f3577b34da6a3ce929d0e0e4736"] as const;
  assert.equal((await postUnsampled(EAST, good, put("untraced"))).status, 200);
  const refused = await postUnsampled(EAST, bad, { sql: "INSERT INTO nowhere VALUES (1)" });
  assert.ok(refused.status >= 400, refused.body.detail);
  const spans = await jaeger.eventually(bad, (found) =>
    ["POST /v1/transactions", "COMMIT"].every((name) =>
      found.some(({ operationName }) => operationName === name),
    ),
  );
  const server = named(spans, "txn-gateway", "POST /v1/transactions");
  assert.equal(server.tags["error"], true);
  assert.ok(server.references.every(({ spanID }) => spanID === CLIENT_SPAN));
  const database = named(spans, "txn-gateway", "COMMIT");
  assert.equal(database.tags["db.response.status_code"], "42P01");
  assert.deepEqual(await jaeger.trace(good), []);
});

test(
  "a read that waits in vain for a commit is traced, and a read that has it is not",
  { skip },
  async () => {
    const writer = new pg.Client(system.pgUrl(EAST));
    const reader = new pg.Client(system.pgReadUrl(WEST));
    let token = "";
    const { connection } = writer as unknown as { readonly connection: EventEmitter };
    connection.on("parameterStatus", (said: { parameterName: string; parameterValue: string }) => {
      if (said.parameterName === "highwater.token") token = said.parameterValue;
    });
    await Promise.all([writer.connect(), reader.connect()]);
    const resume = await starve(system, WEST);
    try {
      await writer.query("SET highwater.ack = 'commit'");
      await writer.query("INSERT INTO kv (key, value) VALUES ('awaited', 1)");
      await reader.query("SET highwater.max_wait = '200ms'");
      await reader.query(`SET highwater.after = '${token}'`);
      await assert.rejects(reader.query("SELECT 1"), { code: "57014" });
      await resume();
      await reader.query("RESET highwater.max_wait");
      assert.equal((await reader.query("SELECT FROM kv WHERE key = 'awaited'")).rowCount, 1);
    } finally {
      await Promise.all([writer.end(), reader.end()]);
      await resume();
    }
    const reads = { service: "txn-gateway", operation: "postgresql read" };
    const spans = await jaeger.eventually(reads, (found) =>
      found.some(({ operationName }) => operationName === "highwater after"),
    );
    const own = named(spans, "txn-gateway", "postgresql read");
    const after = named(spans, "txn-gateway", "highwater after");
    assert.equal(spans.length, 2);
    assert.equal(parentOf(after), own.spanID);
    assert.deepEqual([own.tags["error"], own.tags["highwater.node"]], [true, WEST]);
    assert.equal(after.tags["error.type"], "57014");
    assert.equal(after.tags["highwater.transaction.id"], decodeToken(token)?.id);
    assert.ok(after.duration > 100_000, "it shows how long the read has waited");
  },
);

test(
  "a commit that a failover loses ends its trace as an error, although it was not sampled",
  { skip },
  async () => {
    const { cluster } = system;
    const resume = new Map<string, () => Promise<void>>();
    // The one that is promoted last: the other must not be ahead of it.
    for (const replica of [EUROPE, WEST]) resume.set(replica, await starve(system, replica));
    const traceId = "6bf92f3577b34da6a3ce929d0e0e4736";
    const answer = await postUnsampled(EUROPE, traceId, put("doomed"));
    assert.equal(answer.body.state, "committed");
    await system.killRegion(EAST);
    await cluster.promote(WEST);
    await resume.get(EUROPE)?.();
    const spans = await jaeger.eventually(traceId, (found) =>
      ["highwater durable", "highwater transaction"].every((name) =>
        found.some(({ operationName }) => operationName === name),
      ),
    );
    const durable = named(spans, "txn-gateway", "highwater durable");
    assert.equal(durable.tags["highwater.verdict"], "lost");
    assert.equal(durable.tags["error"], true);
    assert.equal(durable.tags["highwater.transaction.id"], answer.body.id);
    assert.deepEqual(linksOf(durable), [named(spans, "txn-gateway", "highwater transaction").spanID]);
    // The tracker says the same in its log.
    await eventually("a tracker has logged the loss", async () => {
      const log = await readFile(system.tracker(WEST).logFile, "utf8");
      return log.includes("transaction_lost") && log.includes(answer.body.id);
    });
  },
);
