// Conformance: the check values of the deployment's keys.
import assert from "node:assert/strict";
import { describe } from "node:test";
import { type It, type MakeHarness } from "./harness.ts";
import { type KeyCheck } from "../port.ts";
import { Bench } from "./bench.ts";

export function keyCheckTests(makeHarness: MakeHarness, it: It): void {
  describe("key checks", () => {
    it("keep what was written first, for every process and after a failover", () =>
      Bench.with(makeHarness, firstCounts));
  });
}

const check = (kid: number, digit: string): KeyCheck => ({
  kid,
  validFromMs: 1_767_225_600_500,
  value: digit.repeat(32),
});

async function firstCounts(bench: Bench): Promise<void> {
  const { store, harness, primary } = bench;
  const epoch = await bench.begin();
  const read = async (node: string, from = store): Promise<readonly KeyCheck[]> =>
    [...(await from.keyChecks(node))].sort((a, b) => a.kid - b.kid);
  assert.deepEqual(await read(primary), []);
  await store.addKeyChecks(primary, [check(1, "a")]);
  await harness.otherStore.addKeyChecks(primary, [check(1, "b"), check(255, "c")]);
  const expected = [check(1, "a"), check(255, "c")];
  assert.deepEqual(await read(primary), expected);
  assert.deepEqual(await read(primary, harness.otherStore), expected);

  const [heir] = harness.replicas;
  await store.helpFlush(primary, epoch);
  await harness.catchUp(heir);
  await harness.kill(primary);
  await harness.promote(heir);
  assert.deepEqual(await read(heir), expected);
}
