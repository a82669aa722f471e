// Goal: who may read keys and limits. Method: requests to the routes alone, by callers with one scope each, and without authentication.
import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "@highwater/runtime/testing";
import { AnonymousAuthenticator, type Authenticator, SCOPES } from "@highwater/service";
import { appWith, byScope } from "../../test/support/callers.ts";
import { GatewayLimits } from "../shell/gateway-limits.ts";
import { KeyListing } from "../shell/key-listing.ts";
import { operatorRoutes } from "./operators.ts";

const [KEYS, LIMITS] = ["/v1/keys", "/v1/durability/exposure/limits"];

function appFor(authenticator: Authenticator) {
  const clock = new FakeClock();
  const reader = { nodes: [], readKeys: () => Promise.resolve([]), close: () => undefined };
  const keys = new KeyListing({ clock, keys: () => reader, primary: () => "a" });
  return appWith(
    (scope) => {
      operatorRoutes(scope, {
        limits: new GatewayLimits(clock),
        keys: authenticator === byScope ? keys : null,
      });
    },
    { authenticator, clock },
  );
}

test("keys and limits need the scope admin, and no other scope will do", async () => {
  const app = appFor(byScope);
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
  const app = appFor(new AnonymousAuthenticator());
  const refused = await app.inject({ url: KEYS });
  assert.equal(refused.statusCode, 403);
  assert.match(refused.json<{ detail: string }>().detail, /`highwater keys list`/);
  assert.deepEqual((await app.inject({ url: LIMITS })).json(), { gateways: [] });
  await app.close();
});
