// Goal: every SDK does what the scenarios say when the wire fails, and all of them do the same.
// Method: the scenarios of scenarios/fake, in every language at once, against the scripted server.
import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { Drivers } from "../src/driver.ts";
import { loadScenarios, readScenarios, type Scenario } from "../src/format.ts";
import { runScenario } from "../src/run.ts";

/** To work on one language or one scenario: `LANGUAGES=typescript ONLY=stream`. */
const { LANGUAGES, ONLY = "" } = process.env;
const languages = LANGUAGES?.split(",");

const drivers = new Drivers();
after(() => drivers[Symbol.asyncDispose]());

const scenarios = (await loadScenarios("fake")).filter(({ name }) => new RegExp(ONLY).test(name));
const add = (scenario: Scenario): void => {
  test(scenario.name, () => runScenario(scenario, { drivers, ...(languages && { languages }) }));
};
for (const scenario of scenarios) if (scenario.isSlow !== true) add(scenario);
describe("what waits for seconds, at the same time", { concurrency: 3 }, () => {
  for (const scenario of scenarios) if (scenario.isSlow === true) add(scenario);
});

test("what is not as a scenario says fails, in the language that it is of", async () => {
  const unkept = (steps: string): Promise<void> => {
    const text = `[{ name: unkept, why: It is not so., steps: [${steps}] }]`;
    return runScenario(readScenarios(text, "unkept", "fake")[0]!, { drivers, languages: ["typescript"] });
  };
  const faults: readonly (readonly [string, RegExp])[] = [
    ["{ exposure: {}, expect: { count: 1 } }", /^typescript, step 1: .*count is 0, not 1/],
    ["{ exposure: {}, error: { class: HighwaterError } }", /succeeded/],
    ["{ promise: { as: a, token: hello } }", /step 1: .* failed with .*invalid_token/],
    ["{ promise: { as: a, token: hello }, error: { code: other } }", /code is "invalid_token", not "other"/],
    ["{ seen: { transactions: 1 } }", /transactions is 0, not 1/],
    ["{ join: nothing }", /nothing goes on that is called nothing/],
    ["{ durable: { of: nothing } }", /nothing is called nothing/],
  ];
  for (const [steps, message] of faults) await assert.rejects(unkept(steps), { message });
});
