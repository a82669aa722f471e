// Goal: what a failure can cost stays within its limit, through the death of a gateway and of a
// tracker. Method: the link to the other region is cut, so nothing becomes durable until it heals.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ExposureReport, Problem } from "@highwater/protocol";
import { System } from "../src/index.ts";
import { createTable, eventually, put, send } from "../src/testing.ts";

const [EAST, WEST] = ["us-east", "us-west"] as const;

test("a value that does not fit is refused, also after the gateway and the tracker were killed", async () => {
  const nodes = [EAST, WEST].map((region) => ({ id: region, region }));
  await using system = await System.start({
    cluster: { nodes },
    env: { GATEWAY_EXPOSURE_VALUE: "EUR:100,USD:0", GATEWAY_EXPOSURE_KEY_VALUE: "EUR:100" },
  });
  await createTable(system, EAST);
  const of = (amount: string, more: object = {}, unit = "EUR") =>
    send(system.gateway(EAST).url, [put(`${unit} ${amount}`)], { atRisk: { amount, unit }, ...more });
  const values = async (): Promise<ExposureReport["values"]> => {
    const response = await fetch(`${system.tracker(EAST).url}/v1/durability/exposure`);
    return ((await response.json()) as ExposureReport).values;
  };
  const refused = async (amount: string): Promise<void> => {
    const { status, body } = await of(amount);
    assert.deepEqual([status, (body as unknown as Problem).code], [503, "exposure_limit"]);
  };
  /** By its own count, and by the tracker's report. */
  const gatewayHas = (used: string): Promise<true> =>
    eventually(`the gateway counts ${used}`, async () => {
      const response = await fetch(`${system.gateway(EAST).url}/metrics`).catch(() => null);
      const sample = `highwater_gateway_exposure_used{limit="exposureValueEUR"} ${used}\n`;
      return (await response?.text())?.includes(sample) === true;
    });
  await of("1", { ack: "durable" });
  await eventually("nothing is at risk", async () => (await values()) === undefined);
  const link = system.cluster.link(EAST, WEST);
  await link.cut();
  assert.equal((await of("60.10")).status, 200);
  assert.equal((await of("9", {}, "USD")).status, 200);
  await eventually("the tracker has both", async () => {
    const found = await values();
    return found?.["EUR"]?.amount === "60.1" && found["USD"]?.amount === "9";
  });
  await refused("39.91");
  assert.equal(
    (await of("1000", { ack: "durable", maxWaitMs: 100 })).status,
    202,
    "a safe one needs no room",
  );
  await system.gateway(EAST).kill();
  await system.restartService(EAST, "gateway");
  await gatewayHas("60.1");
  await eventually(
    "it serves",
    async () => (await of("0.01", { ack: "durable", maxWaitMs: 0 })).status === 202,
  );
  await refused("39.91");
  await system.tracker(EAST).kill();
  await system.restartService(EAST, "tracker");
  await eventually("the new tracker has it", async () => (await values())?.["EUR"]?.amount === "60.1");
  await gatewayHas("60.1");
  assert.equal((await of("39.90")).status, 200);
  await link.heal();
  await eventually("all of it is durable", async () => (await values()) === undefined);
  await eventually("there is room", async () => (await of("100")).status === 200);
});
