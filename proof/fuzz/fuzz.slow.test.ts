// Goal: no input makes a parser crash or hang, and none accepts an invalid input. Method: every
// target runs a fixed number of inputs from a fixed seed; `make fuzz SECONDS=…` runs more.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { describeFailure, runTarget } from "./src/runner.ts";
import { RealServices } from "./src/services.ts";
import { allTargets } from "./src/targets/index.ts";

const SEED = 1;
/** Far more than it takes, because a busy machine is slow. */
const LIMIT_SECONDS = 120;

const all = await allTargets();

describe("fuzzing", () => {
  let services: RealServices | null = null;

  before(async () => {
    services = await RealServices.start();
  });

  after(async () => {
    await services?.close();
  });

  for (const listed of all) {
    const { target } = listed;
    it(`${target.name}: ${target.about}`, async () => {
      const report = await runTarget(listed, {
        ...{ seed: SEED, runs: target.sliceRuns, seconds: LIMIT_SECONDS, input: null },
        services: services?.urls ?? null,
      });
      if (report.failure !== null) assert.fail(describeFailure(target, SEED, report));
      assert.ok(report.runs >= target.seeds.length, "every example was tried");
    });
  }

  it("the services have met nothing that they call an error", async () => {
    assert.deepEqual(await services?.faults(), []);
  });
});
