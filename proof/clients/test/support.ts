// One test for each suite and each way of answering commits, on a system of the file's own.
import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { type Ack, Rig, type Suite } from "../src/rig.ts";

export interface Testable {
  readonly suite: Suite;
  /** Why this machine cannot run it. */
  readonly skip?: string | false;
}

let starting: Promise<Rig> | undefined;

export function testSuites(suites: readonly Testable[], acks: readonly Ack[]): void {
  describe(`ack ${acks.join(" and ")}`, () => {
    after(async () => {
      const rig = await starting;
      starting = undefined;
      await rig?.[Symbol.asyncDispose]();
    });
    for (const { suite, skip = false } of suites)
      for (const ack of acks)
        test(`${suite.name}, ack ${ack}: as on PostgreSQL directly`, { skip }, async () => {
          starting ??= Rig.start();
          const rig = await starting;
          const { differences, cases } = await rig.compare(suite, { ack });
          assert.ok(cases > 5, `${String(cases)} cases`);
          assert.deepEqual(differences, []);
        });
  });
}
