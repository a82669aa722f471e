// Goal: a caller with a wrong path learns what is there. Method: send requests into the server that
// both services use.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { type Problem } from "@highwater/protocol";
import { makeServer } from "../src/server.ts";
import { MemoryLog } from "../src/testing.ts";

const app = makeServer({
  bodyLimitBytes: 1_024,
  log: new MemoryLog(),
  elsewhere: { "a tracker": ["/v1/durability/"] },
});
app.post("/v1/transactions", () => ({}));
app.get<{ Params: { id: string } }>("/v1/transactions/:id", ({ params }) => params);
app.post("/internal/cancels", () => ({}));
after(() => app.close());

async function problem(url: string, method: "GET" | "POST" = "GET"): Promise<Problem> {
  return (await app.inject({ url, method })).json();
}

test("an unknown path is answered with the paths that there are", async () => {
  for (const path of ["/", "/docs", "/openapi.json", "/v1/transactions/1/"]) {
    const { status, code, detail } = await problem(path);
    assert.deepEqual([status, code], [404, "not_found"], path);
    assert.match(detail ?? "", /There are .*\/v1\/transactions, \/v1\/transactions\/\{id\}/, path);
    assert.doesNotMatch(detail ?? "", /internal/);
  }
});

test("a path of another service is answered with that service", async () => {
  const { code, detail } = await problem("/v1/durability/stream?level=region");
  assert.equal(code, "not_found");
  assert.match(detail ?? "", /a tracker serves \/v1\/durability\//);
});

test("a parameter is not empty", async () => {
  assert.equal((await app.inject("/v1/transactions/1")).statusCode, 200);
  assert.equal((await problem("/v1/transactions/")).code, "not_found");
  assert.equal((await problem("/v1/transactions//", "POST")).code, "not_found");
  assert.equal((await problem("/v1/transactions/1", "POST")).code, "method_not_allowed");
});
