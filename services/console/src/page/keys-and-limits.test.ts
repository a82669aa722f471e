// Goal: an operator finds a key by its name, owner, role or state, sees which expire soon, and reads a limit in its unit.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { DescribedKey } from "@highwater/protocol";
import {
  amountText,
  countedText,
  expiresSoon,
  filterKeys,
  limitTone,
  ownLimitsText,
  silentGateways,
} from "./keys-and-limits.ts";

const keyOf = (id: string, more: Partial<DescribedKey> = {}): DescribedKey => ({
  ...{ id, state: "active", name: "orders", owner: "shop", role: "app_orders", scopes: ["read", "write"] },
  ...{ limits: {}, createdAt: "2026-11-01T00:00:00.000Z", expiresAt: null, revokedAt: null },
  ...more,
});

test("keys are found by state and by every word", () => {
  const keys = [
    keyOf("k1"),
    keyOf("k2", { name: "Reports", role: "shop_read", scopes: ["read"] }),
    keyOf("k3", { state: "revoked", owner: "crane" }),
  ];
  const found = (search: string, state: DescribedKey["state"] | "" = ""): string[] =>
    filterKeys(keys, { search, state }).map(({ id }) => id);
  assert.deepEqual(found(""), ["k1", "k2", "k3"]);
  assert.deepEqual(found("", "active"), ["k1", "k2"]);
  assert.deepEqual(found("reports read"), ["k2"]);
  assert.deepEqual(found("CRANE"), ["k3"]);
  assert.deepEqual(found("shop crane"), []);
});

test("a key that expires within a week says when, and one that is not active says nothing", () => {
  const nowMs = Date.parse("2026-11-20T00:00:00.000Z");
  const soon = (expiresAt: string | null, state: DescribedKey["state"] = "active"): string | null =>
    expiresSoon(keyOf("k", { expiresAt, state }), nowMs);
  assert.equal(soon(null), null);
  assert.equal(soon("2026-11-27T00:00:01.000Z"), null);
  assert.equal(soon("2026-11-26T00:00:00.000Z"), "in 6 days");
  assert.equal(soon("2026-11-21T12:00:00.000Z"), "in 1 day");
  assert.equal(soon("2026-11-20T12:00:00.000Z"), "within a day");
  assert.equal(soon("2026-11-20T12:00:00.000Z", "revoked"), null);
});

test("limits have their units, and every limit of a gateway says what counts toward it", () => {
  assert.equal(amountText("exposureTransactions", 200_000), "200,000");
  assert.equal(amountText("exposureBytes", 1_536), "1.5 KiB");
  assert.equal(amountText("exposureKeyAgeMs", 1_500), "1.5 s");
  const settings = readFileSync(
    new URL("../../../txn-gateway/src/exposure/settings.ts", import.meta.url),
    "utf8",
  );
  const names = Array.from(settings.matchAll(/\["(exposure\w+)", "/g), ([, name = ""]) => name);
  assert.equal(names.length, 9);
  for (const name of [...names, "maxPendingAnnouncements"]) assert.notEqual(countedText({ name }), name);
  assert.equal(countedText({ name: "newLimit" }), "newLimit");
  assert.equal(
    ownLimitsText(keyOf("k", { limits: { ratePerSecond: 200, burst: 5 } })),
    "ratePerSecond: 200, burst: 5",
  );
});

test("a limit warns from where gateways slow transactions down", () => {
  const tone = (used: number): string => limitTone({ name: "x", value: 20, bound: 10, used });
  assert.deepEqual([0, 8, 8.1, 10, 15].map(tone), ["good", "good", "waiting", "bad", "bad"]);
});

test("a gateway that announces and does not report is named", () => {
  const gateways = [{ gateway: "g2", region: "r", level: "region", limits: [], ageMs: 0 }];
  assert.deepEqual(silentGateways({ gateways }, { g3: 0, g2: 1, g1: 4 }), ["g1", "g3"]);
});
