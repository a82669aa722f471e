// Goal: every SDK does what the scenarios say when the wire fails, and all of them do the same.
// Method: the scenarios of scenarios/fake, in every language at once, against the scripted server.
import { after, test } from "node:test";
import { Drivers } from "../src/driver.ts";
import { loadScenarios } from "../src/format.ts";
import { runScenario } from "../src/run.ts";

const folder = new URL("../scenarios/fake", import.meta.url).pathname;
/** For whoever works on one language or one scenario: `LANGUAGES=typescript ONLY=stream`. */
const { LANGUAGES, ONLY = "" } = process.env;
const languages = LANGUAGES?.split(",");

const drivers = new Drivers();
after(() => drivers[Symbol.asyncDispose]());

for (const scenario of await loadScenarios(folder))
  if (scenario.name.includes(ONLY))
    test(scenario.name, () => runScenario(scenario, { drivers, ...(languages && { languages }) }));
