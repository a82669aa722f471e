// Goal: sealed contents open only with a key of the schedule, for their own transaction and owner,
// and unchanged; a rotation and a data key's age change nothing of that.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ContentsKeys, type SealedAbout } from "./contents-keys.ts";
import { isSealed, splitSealed } from "./sealed.ts";
import { type DeploymentKey } from "./settings.ts";

const key = (kid: number, validFromMs: number, seed = `key ${String(kid)}`): DeploymentKey => ({
  ...{ kid, validFromMs },
  secret: seed.repeat(32).slice(0, 32),
});
const OLD = key(1, 0);
const NEW = key(2, 1_000);
const ABOUT: SealedAbout = { owner: 7n, id: "id", epoch: "epoch", offset: "80" };
const TEXT = JSON.stringify({ statement: "INSERT … ✓" });

function make(schedule: readonly DeploymentKey[], nowMs = 0, deployment = "test"): ContentsKeys {
  return new ContentsKeys(deployment, schedule, { wallMs: () => nowMs, monotonicMs: () => nowMs });
}

test("contents open with the key that sealed them, before and after a rotation", () => {
  const before = make([OLD, NEW], 999).seal(ABOUT, TEXT);
  const after = make([OLD, NEW], 1_000).seal(ABOUT, TEXT);
  assert.deepEqual([before[1], after[1]], [1, 2]);
  for (const sealed of [before, after]) assert.equal(make([OLD, NEW]).open(ABOUT, sealed), TEXT);
  assert.throws(() => make([NEW]).open(ABOUT, before), /has no key 1/);
});

test("contents open for no other owner, transaction, place, deployment or secret", () => {
  const sealed = make([OLD]).seal(ABOUT, TEXT);
  const others: Partial<SealedAbout>[] = [
    { owner: 8n },
    { id: "other" },
    { epoch: "other" },
    { offset: "81" },
  ];
  for (const other of others) assert.throws(() => make([OLD]).open({ ...ABOUT, ...other }, sealed));
  assert.throws(() => make([OLD], 0, "other").open(ABOUT, sealed));
  assert.throws(() => make([key(1, 0, "other")]).open(ABOUT, sealed));
});

test("every changed byte, and contents that were cut, are refused", () => {
  const keys = make([OLD]);
  const sealed = keys.seal(ABOUT, TEXT);
  for (let at = 0; at < sealed.length; at++) {
    const changed = Buffer.from(sealed);
    changed[at] = (changed[at] ?? 0) ^ 1;
    assert.throws(() => keys.open(ABOUT, changed), `byte ${String(at)}`);
  }
  for (const length of [0, 1, 61, 62, 80, sealed.length - 1])
    assert.throws(() => keys.open(ABOUT, sealed.subarray(0, length)), `${String(length)} bytes`);
  for (let length = 0; length <= sealed.length; length++) {
    const cut = sealed.subarray(0, length);
    const isWhole = isSealed(cut.toString("base64url"));
    assert.equal(isWhole, length >= 90, `${String(length)} bytes`);
    if (isWhole) assert.equal(splitSealed(cut).wrapped.length, 62);
    else assert.throws(() => splitSealed(cut));
  }
  assert.equal(isSealed(Buffer.concat([Buffer.of(2), sealed.subarray(1)]).toString("base64url")), false);
});

test("an owner has a data key for an hour, owners share none, and none is in the clear", () => {
  let nowMs = 0;
  const keys = new ContentsKeys("test", [OLD], { wallMs: () => nowMs, monotonicMs: () => nowMs });
  const wrappedOf = (owner: bigint): string =>
    Buffer.from(splitSealed(keys.seal({ ...ABOUT, owner }, TEXT)).wrapped).toString("hex");
  const first = wrappedOf(7n);
  assert.equal(wrappedOf(7n), first);
  assert.notEqual(wrappedOf(8n), first);
  nowMs = 3_600_000;
  assert.notEqual(wrappedOf(7n), first);
  assert.doesNotMatch(keys.seal(ABOUT, TEXT).toString("latin1"), /INSERT/);
});
