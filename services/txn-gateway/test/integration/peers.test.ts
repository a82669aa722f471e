// Goal: only gateways may send cancels on to a gateway, and only short ones. Method: an application
// that asks callers for credentials, with and without the secret that its services share.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { realClock } from "@highwater/runtime";
import { internalCredential, jsonLog } from "@highwater/service";
import { TEST_DEPLOYMENT } from "@highwater/service/testing";
import { buildApp, loadConfig, makeDeps } from "../../src/app.ts";

const SECRET = "a secret for these tests alone";
const KEY = "0000162e5b0d9c41";
const RIGHT = internalCredential(SECRET);

/** Its database cannot be reached. */
function build(settings: Readonly<Record<string, string>>): ReturnType<typeof buildApp> {
  const node = { id: "a", region: "r", zone: "z", url: "postgresql://app@127.0.0.1:1/app" };
  const topology = { nodes: [node], levels: { disk: { primary: true } } };
  const env = {
    ...{ ...TEST_DEPLOYMENT, ...settings },
    ...{ GATEWAY_NAME: "g", GATEWAY_REGION: "r", HIGHWATER_TOPOLOGY: JSON.stringify(topology) },
  };
  const loaded = loadConfig(env, () => "");
  assert.ok(loaded.ok);
  const log = jsonLog("txn-gateway", realClock, () => undefined);
  return buildApp(loaded.config, makeDeps(loaded.config, { log }));
}

const GUARDED = { GATEWAY_AUTH: "keys", HIGHWATER_INTERNAL_SECRET: SECRET };
const CASES: readonly (readonly [
  name: string,
  settings: Readonly<Record<string, string>>,
  credential: string | null,
  key: string,
  status: number,
])[] = [
  ["a gateway with the secret", GUARDED, RIGHT, KEY, 200],
  ["a caller without a credential", GUARDED, null, KEY, 401],
  ["a caller with another secret", GUARDED, internalCredential(`${SECRET}!`), KEY, 401],
  ["a caller with an API key", GUARDED, `hwk_aaaaaaaa_${"A".repeat(43)}`, KEY, 403],
  ["any caller, if no gateway can prove itself", { GATEWAY_AUTH: "keys" }, RIGHT, KEY, 401],
  ["any caller, if none needs a credential", {}, null, KEY, 200],
  ["a key without a secret", GUARDED, RIGHT, KEY.slice(0, 8), 400],
  ["the longest key", GUARDED, RIGHT, "ab".repeat(260), 200],
  ["a longer key", GUARDED, RIGHT, "ab".repeat(261), 400],
  ["a body that no key needs", GUARDED, RIGHT, "ab".repeat(600), 413],
];

describe("a cancel that a gateway sends on", () => {
  for (const [name, settings, credential, key, status] of CASES)
    it(`${name}: ${String(status)}`, async () => {
      const app = build(settings);
      const answer = await app.inject({
        method: "POST",
        url: "/internal/cancels",
        headers: credential === null ? {} : { authorization: `Bearer ${credential}` },
        payload: { key },
      });
      assert.equal(answer.statusCode, status, answer.body);
      if (status === 200) assert.deepEqual(answer.json(), { found: false });
      await app.close();
    });
});
