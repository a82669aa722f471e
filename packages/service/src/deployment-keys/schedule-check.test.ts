// Goal: services notice when their schedules would make different tags or signatures at any time; a
// rotation in the right order is no difference.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type KeyCheck } from "@highwater/store";
import { DeploymentKeys } from "./deployment-keys.ts";
import { checksOf, compareSchedules } from "./schedule-check.ts";
import { type DeploymentKey } from "./settings.ts";

const key = (kid: number, validFromMs: number, seed = `key ${String(kid)}`): DeploymentKey => ({
  ...{ kid, validFromMs },
  secret: seed.repeat(32).slice(0, 32),
});
const checks = (schedule: readonly DeploymentKey[], deployment = "test"): KeyCheck[] =>
  checksOf(new DeploymentKeys({ deployment, schedule, wallMs: () => 0 }));
const FIRST = key(1, 0);
const SECOND = key(2, 1_000);
const compare = (
  own: KeyCheck[],
  known: KeyCheck[],
  nowMs: number,
): { faults: string[]; missing: number[] } => {
  const { faults, missing } = compareSchedules(own, known, nowMs);
  return { faults: [...faults], missing: missing.map(({ kid }) => kid) };
};

test("the first service publishes its whole schedule, and another with the same agrees", () => {
  const own = checks([FIRST, SECOND]);
  assert.deepEqual(compare(own, [], 5_000), { faults: [], missing: [1, 2] });
  assert.deepEqual(compare(checks([SECOND, FIRST]), own, 5_000), { faults: [], missing: [] });
});

test("another secret, validFrom or deployment under the same kid is named, and nothing is published beside it", () => {
  const known = checks([FIRST]);
  const others = [checks([key(1, 0, "other")]), checks([key(1, 1)]), checks([FIRST], "other")];
  for (const own of others)
    assert.deepEqual(compare(own, known, 5_000).faults, ["key 1 has another secret or validFrom"]);
});

test("a rotation is no difference while it is published ahead of its time, and one after it", () => {
  const [before, after] = [checks([FIRST]), checks([FIRST, SECOND])];
  assert.deepEqual(compare(after, before, 999), { faults: [], missing: [2] });
  assert.deepEqual(compare(before, after, 999), { faults: [], missing: [] });
  assert.deepEqual(compare(before, after, 1_000), { faults: ["it lacks key 2"], missing: [] });
  assert.deepEqual(compare(after, before, 1_000), {
    faults: ["key 2 was not published before its validFrom"],
    missing: [],
  });
});

test("a retired key makes no difference, whichever service still has it", () => {
  const both = checks([FIRST, SECOND]);
  assert.deepEqual(compare(checks([SECOND]), both, 5_000), { faults: [], missing: [] });
  assert.deepEqual(compare(both, checks([SECOND]), 5_000), { faults: [], missing: [] });
});

test("a check value reveals nothing that signs or tags", () => {
  const keys = new DeploymentKeys({ deployment: "test", schedule: [FIRST], wallMs: () => 0 });
  const [check] = checksOf(keys);
  assert.ok(check !== undefined);
  const mac = Buffer.from(check.value, "hex");
  for (const purpose of ["token", "session"] as const)
    assert.ok(!keys.verify(purpose, 1, "schedule 1 0", mac));
});
