import assert from "node:assert/strict";
import { test } from "node:test";
import { describeKey } from "@highwater/service";
import { type ApiKey, DEFAULT_LIMITS } from "@highwater/store";
import { keyTable } from "./print.ts";
import { roleFaults } from "./run.ts";

const KEY: ApiKey = {
  id: "k7m2abcd",
  secretHash: new Uint8Array(32).fill(0xab),
  name: "orders",
  owner: "shop",
  role: "app_orders",
  scopes: ["read", "write"],
  limits: { ...DEFAULT_LIMITS, ratePerSecond: 200, lockTimeoutMs: 500 },
  createdAtMs: Date.UTC(2030, 0, 1),
  expiresAtMs: Date.UTC(2030, 0, 2),
  revokedAtMs: null,
  changed: 7n,
};

test("a key's state follows from the server's clock, and revoked is the last word", () => {
  const state = (key: ApiKey, nowMs: number): string => describeKey(key, nowMs).state;
  assert.equal(state(KEY, Date.UTC(2030, 0, 2) - 1), "active");
  assert.equal(state(KEY, Date.UTC(2030, 0, 2)), "expired");
  assert.equal(state({ ...KEY, expiresAtMs: null }, Date.UTC(2099, 0, 1)), "active");
  assert.equal(state({ ...KEY, revokedAtMs: 1 }, Date.UTC(2030, 0, 3)), "revoked");
});

test("the list is aligned, complete, and without what is secret", () => {
  const described = describeKey(KEY, KEY.createdAtMs);
  assert.equal(
    keyTable([
      described,
      { ...described, name: "x", limits: {}, minLevel: "region", onLost: "replay", expiresAt: null },
    ]),
    [
      "id        state   name    owner  role        scopes      limits                               min level  created                   expires",
      "k7m2abcd  active  orders  shop   app_orders  read,write  ratePerSecond=200,lockTimeoutMs=500  -          2030-01-01T00:00:00.000Z  2030-01-02T00:00:00.000Z",
      "k7m2abcd  active  x       shop   app_orders  read,write  onLost=replay                        region     2030-01-01T00:00:00.000Z  never",
    ].join("\n"),
  );
  assert.deepEqual(described.limits, { ratePerSecond: 200, lockTimeoutMs: 500 });
  assert.ok(!("secretHash" in described));
});

test("a role that a key must not have is refused with the reason", () => {
  const good = { canLogin: true, faults: [] };
  assert.deepEqual(roleFaults(good), []);
  for (const bad of [{ canLogin: false }, { faults: ["is a superuser, or can become one"] }])
    assert.equal(roleFaults({ ...good, ...bad }).length, 1, JSON.stringify(bad));
});
