// Goal: a replay reaches a gateway with the caller's own credential and nothing else, and only if the tracker knows that the caller may ask.
// Method: requests to the route, by callers of one scope each; gateways are servers on this machine, one of them stopped.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { type AddressInfo } from "node:net";
import { test } from "node:test";
import { makeAuthority } from "@highwater/lab-tools/process/certificate";
import { SCOPES } from "@highwater/service";
import { appWith } from "../../test/support/callers.ts";
import { replayRoutes } from "./replay.ts";

const PATH = "/v1/lost/replay";

test("a caller with the scope alone is passed on, to the first gateway that answers", async () => {
  const seen: unknown[] = [];
  const gateway = createServer((request, response) => {
    request.setEncoding("utf8").on("data", (body: string) => {
      const { method, url, headers } = request;
      seen.push([method, url, headers.authorization, headers.cookie, JSON.parse(body)]);
      response
        .writeHead(503, {
          "content-type": "application/problem+json; charset=utf-8",
          "retry-after": "2",
          "x-other": "1",
        })
        .end('{"code":"epoch_changed"}');
    });
  });
  await new Promise<void>((resolve) => gateway.listen(0, "127.0.0.1", resolve));
  const port = String((gateway.address() as AddressInfo).port);
  const app = appWith((scope) => {
    replayRoutes(scope, {
      gateways: ["http://127.0.0.1:9", `http://127.0.0.1:${port}`],
      tlsAuthority: null,
    });
  });
  const ask = (authorization: string, payload: object) =>
    app.inject({ method: "POST", url: PATH, headers: { authorization, cookie: "a=b" }, payload });
  for (const scope of SCOPES) {
    const { statusCode } = await ask(scope, { ids: [] });
    assert.equal(statusCode, scope === "contents:replay" ? 400 : 403, scope);
  }
  assert.deepEqual(seen, []);
  const { statusCode, headers, body } = await ask("contents:replay", { dryRun: false });
  assert.deepEqual(
    [statusCode, headers["content-type"], headers["retry-after"], headers["x-other"], body],
    [503, "application/problem+json; charset=utf-8", "2", undefined, '{"code":"epoch_changed"}'],
  );
  assert.deepEqual(seen, [["POST", PATH, "contents:replay", undefined, { dryRun: false }]]);
  await app.close();
  gateway.close();
});

test("a tracker without gateways, or whose gateways are down, says so", async () => {
  for (const [gateways, code] of [
    [[], "keep_unavailable"],
    [["http://127.0.0.1:9"], "primary_unavailable"],
  ] as const) {
    const app = appWith((scope) => {
      replayRoutes(scope, { gateways, tlsAuthority: null });
    });
    const headers = { authorization: "contents:replay" };
    const answer = await app.inject({ method: "POST", url: PATH, headers, payload: {} });
    const problem = answer.json<{ code: string; detail: string }>();
    assert.deepEqual([problem.code, problem.detail.includes("TRACKER_GATEWAYS")], [code, true]);
    await app.close();
  }
});

test("a gateway with TLS gets a credential if the deployment's authority has signed its certificate", async () => {
  const authority = makeAuthority("the deployment");
  const { certificate: cert, key } = authority.issue("127.0.0.1");
  let asked = 0;
  const gateway = createTlsServer({ cert, key }, (_, response) => {
    asked += 1;
    response.writeHead(200, { "content-type": "application/json" }).end("{}");
  });
  await new Promise<void>((resolve) => gateway.listen(0, "127.0.0.1", resolve));
  const gateways = [`https://127.0.0.1:${String((gateway.address() as AddressInfo).port)}`];
  for (const [tlsAuthority, status] of [
    [authority.certificate, 200],
    [makeAuthority("the deployment").certificate, 503],
    [null, 503],
  ] as const) {
    const app = appWith((scope) => {
      replayRoutes(scope, { gateways, tlsAuthority });
    });
    const headers = { authorization: "contents:replay" };
    const { statusCode } = await app.inject({ method: "POST", url: PATH, headers, payload: {} });
    assert.deepEqual([statusCode, asked], [status, 1]);
    await app.close();
  }
  gateway.close();
});
