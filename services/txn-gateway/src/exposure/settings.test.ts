import assert from "node:assert/strict";
import { test } from "node:test";
import { type Topology } from "@highwater/protocol";
import { readExposure } from "./settings.ts";

const topologyOf = (...levels: string[]): Topology => ({
  nodes: [],
  levels: Object.fromEntries(levels.map((level) => [level, { primary: true as const }])),
});
const noFile = (): string => assert.fail("no file");

test("counted at region where that is configured, or else at the strongest level; only transactions are limited", () => {
  const { settings, faults } = readExposure({}, noFile, topologyOf("disk", "region", "global"));
  assert.deepEqual(faults, []);
  assert.equal(settings.level, "region");
  assert.deepEqual(settings.limits, [
    { name: "exposureTransactions", scope: "all", measure: "transactions", value: 200_000 },
  ]);
  assert.equal(readExposure({}, noFile, topologyOf("disk", "zone")).settings.level, "zone");
});

test("0 switches a limit off, a number another one on", () => {
  const env = {
    GATEWAY_EXPOSURE_TRANSACTIONS: "0",
    GATEWAY_EXPOSURE_BYTES: "1000000",
    GATEWAY_EXPOSURE_REGION_TRANSACTIONS: "7",
    GATEWAY_EXPOSURE_KEY_AGE_MS: "500",
    GATEWAY_EXPOSURE_GATEWAYS: "3",
    GATEWAY_EXPOSURE_LEVEL: "disk",
  };
  const { settings } = readExposure(env, noFile, topologyOf("disk", "region"));
  assert.deepEqual([settings.level, settings.gateways], ["disk", 3]);
  assert.deepEqual(settings.limits, [
    { name: "exposureBytes", scope: "all", measure: "bytes", value: 1_000_000 },
    { name: "exposureRegionTransactions", scope: "region", measure: "transactions", value: 7 },
    { name: "exposureKeyAgeMs", scope: "key", measure: "ageMs", value: 500 },
  ]);
});

test("every fault is named", () => {
  const env = {
    GATEWAY_EXPOSURE_LEVEL: "moon",
    GATEWAY_EXPOSURE_BYTES: "much",
    GATEWAY_EXPOSURE_GATEWAYS: "0",
  };
  const { faults } = readExposure(env, noFile, topologyOf("disk"));
  assert.equal(faults.length, 3);
  for (const [at, variable] of ["GATEWAYS", "BYTES", "LEVEL"].entries())
    assert.match(faults[at] ?? "", new RegExp(`^GATEWAY_EXPOSURE_${variable} `));
});
