// Goal: an operator sees the last report of every gateway that still reports, and its age.
import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "@highwater/runtime/testing";
import { GatewayLimits } from "./gateway-limits.ts";

const reportOf = (gateway: string, used = 0) => ({
  ...{ gateway, region: "r", level: "region" },
  limits: [{ name: "exposureTransactions", value: 10, bound: 10, used }],
});

test("a later report takes the place of an earlier one, and a silent gateway is dropped", async () => {
  const clock = new FakeClock();
  const limits = new GatewayLimits(clock);
  limits.take(reportOf("g2"));
  limits.take(reportOf("g1"));
  await clock.advance(40_000);
  limits.take(reportOf("g2", 7));
  await clock.advance(20_000);
  assert.deepEqual(limits.list().gateways, [
    { ...reportOf("g1"), ageMs: 60_000 },
    { ...reportOf("g2", 7), ageMs: 20_000 },
  ]);
  await clock.advance(1);
  assert.deepEqual(
    limits.list().gateways.map(({ gateway }) => gateway),
    ["g2"],
  );
});

test("many names need no more memory than a thousand gateways", () => {
  const limits = new GatewayLimits(new FakeClock());
  for (let n = 0; n < 1_200; n++) limits.take(reportOf(`g${String(n)}`));
  const { gateways } = limits.list();
  assert.equal(gateways.length, 1_000);
  assert.ok(!gateways.some(({ gateway }) => gateway === "g0"));
});
