// Goal: every SDK keeps its promises on the real product, through cuts, dead services and failovers, and what one language has
// committed another one can judge. Method: one system of three regions; the scenarios of scenarios/system one after another, all
// languages in step, so that they share each fault; what they say is compared with what the database has.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Drivers } from "../src/driver.ts";
import { loadScenarios } from "../src/format.ts";
import { Host } from "../src/host-client.ts";
import { runScenario } from "../src/run.ts";

const { LANGUAGES, ONLY = "" } = process.env;
const languages = LANGUAGES?.split(",");

const drivers = new Drivers();
let host: Host;
before(async () => {
  // Short enough to be seen: how long an open transaction may idle, and how many rows a result may have.
  host = await Host.start({ GATEWAY_IDLE_TIMEOUT_MS: "8000", GATEWAY_MAX_ROWS: "1000" });
});
after(async () => {
  await drivers[Symbol.asyncDispose]();
  // It and all of its processes end because its standard input does.
  assert.equal(await host.close(), 0);
});

for (const scenario of await loadScenarios("system"))
  if (new RegExp(ONLY).test(scenario.name))
    test(scenario.name, () => runScenario(scenario, { drivers, host, ...(languages && { languages }) }));

test("an unknown fault is refused", async () => {
  await assert.rejects(host.command("explode"), /there is no command explode/);
  await assert.rejects(host.command("hold", { region: "primary" }), /hold takes no region/);
  await assert.rejects(
    host.command("stop", { service: "gateway", region: "moon" }),
    /there is no region moon/,
  );
});
