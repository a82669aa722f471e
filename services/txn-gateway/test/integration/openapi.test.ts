// Goal: the OpenAPI document describes the gateway that runs. Method: its calls are compared with the routes of the application,
// and every example is sent to a gateway over two regions, whose answer must be one that the document has.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { System } from "@highwater/lab-system";
import { realClock } from "@highwater/runtime";
import { type Example, jsonLog, type Operation, routesOf } from "@highwater/service";
import { TEST_DEPLOYMENT } from "@highwater/service/testing";
import { assertErrorReference } from "@highwater/service/testing/error-reference";
import { buildApp, loadConfig, makeDeps } from "../../src/app.ts";
import { OPERATIONS } from "../../src/openapi/document.ts";
import { SAMPLE, UPDATE } from "../../src/openapi/sample.ts";
import { newId } from "../support/fakes.ts";
import { assertDocumented, assertFits, type DocumentedOperation, readDocument } from "../support/openapi.ts";

const document = readDocument();

function documented({ path, method }: Operation): DocumentedOperation {
  const operation = document.paths[path]?.[method];
  assert.ok(operation !== undefined, `${method} ${path}`);
  return operation;
}

/** It authenticates, and its database cannot be reached. */
async function listen(): Promise<{ app: ReturnType<typeof buildApp>; address: string }> {
  const node = { id: "a", region: "r", zone: "z", url: "postgresql://app@127.0.0.1:1/app" };
  const topology = { nodes: [node], levels: { disk: { primary: true } } };
  const env = {
    ...{ ...TEST_DEPLOYMENT, GATEWAY_AUTH: "keys" },
    ...{ GATEWAY_NAME: "g", GATEWAY_REGION: "r", HIGHWATER_TOPOLOGY: JSON.stringify(topology) },
  };
  const loaded = loadConfig(env, () => "");
  assert.ok(loaded.ok);
  const app = buildApp(
    loaded.config,
    makeDeps(loaded.config, { log: jsonLog("txn-gateway", realClock, () => undefined) }),
  );
  return { app, address: await app.listen({ port: 0, host: "127.0.0.1" }) };
}

describe("errors", () => {
  it("are explained at the path in `type`, all of them, to everyone, as the reference does", async () => {
    const { app, address } = await listen();
    try {
      await assertErrorReference(address);
    } finally {
      await app.close();
    }
  });
});

describe("the document", () => {
  it("has the routes of the application, all of them and no others", async () => {
    const { app } = await listen();
    const routes = routesOf(app)
      // Every GET has its HEAD, which needs no words of its own.
      .filter(({ method }) => method !== "HEAD")
      .map(({ method, path }) => `${method} ${path.replace(/:([a-z]+)/g, "{$1}")}`);
    await app.close();
    const described = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    assert.ok(described.length > 0);
    assert.deepEqual(described.sort(), routes.sort());
  });

  it("has for every call an example, and its own examples fit its schemas", () => {
    for (const operation of OPERATIONS) {
      assert.ok(operation.examples.length > 0, operation.id);
      const { requestBody, responses } = documented(operation);
      for (const { schema, examples = {} } of Object.values(requestBody?.content ?? {}))
        for (const [name, { value }] of Object.entries(examples))
          assertFits(document, schema, value, `${operation.id} ${name}`);
      for (const [status, { content }] of Object.entries(responses))
        for (const { schema, example } of Object.values(content))
          if (example !== undefined) assertFits(document, schema, example, `${operation.id} ${status}`);
    }
  });

  it("a body that is not the documented one is noticed", () => {
    const schema = { $ref: "#/components/schemas/TransactionResponse" };
    assert.throws(() => {
      assertFits(document, schema, { id: SAMPLE.id, state: "committed" }, "incomplete");
    }, /incomplete/);
  });
});

/** The examples wait five seconds for durability, which is not enough on a slow machine. */
const patient = (text: string): string =>
  text.replace('"maxWaitMs":5000', '"maxWaitMs":60000').replace(/^wait=5&/, "wait=60&");

