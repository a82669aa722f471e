// Goal: even without authentication, no web page can use the service through its visitor's browser.
// Method: send requests of browsers and of clients over real sockets to a server like the
// services'.
import assert from "node:assert/strict";
import { request } from "node:http";
import { type AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { type FastifyInstance } from "fastify";
import { makeServer } from "../src/server.ts";
import { MemoryLog } from "../src/testing.ts";

const PAGE = "https://console.example";
const apps: FastifyInstance[] = [];

async function start(openOn: string | undefined): Promise<number> {
  const app = makeServer({ bodyLimitBytes: 1_000, log: new MemoryLog(), corsOrigins: [PAGE], openOn });
  app.post("/v1/transactions", () => ({ ran: true }));
  void app.register((scope, _options, done) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser("*", { parseAs: "string" }, (_request, body, parsed) => {
      parsed(null, body);
    });
    scope.post("/sql", () => ({ ran: true }));
    done();
  });
  app.get("/healthz", () => ({ status: "ok" }));
  apps.push(app);
  await app.listen({ port: 0, host: "127.0.0.1" });
  return (app.server.address() as AddressInfo).port;
}

let loopback: number;
let anywhere: number;
let authenticated: number;

before(async () => {
  loopback = await start("127.0.0.1");
  anywhere = await start("0.0.0.0");
  authenticated = await start(undefined);
});

after(() => Promise.all(apps.map((app) => app.close())));

function send(port: number, path: string, headers: Record<string, string>, method = "POST"): Promise<number> {
  return new Promise((resolve, reject) => {
    const asked = request({ host: "127.0.0.1", port, path, method, headers }, (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    });
    asked.on("error", reject);
    asked.end(method === "POST" ? "{}" : undefined);
  });
}

const JSON_BODY = { "content-type": "application/json" };
const TEXT_BODY = { "content-type": "text/plain;charset=UTF-8" };

test("a page that was not allowed by name is refused", async () => {
  for (const origin of ["https://evil.example", "null", "http://127.0.0.1", "file://"])
    for (const path of ["/v1/transactions", "/sql"])
      assert.equal(await send(loopback, path, { ...JSON_BODY, origin }), 403, `${origin} ${path}`);
  assert.equal(
    await send(anywhere, "/v1/transactions", { ...JSON_BODY, origin: "http://evil.example" }),
    403,
  );
  assert.equal(await send(loopback, "/v1/transactions", { ...JSON_BODY, origin: PAGE }), 200);
});

test("a path in another spelling reaches no handler of a refused page", async () => {
  for (const path of [
    "/%73ql",
    "/%2Fsql",
    "//sql",
    "/sql/",
    "/SQL",
    "/%761/transactions",
    "/v1/%74ransactions",
  ])
    for (const headers of [
      { ...TEXT_BODY, origin: "https://evil.example" },
      { ...TEXT_BODY, host: "evil.example" },
    ])
      assert.ok([403, 404].includes(await send(loopback, path, headers)), path);
  assert.equal(await send(loopback, "/%73ql?x=1", TEXT_BODY), 200);
});

test("the service's own page may call it, by an address or as localhost, and a page of a name may not", async () => {
  for (const host of [`127.0.0.1:${String(loopback)}`, "localhost:1", "[::1]:1"])
    assert.equal(
      await send(loopback, "/v1/transactions", { ...JSON_BODY, host, origin: `http://${host}` }),
      200,
      host,
    );
  assert.equal(
    await send(anywhere, "/v1/transactions", {
      ...JSON_BODY,
      host: "10.0.0.1:1",
      origin: "http://10.0.0.1:1",
    }),
    200,
  );
  // A name that another party can point at this address.
  const rebound = { host: "evil.example:1", origin: "http://evil.example:1" };
  for (const port of [loopback, anywhere])
    assert.equal(await send(port, "/v1/transactions", { ...JSON_BODY, ...rebound }), 403);
  // Other services of the same machine. Browsers leave out the ports 80 and 443.
  for (const neighbour of [
    { host: "localhost:1", origin: "http://localhost:2" },
    { host: "localhost", origin: "https://localhost" },
  ])
    assert.equal(await send(loopback, "/v1/transactions", { ...JSON_BODY, ...neighbour }), 403);
});

test("on loopback only requests for loopback are taken, however a name was made to lead there", async () => {
  for (const host of [
    "evil.example",
    "evil.example:80",
    "127.0.0.1.example",
    "localhost.example",
    "10.0.0.1",
  ])
    assert.equal(await send(loopback, "/v1/transactions", { ...JSON_BODY, host }), 403, host);
  for (const host of ["127.0.0.1", "LOCALHOST:1", "[::1]:1"])
    assert.equal(await send(loopback, "/v1/transactions", { ...JSON_BODY, host }), 200, host);
  assert.equal(await send(anywhere, "/v1/transactions", { ...JSON_BODY, host: "gateway.internal" }), 200);
  assert.equal(await send(loopback, "/healthz", { host: "probe.example" }, "GET"), 200);
});

test("a page that a browser sends without an origin is refused, and what is no browser may send any type", async () => {
  for (const site of ["cross-site", "same-site"])
    assert.equal(await send(loopback, "/sql", { ...TEXT_BODY, "sec-fetch-site": site }), 403, site);
  for (const headers of [JSON_BODY, TEXT_BODY, {}]) assert.equal(await send(loopback, "/sql", headers), 200);
  assert.equal(await send(loopback, "/sql", { ...TEXT_BODY, "sec-fetch-site": "none" }), 200);
});

test("where callers are authenticated nothing of this holds: a page cannot know the key", async () => {
  const headers = { ...TEXT_BODY, host: "gateway.example", origin: "https://evil.example" };
  assert.equal(await send(authenticated, "/sql", headers), 200);
});
