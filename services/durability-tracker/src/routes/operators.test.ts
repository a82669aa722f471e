// Goal: who may read keys and limits. Method: requests to the routes alone, by callers with one scope each, and without authentication.
import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "@highwater/runtime/testing";
import {
  Admission,
  ANYBODY,
  AnonymousAuthenticator,
  type Authenticator,
  Callers,
  installCallers,
  makeServer,
  SCOPES,
  type Scope,
} from "@highwater/service";
import { MemoryLog } from "@highwater/service/testing";
import { GatewayLimits } from "../shell/gateway-limits.ts";
import { KeyListing } from "../shell/key-listing.ts";
import { operatorRoutes } from "./operators.ts";

const [KEYS, LIMITS] = ["/v1/keys", "/v1/durability/exposure/limits"];

/** The credential of a request is the scope that it has. */
const byScope: Authenticator = {
  authenticate: (authorization) =>
    Promise.resolve({ ...ANYBODY, id: "k", owner: 7n, scopes: new Set([authorization as Scope]) }),
  start: () => undefined,
  stop: () => undefined,
};

function appWith(authenticator: Authenticator) {
  const clock = new FakeClock();
  const app = makeServer({ bodyLimitBytes: 1_000, log: new MemoryLog() });
  const defaults = { ratePerSecond: null, burst: null, concurrency: null };
  const reader = { nodes: [], readKeys: () => Promise.resolve([]), close: () => undefined };
  const keys = new KeyListing({ clock, keys: () => reader, primary: () => "a" });
  void app.register((scope, _options, done) => {
    const admission = new Admission({ clock, defaults });
    installCallers(scope, new Callers({ authenticator, admission, clock, onRefused: () => undefined }));
    operatorRoutes(scope, {
      limits: new GatewayLimits(clock),
      keys: authenticator === byScope ? keys : null,
    });
    done();
  });
  return app;
}

test("keys and limits need the scope admin, and no other scope will do", async () => {
  const app = appWith(byScope);
  for (const url of [KEYS, LIMITS])
    for (const scope of SCOPES) {
      const { statusCode } = await app.inject({ url, headers: { authorization: scope } });
      assert.equal(statusCode, scope === "admin" ? 200 : 403, `${url} ${scope}`);
    }
  const listed = await app.inject({ url: KEYS, headers: { authorization: "admin" } });
  assert.deepEqual([listed.json(), listed.headers["cache-control"]], [{ keys: [], total: 0 }, "no-store"]);
  await app.close();
});

test("a tracker that asks for no credential lists no keys, and names the command that does", async () => {
  const app = appWith(new AnonymousAuthenticator());
  const refused = await app.inject({ url: KEYS });
  assert.equal(refused.statusCode, 403);
  assert.match(refused.json<{ detail: string }>().detail, /`highwater keys list`/);
  assert.deepEqual((await app.inject({ url: LIMITS })).json(), { gateways: [] });
  await app.close();
});
