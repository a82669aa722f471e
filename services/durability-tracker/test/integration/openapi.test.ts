// Goal: the OpenAPI document describes the tracker that runs. Method: its calls are compared with the routes of the application,
// and every example is sent to a tracker that authenticates, whose answer must be one that the document has.
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { eventually } from "@highwater/lab-tools/process";
import { System } from "@highwater/lab-system";
import { makeUuidV7, type TransactionResponse } from "@highwater/protocol";
import { realClock } from "@highwater/runtime";
import {
  type Example,
  internalCredential,
  type Json,
  jsonLog,
  type Operation,
  routesOf,
  SCOPES,
} from "@highwater/service";
import { TEST_DEPLOYMENT } from "@highwater/service/testing";
import { assertErrorReference } from "@highwater/service/testing/error-reference";
import { Compile } from "typebox/schema";
import { buildTracker, loadConfig, makeDeps, type Tracker } from "../../src/app.ts";
import { OPERATIONS } from "../../src/openapi/document.ts";
import { SAMPLE } from "../../src/openapi/sample.ts";

const FILE = fileURLToPath(new URL("../../../../docs/reference/tracker-openapi.json", import.meta.url));
const REGION = "us-east";
const SECRET = "a secret of this test's cluster";
/** No process listens there, which is as good as a receiver that does not answer. */
const HOOK = "http://127.0.0.1:9/highwater";

interface Documented {
  readonly requestBody?: { readonly content: Readonly<Record<string, { schema: Json; examples?: Json }>> };
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { schema: Json; example?: unknown }>> }>
  >;
}

const document = JSON.parse(await readFile(FILE, "utf8")) as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Documented>>>>;
  readonly components: Json;
};

function documented({ path, method }: Operation): Documented {
  const operation = document.paths[path]?.[method];
  assert.ok(operation !== undefined, `${method} ${path}`);
  return operation;
}

function assertFits(schema: Json, value: unknown, what: string): void {
  const validator = Compile({ ...schema, components: document.components });
  if (!validator.Check(value))
    assert.fail(
      `${what}: ${JSON.stringify(validator.Errors(value)).slice(0, 1_000)} in ${JSON.stringify(value)}`,
    );
}

/** It authenticates, has not started, and its database cannot be reached. */
async function withTracker(use: (tracker: Tracker, address: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "highwater-tracker-"));
  const node = { id: "a", region: "r", zone: "z", url: "postgresql://app@127.0.0.1:1/app" };
  const topology = { nodes: [node], levels: { disk: { primary: true } } };
  const loaded = loadConfig(
    {
      ...{ ...TEST_DEPLOYMENT, TRACKER_AUTH: "keys", HIGHWATER_INTERNAL_SECRET: SECRET },
      ...{ TRACKER_NAME: "t", TRACKER_REGION: "r", TRACKER_LEDGER: join(folder, "ledger.sqlite") },
      HIGHWATER_TOPOLOGY: JSON.stringify(topology),
    },
    () => "",
  );
  assert.ok(loaded.ok);
  const log = jsonLog("durability-tracker", realClock, () => undefined);
  const deps = makeDeps(loaded.config, log, {
    onFailure: (_, cause) => {
      throw cause;
    },
  });
  const tracker = buildTracker(loaded.config, deps);
  try {
    await use(tracker, await tracker.app.listen({ port: 0, host: "127.0.0.1" }));
  } finally {
    await tracker.close();
    await rm(folder, { recursive: true });
  }
}

describe("errors", () => {
  it("are explained at the path in `type`, all of them, to everyone, as the reference does", () =>
    withTracker((_tracker, address) => assertErrorReference(address)));
});

describe("the document", () => {
  it("has the routes of the application, all of them and no others", () =>
    withTracker(async ({ app }) => {
      const routes = routesOf(app)
        // Every GET has its HEAD, which needs no words of its own.
        .filter(({ method }) => method !== "HEAD")
        // A page for people, and no part of the API.
        .filter(({ path }) => !path.startsWith("/console"))
        .map(({ method, path }) => `${method} ${path.replace(/:([a-z]+)/g, "{$1}")}`);
      const described = Object.entries(document.paths).flatMap(([path, methods]) =>
        Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
      );
      assert.ok(described.length > 0);
      assert.deepEqual(described.sort(), routes.sort());
    }));

  it("has for every call an example, and its own examples fit its schemas", () => {
    for (const operation of OPERATIONS) {
      assert.ok(operation.examples.length > 0, operation.id);
      const { requestBody, responses } = documented(operation);
      for (const { schema, examples = {} } of Object.values(requestBody?.content ?? {}))
        for (const [name, example] of Object.entries(examples))
          assertFits(schema, (example as { value: unknown }).value, `${operation.id} ${name}`);
      for (const [status, { content = {} }] of Object.entries(responses))
        for (const { schema, example } of Object.values(content))
          if (example !== undefined) assertFits(schema, example, `${operation.id} ${status}`);
    }
  });
});

