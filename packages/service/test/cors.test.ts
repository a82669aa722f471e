// Goal: a page of a configured origin can call and read every answer, and other pages can do
// neither. Method: send a browser's requests over real sockets to the server that both services
// use. The SDK's tests use a real browser.
import assert from "node:assert/strict";
import { type AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { type FastifyInstance } from "fastify";
import { HighwaterError } from "@highwater/protocol";
import { responseOf } from "../src/plugins/cors.ts";
import { routesOf } from "../src/plugins/route-table.ts";
import { makeServer } from "../src/server.ts";
import { MemoryLog } from "../src/testing.ts";

const PAGE = "https://app.example.com";
let open: FastifyInstance;
let closed: FastifyInstance;

before(async () => {
  open = await serve([PAGE, "http://localhost:8080"]);
  closed = await serve([]);
});

after(() => Promise.all([open.close(), closed.close()]));

async function serve(corsOrigins: readonly string[]): Promise<FastifyInstance> {
  const app = makeServer({ bodyLimitBytes: 1_024, log: new MemoryLog(), corsOrigins, cutOnClose: true });
  app.post("/v1/transactions", (_request, reply) =>
    reply.header("highwater-session", "a").send({ fine: true }),
  );
  app.get("/v1/transactions/:id", () => {
    throw new HighwaterError("overloaded", { retryAfterMs: 3_000 });
  });
  app.get("/v1/durability/stream", { exposeHeadRoute: false }, (_request, reply) => {
    reply.hijack();
    responseOf(reply).writeHead(200, { "content-type": "text/event-stream" }).end(": connected\n\n");
  });
  for (const path of ["/sql", "/internal/announcements"]) app.post(path, () => ({ fine: true }));
  app.get("/metrics", () => "");
  await app.listen({ port: 0, host: "127.0.0.1" });
  return app;
}

async function ask(app: FastifyInstance, path: string, init: RequestInit = {}): Promise<Response> {
  const response = await fetch(
    `http://127.0.0.1:${String((app.server.address() as AddressInfo).port)}${path}`,
    init,
  );
  await response.arrayBuffer();
  return response;
}

/** A browser's request before a call with a key and JSON. Without a method it is no preflight. */
function preflight(
  app: FastifyInstance,
  path: string,
  origin: string,
  method: string | null = "POST",
): Promise<Response> {
  const asked = method === null ? {} : { "access-control-request-method": method };
  const headers = { origin, ...asked, "access-control-request-headers": "authorization,content-type" };
  return ask(app, path, { method: "OPTIONS", headers });
}

/** The headers that the browser checks. */
function corsOf({ headers }: Response): Record<string, string> {
  return Object.fromEntries([...headers].filter(([name]) => name.startsWith("access-control-")));
}

test("a page of a configured origin may call, with its key and for two hours", async () => {
  for (const path of [
    "/v1/transactions",
    "/v1/transactions/1?wait=1",
    "/errors",
    "/errors/overloaded",
    "/sql",
    "/",
    "/v1/durability/stream",
  ]) {
    const answer = await preflight(open, path, PAGE);
    assert.equal(answer.status, 204, path);
    const allowed = corsOf(answer);
    assert.equal(allowed["access-control-allow-origin"], PAGE);
    assert.equal(allowed["access-control-allow-headers"], "authorization,content-type");
    assert.match(allowed["access-control-allow-methods"] ?? "", /\bPOST\b/);
    assert.equal(allowed["access-control-max-age"], "7200");
    assert.equal(allowed["access-control-allow-credentials"], undefined);
    assert.match(answer.headers.get("vary") ?? "", /\bOrigin\b/i);
  }
});

test("it can read every answer, including early refusals and streams", async () => {
  const json = { "content-type": "application/json" };
  const cases: readonly (readonly [number, string, RequestInit & { headers?: Record<string, string> }])[] = [
    [200, "/v1/transactions", { method: "POST", headers: json, body: "{}" }],
    [413, "/v1/transactions", { method: "POST", headers: json, body: `"${"x".repeat(2_000)}"` }],
    [415, "/v1/transactions", { method: "POST", headers: { "content-type": "text/plain" }, body: "{}" }],
    [405, "/v1/transactions", {}],
    [503, "/v1/transactions/1", {}],
    [404, "/v1/nothing", {}],
    [200, "/errors/overloaded", {}],
    [404, "/", {}],
    [200, "/v1/durability/stream", {}],
  ];
  for (const [status, path, init] of cases) {
    const answer = await ask(open, path, { ...init, headers: { ...init.headers, origin: PAGE } });
    assert.equal(answer.status, status, path);
    const { "access-control-expose-headers": exposed, ...rest } = corsOf(answer);
    assert.deepEqual(rest, { "access-control-allow-origin": PAGE }, `${path}: ${String(status)}`);
    for (const name of ["Highwater-Session", "Retry-After", "WWW-Authenticate", "Highwater-Token"])
      assert.ok(exposed?.split(", ").includes(name), name);
  }
});

test("no other page may call it, and no page may call paths that are not for clients", async () => {
  const strangers = ["https://app.example.com.evil.example", "http://app.example.com", "null", "*", ""];
  for (const origin of strangers) {
    const asked = await preflight(open, "/v1/transactions", origin);
    assert.deepEqual([asked.status, corsOf(asked)], [405, {}], origin);
    const answer = await ask(open, "/v1/transactions/1", { headers: { origin } });
    assert.deepEqual([answer.status, corsOf(answer)], [503, {}], origin);
    assert.match(answer.headers.get("vary") ?? "", /\bOrigin\b/i, "a cache keeps it for this origin alone");
  }
  for (const path of ["/internal/announcements", "/metrics", "/sqlite", "/errorsx", "/v1"]) {
    const asked = await preflight(open, path, PAGE);
    assert.ok([404, 405].includes(asked.status), path);
    assert.deepEqual(corsOf(asked), {}, path);
    assert.deepEqual(corsOf(await ask(open, path, { headers: { origin: PAGE } })), {}, path);
  }
});

test("OPTIONS that is no preflight is a method like others, and no route of its own", async () => {
  const answer = await preflight(open, "/v1/transactions", PAGE, null);
  assert.deepEqual([answer.status, answer.headers.get("allow")], [405, "POST"]);
  assert.deepEqual(corsOf(answer), {});
  assert.equal((await preflight(open, "/v1/nothing", PAGE, null)).status, 404);
  assert.deepEqual(routesOf(open), routesOf(closed));
});

test("without configured origins there is nothing of this", async () => {
  const asked = await preflight(closed, "/v1/transactions", PAGE);
  assert.deepEqual([asked.status, asked.headers.get("allow"), corsOf(asked)], [405, "POST", {}]);
  const answer = await ask(closed, "/v1/durability/stream", { headers: { origin: PAGE } });
  assert.deepEqual([answer.status, corsOf(answer), answer.headers.get("vary")], [200, {}, null]);
});
