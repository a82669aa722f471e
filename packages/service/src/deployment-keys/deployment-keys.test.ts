// Goal: services with the same schedule make the same tags and MACs at any time; another schedule,
// deployment or purpose gives others.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { makeUuidV7, parseEpochId, type TxnId } from "@highwater/protocol";
import { readSettings } from "../settings/setting.ts";
import { DeploymentKeys } from "./deployment-keys.ts";
import { deploymentKeys, type Schedule } from "./settings.ts";

const secret = (seed: string): string => seed.repeat(32).slice(0, 32);
const FIRST = { kid: 1, validFromMs: 1_000_000, secret: secret("one") };
const SECOND = { kid: 7, validFromMs: 2_000_000, secret: secret("two") };
const make = (schedule: Schedule, nowMs = 1_500_000, deployment = "test"): DeploymentKeys =>
  new DeploymentKeys({ deployment, schedule, wallMs: () => nowMs });
const idAt = (ms: number): TxnId => makeUuidV7(ms, new Uint8Array(10).fill(7));

test("the time in an id selects the key of its tag, not the time of asking", () => {
  const both = make([SECOND, FIRST]);
  for (const nowMs of [0, 1_500_000, 9_000_000]) {
    const other = make([FIRST, SECOND], nowMs);
    for (const ms of [0, 1_000_000, 1_999_999, 2_000_000, 9_000_000])
      assert.equal(other.receiptTag(5n, idAt(ms)), both.receiptTag(5n, idAt(ms)));
  }
  assert.equal(make([FIRST]).receiptTag(5n, idAt(1_999_999)), both.receiptTag(5n, idAt(1_999_999)));
  assert.notEqual(make([FIRST]).receiptTag(5n, idAt(2_000_000)), both.receiptTag(5n, idAt(2_000_000)));
});

test("a tag is a UUID's text, and another one for another owner, id, deployment or secret", () => {
  const ids = fc.integer({ min: 0, max: 2 ** 48 - 1 }).map(idAt);
  const owners = fc.bigInt({ min: 0n, max: 2n ** 128n - 1n });
  fc.assert(
    fc.property(ids, ids, owners, owners, (id, otherId, owner, otherOwner) => {
      const keys = make([FIRST]);
      const tag = keys.receiptTag(owner, id);
      assert.equal(parseEpochId(tag), tag);
      assert.equal(make([FIRST]).receiptTag(owner, id), tag);
      if (otherId !== id) assert.notEqual(keys.receiptTag(owner, otherId), tag);
      if (otherOwner !== owner) assert.notEqual(keys.receiptTag(otherOwner, id), tag);
      assert.notEqual(make([FIRST], 0, "other").receiptTag(owner, id), tag);
      assert.notEqual(make([{ ...FIRST, secret: SECOND.secret }]).receiptTag(owner, id), tag);
    }),
  );
});

test("the newest active key signs, and every key of the schedule verifies what it signed", () => {
  const before = make([FIRST, SECOND], 1_999_999);
  const after = make([FIRST, SECOND], 2_000_000);
  const [old, young] = [before.sign("token", "x"), after.sign("token", "x")];
  assert.deepEqual([old.kid, young.kid], [1, 7]);
  for (const keys of [before, after])
    for (const { kid, mac } of [old, young]) assert.ok(keys.verify("token", kid, "x", mac));
  // A retired key, and one that is not published yet.
  assert.ok(!make([SECOND]).verify("token", old.kid, "x", old.mac));
  assert.ok(!make([FIRST]).verify("token", young.kid, "x", young.mac));
  // Before the first key's time, the oldest key signs.
  assert.equal(make([FIRST, SECOND], 0).signingKid, 1);
});

test("a MAC counts for its purpose, key, deployment and bytes alone", () => {
  const keys = make([FIRST, SECOND]);
  const { kid, mac } = keys.sign("token", "bytes");
  assert.equal(mac.length, 16);
  assert.ok(!keys.verify("session", kid, "bytes", mac));
  assert.ok(!keys.verify("token", 7, "bytes", mac));
  assert.ok(!keys.verify("token", 99, "bytes", mac));
  assert.ok(!keys.verify("token", kid, "Bytes", mac));
  assert.ok(!keys.verify("token", kid, "bytes", mac.subarray(0, 15)));
  assert.ok(!make([FIRST], 0, "other").verify("token", kid, "bytes", mac));
  for (let bit = 0; bit < 128; bit++) {
    const flipped = Buffer.from(mac);
    flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7));
    assert.ok(!keys.verify("token", kid, "bytes", flipped));
  }
});

const read = (value: string | undefined): { faults: string[]; keys: Schedule } => {
  const { values, faults } = readSettings(
    { keys: deploymentKeys },
    { HIGHWATER_DEPLOYMENT_KEYS: value },
    (path) => (path === "/run/keys" ? JSON.stringify([{ kid: 1, validFrom: T1, secret: FIRST.secret }]) : ""),
  );
  return { faults, keys: values.keys };
};
const T1 = "2026-01-01T00:00:00Z";
const T2 = "2026-02-01T00:00:00.5Z";

test("a schedule is read in the order of its times, from the variable or a file", () => {
  const { faults, keys } = read(
    JSON.stringify([
      { kid: 2, validFrom: T2, secret: SECOND.secret },
      { kid: 1, validFrom: T1, secret: FIRST.secret },
    ]),
  );
  assert.deepEqual(faults, []);
  assert.deepEqual(keys, [
    { kid: 1, validFromMs: Date.parse(T1), secret: FIRST.secret },
    { kid: 2, validFromMs: Date.parse(T2), secret: SECOND.secret },
  ]);
  assert.equal(read("@/run/keys").keys.length, 1);
});

test("a missing schedule is reported with what is needed, and all faults of a wrong one without its values", () => {
  for (const none of [undefined, ""])
    assert.match(
      read(none).faults.join(),
      /^HIGHWATER_DEPLOYMENT_KEYS is required: .*all gateways and trackers/,
    );
  const hidden = "hunter2".repeat(3);
  const wrong = [
    { kid: 0, validFrom: T1, secret: hidden },
    { kid: 1, validFrom: "yesterday", secret: FIRST.secret },
    { kid: 1, validFrom: T1, secret: FIRST.secret, extra: hidden },
    hidden,
  ];
  const { faults } = read(JSON.stringify(wrong));
  assert.deepEqual(
    faults.map((fault) => fault.replace("HIGHWATER_DEPLOYMENT_KEYS ", "").split(" ").slice(0, 3).join(" ")),
    ["entry 0: kid", "entry 0: secret", "entry 1: validFrom", "entry 2: has", "entry 3: must"],
  );
  assert.doesNotMatch(faults.join(), /hunter2/);
  assert.doesNotMatch(read(hidden).faults.join(), /hunter2/);
  const twice = { kid: 1, validFrom: T1, secret: FIRST.secret };
  assert.equal(read(JSON.stringify([twice, twice])).faults.length, 3);
  assert.equal(read("[]").faults.length, 1);
});