describe("every example of the document", () => {
  let system: System;
  let url: string;
  let key: string;
  let committed: TransactionResponse;

  before(async () => {
    system = await System.start({
      cluster: { nodes: [{ id: "a", region: REGION }] },
      levels: { disk: { primary: true }, region: { regions: "all" } },
      env: {
        ...{ GATEWAY_AUTH: "keys", TRACKER_AUTH: "keys", HIGHWATER_INTERNAL_SECRET: SECRET },
        // An answer that takes longer than usual is no other answer.
        ...{ TRACKER_WEBHOOK_ALLOW: "127.0.0.1", TRACKER_CALL_TIMEOUT_MS: "30000" },
      },
    });
    key = await system.createKey({ name: "openapi", scopes: [...SCOPES] });
    url = system.tracker(REGION).url;
    // A tracker opens the queue of webhooks a little after it has begun to serve.
    await eventually("the queue is open", async () => {
      const answer = await fetch(`${url}/v1/webhooks`, { headers: { authorization: `Bearer ${key}` } });
      await answer.arrayBuffer();
      return answer.ok;
    });
    const body = JSON.stringify({ id: newId(), statements: [{ sql: "CREATE TABLE t (id int)" }] });
    committed = await eventually("it commits", async () => {
      const response = await fetch(`${system.gateway(REGION).url}/v1/transactions`, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
        body,
      });
      assert.equal(response.status, 200, await response.clone().text());
      return (await response.json()) as TransactionResponse;
    });
  });

  after(() => system.close());

  const newId = (): string => makeUuidV7(Date.now(), crypto.getRandomValues(new Uint8Array(10)));

  async function make(path: string, body?: unknown): Promise<string> {
    const response = await fetch(`${url}${path}`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${key}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const { id } = (await response.json()) as { id?: string };
    assert.ok(id !== undefined, `${path} ${String(response.status)}`);
    return id;
  }

  /** What stands for the document's own values. */
  async function prepare({ given }: Example): Promise<Readonly<Record<string, string>>> {
    const { token, position } = committed;
    const values = { [SAMPLE.id]: newId(), [SAMPLE.epoch]: position.epoch, [SAMPLE.url]: HOOK };
    switch (given) {
      case "nothing":
      case "service":
        return values;
      case "committed":
        return { ...values, [SAMPLE.token]: token };
      case "webhook":
      case "delivery": {
        const webhook = await make("/v1/webhooks", { url: HOOK, events: ["transaction.lost"] });
        if (given === "webhook") return { ...values, [SAMPLE.webhook]: webhook };
        const delivery = await make(`/v1/webhooks/${webhook}/test`);
        return { ...values, [SAMPLE.webhook]: webhook, [SAMPLE.delivery]: delivery };
      }
      default:
        throw new Error(`nobody knows how to make ${given}`);
    }
  }

  for (const operation of OPERATIONS)
    for (const example of operation.examples)
      it(`${operation.id} ${example.name}`, async () => {
        const values = Object.entries(await prepare(example));
        const filled = (text: string): string =>
          values.reduce((all, [sample, value]) => all.replaceAll(sample, value), text);
        const query = new URLSearchParams(example.query).toString();
        const path = operation.path
          .replace("{id}", operation.tag === "lost" ? SAMPLE.id : SAMPLE.webhook)
          .replace("{delivery}", SAMPLE.delivery)
          .replace("{code}", "internal");
        const credential = example.given === "service" ? internalCredential(SECRET) : key;
        const response = await fetch(`${url}${filled(path)}${query === "" ? "" : `?${query}`}`, {
          method: operation.method.toUpperCase(),
          headers: {
            ...(operation.security.length === 0 ? {} : { authorization: `Bearer ${credential}` }),
            ...(example.body === undefined ? {} : { "content-type": "application/json" }),
          },
          ...(example.body === undefined ? {} : { body: filled(JSON.stringify(example.body)) }),
        });
        await assertDocumented(operation, example, response);
      });

  it("without a credential, every call that needs one says so in a way that the document has", async () => {
    for (const operation of OPERATIONS.filter(({ security }) => security.length > 0)) {
      const path = operation.path.replace("{id}", "x").replace("{delivery}", "y");
      const method = operation.method.toUpperCase();
      const response = await fetch(`${url}${path}`, { method });
      const [example] = operation.examples;
      assert.ok(example !== undefined);
      await assertDocumented(operation, { ...example, status: 401 }, response);
    }
  });

  async function assertDocumented(operation: Operation, example: Example, response: Response): Promise<void> {
    const { status, headers } = response;
    const what = `${operation.id} ${example.name}`;
    const type = (headers.get("content-type") ?? "").split(";", 1)[0] ?? "";
    if (type === "text/event-stream") await response.body?.cancel();
    const text = type === "text/event-stream" ? "" : await response.text();
    assert.equal(status, example.status, `${what}: ${text}`);
    const content = documented(operation).responses[String(status)]?.content;
    if (status === 204) {
      assert.equal(content, undefined);
      return;
    }
    const media = content?.[type];
    assert.ok(media !== undefined, `${what}: ${String(status)} ${type} is not documented`);
    assertFits(media.schema, type.endsWith("json") ? JSON.parse(text) : text, what);
  }
});
