// Goal: every SDK keeps its promises on the real product, through cuts, dead services and failovers, and what one language has
// committed another one can judge. Method: one system of three regions; the scenarios of scenarios/system one after another, all
// languages in step, so that they share each fault; what they say is compared with what the database has.
import { after, before, test } from "node:test";
import { Drivers } from "../src/driver.ts";
import { loadScenarios } from "../src/format.ts";
import { Host } from "../src/host-client.ts";
import { runScenario } from "../src/run.ts";

const folder = new URL("../scenarios/system", import.meta.url).pathname;
const { LANGUAGES, ONLY = "" } = process.env;
const languages = LANGUAGES?.split(",");

const drivers = new Drivers();
let host: Host;
before(async () => {
  // Short enough to be seen: how long an open transaction may idle, and how many rows a result may have.
  host = await Host.start({ GATEWAY_IDLE_TIMEOUT_MS: "4000", GATEWAY_MAX_ROWS: "1000" });
});
after(async () => {
  await drivers[Symbol.asyncDispose]();
  await host.close();
});

for (const scenario of await loadScenarios(folder))
  if (scenario.name.includes(ONLY))
    test(scenario.name, () => runScenario(scenario, { drivers, host, ...(languages && { languages }) }));
