// A test for each suite and each value of `highwater.ack`, with a system for each test file.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { type Ack, Rig, type Suite } from "../src/rig.ts";

export interface Testable {
  readonly suite: Suite;
  /** Why this machine cannot run the suite. */
  readonly skip?: string | false;
}

const ACKS: readonly Ack[] = ["durable", "commit"];

export function testSuites(suites: readonly Testable[]): void {
  describe("as on PostgreSQL directly", () => {
    let rig: Rig;
    before(async () => {
      rig = await Rig.start();
    });
    after(() => rig[Symbol.asyncDispose]());
    for (const { suite, skip = false } of suites)
      for (const ack of ACKS)
        test(`${suite.name}, ack ${ack}`, { skip }, async () => {
          const { differences, cases } = await rig.compare(suite, { ack });
          assert.ok(cases > 5, `${String(cases)} cases`);
          assert.deepEqual(differences, []);
        });
  });
}