/** What an example's answer must have, so that it shows what its summary says. */
const SHOWN: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  "runTransaction fast": { state: "committed" },
  "runTransaction safe": { state: "durable", level: "region" },
  "runTransaction replay": { replayed: true, results: null },
  "getTransaction untilDurable": { state: "durable", level: "region" },
  "beginTransaction empty": { state: "active", seq: 0, results: [] },
  "beginTransaction withStatements": { state: "active", seq: 0 },
  "runStatements update": { state: "active", seq: 1 },
  "commitTransaction fast": { state: "committed" },
  "commitTransaction safe": { state: "durable", level: "region" },
  "rollbackTransaction rollback": { state: "aborted" },
};

describe("every example of the document", () => {
  let system: System;
  let url: string;

  before(async () => {
    system = await System.start({
      cluster: {
        nodes: [
          { id: "east", region: "us-east" },
          { id: "west", region: "us-west" },
        ],
      },
    });
    // Not where the primary is: a read nearby has a replica there.
    url = system.gateway("us-west").url;
    const sql = "CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL)";
    await commit(newId(), sql);
    await commit(newId(), "INSERT INTO account VALUES (1, 1000000)");
  });

  after(() => system.close());

  async function post(path: string, body: unknown): Promise<Response> {
    const headers = { "content-type": "application/json" };
    return fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  }

  /** The token. */
  async function commit(id: string, sql: string, params: readonly unknown[] = []): Promise<string> {
    const response = await post("/v1/transactions", { id, statements: [{ sql, params }] });
    const answer = (await response.json()) as { readonly token?: string };
    assert.ok(answer.token !== undefined, JSON.stringify(answer));
    return answer.token;
  }

  /** What stands for the document's own values. */
  async function prepare({ given }: Example): Promise<Readonly<Record<string, string>>> {
    const id = newId();
    const values = { [SAMPLE.id]: id, [SAMPLE.otherId]: newId() };
    switch (given) {
      case "nothing":
        return values;
      case "committed":
        return { ...values, [SAMPLE.token]: await commit(id, UPDATE.sql, UPDATE.params) };
      case "open": {
        const begun = await post("/v1/transactions/begin", { id });
        assert.equal(begun.status, 200, await begun.text());
        return { ...values, [SAMPLE.session]: begun.headers.get("highwater-session") ?? "" };
      }
      default:
        throw new Error(`nobody knows how to make ${given}`);
    }
  }

  /** Its locks would hold up the next example. */
  async function undo(id: string, session: string, seq: number): Promise<void> {
    const response = await fetch(`${url}/v1/transactions/${id}/rollback`, {
      method: "POST",
      headers: { "content-type": "application/json", "highwater-session": session },
      body: JSON.stringify({ seq: seq + 1 }),
    });
    assert.equal(response.status, 200, await response.text());
  }

  for (const operation of OPERATIONS)
    for (const example of operation.examples) {
      const name = `${operation.id} ${example.name}`;
      it(name, async () => {
        const values = await prepare(example);
        // The longest first: a session has an id in it.
        const samples = Object.keys(values).sort((a, b) => b.length - a.length);
        const filled = (text: string): string =>
          samples.reduce((all, sample) => all.replaceAll(sample, values[sample] ?? ""), patient(text));
        const query = patient(new URLSearchParams(example.query).toString());
        const path =
          operation.path.replace("{id}", SAMPLE.id).replace("{code}", "internal") +
          (query === "" ? "" : `?${query}`);
        const isPinned = operation.parameters.some((parameter) => parameter.name === "Highwater-Session");
        const response = await fetch(`${url}${filled(path)}`, {
          method: operation.method.toUpperCase(),
          headers: {
            ...(example.body === undefined ? {} : { "content-type": "application/json" }),
            ...(isPinned ? { "highwater-session": filled(SAMPLE.session) } : {}),
          },
          ...(example.body === undefined ? {} : { body: filled(JSON.stringify(example.body)) }),
        });
        const { status, headers } = response;
        const body = (await assertDocumented(document, documented(operation), response)) as Readonly<
          Record<string, unknown>
        >;
        assert.equal(status, example.status, JSON.stringify(body));
        for (const [field, value] of Object.entries(SHOWN[name] ?? {}))
          assert.deepEqual(body[field], value, `${field} of ${name}`);
        if (name === "runTransaction readNearby") assert.ok(body["served"] !== undefined);
        const session = headers.get("highwater-session");
        if (body["state"] === "active" && session !== null)
          await undo(filled(SAMPLE.id), session, Number(body["seq"]));
      });
    }
});
