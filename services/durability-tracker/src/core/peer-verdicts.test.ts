// Goal: if one tracker reports a transaction as broken, all do. Method: the other tracker's verdict arrives before and after
// this tracker's own.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Driven, epochId, off, record } from "../../test/support/core.ts";

const first = record(1);
const second = record(2, { node: "b", cause: "promotion", fork: 50, start: 60, limit: 70 });
const LEVELS = ["disk", "region", "global"];
const verdicts = (it: Driven, offset = 80, kind: "read" | "write" = "write"): string[] =>
  LEVELS.map((level) => it.verdict(1, 1, offset, level, kind));
const broken = { verdicts: { disk: "durable", region: "broken", global: "lost" } } as const;
const back = {
  verdicts: { disk: "broken", region: "broken", global: "broken" },
  rule: "R8 reappeared",
} as const;

function failedOver(): Driven {
  const it = Driven.following(first);
  it.position(1, 1, 80);
  it.follow(first, second);
  return it;
}

test("what another tracker has published as broken is broken here, also after its loss was published", () => {
  const it = failedOver();
  it.answer(75);
  it.positions(80);
  assert.deepEqual(verdicts(it), ["lost", "lost", "lost"]);
  it.receivePeerVerdict(1, 1, broken);
  assert.deepEqual(verdicts(it), ["lost", "broken", "lost"]);
  it.receivePeerVerdict(1, 1, broken);
  assert.equal(it.published.length, 2, "published once more, and only once");
});

test("what another tracker has published as broken is broken here before anything is proven, and stays so", () => {
  const it = failedOver();
  it.receivePeerVerdict(1, 1, broken);
  assert.deepEqual(verdicts(it), ["durable", "broken", "lost"]);
  it.answer(75);
  it.positions(80);
  assert.deepEqual(verdicts(it), ["durable", "broken", "lost"]);
  assert.equal(it.published.length, 1);
});

test("what is lost to another tracker, and was durable here, is a promise that does not hold", () => {
  const it = Driven.following(first);
  it.position(1, 1, 80);
  it.confirm(80, { b: ["s1", 80] });
  it.follow(first, second);
  it.receivePeerVerdict(1, 1, { verdicts: { disk: "lost", region: "lost", global: "broken" } });
  // Of the node that took over the disk's level promises nothing.
  assert.deepEqual(verdicts(it), ["durable", "broken", "broken"]);
});

test("what its token alone had shown to be durable here is a promise as well", () => {
  const it = Driven.following(first);
  it.confirm(80, { b: ["s1", 80] });
  assert.equal(it.verdict(1, 1, 80, "region"), "durable");
  it.follow(first, second);
  const verdicts = { disk: "lost", region: "lost", global: "broken" } as const;
  it.receivePeerVerdict(1, 1, { verdicts, origin: { epoch: epochId(1), offset: off(80) } });
  assert.equal(it.verdict(1, 1, 80, "region"), "broken");
});

test("what this tracker has found in the current history is not broken by a tracker that could not find it", () => {
  const it = failedOver();
  it.answer(75, { 1: { kind: "commit", epoch: epochId(1) } });
  it.positions(80);
  assert.equal(verdicts(it)[0], "durable");
  const effects = it.receivePeerVerdict(1, 1, broken);
  assert.deepEqual(
    effects.map(({ kind }) => kind),
    ["refuse_peer_verdict"],
  );
  assert.equal(verdicts(it)[0], "durable");
  // The other reports this when it finds the transaction, too: it was called lost, and is back.
  it.receivePeerVerdict(1, 1, back);
  assert.deepEqual(verdicts(it), ["broken", "broken", "broken"]);
});

test("one that was lost to another tracker and is back is broken here, where it was never called lost", () => {
  const it = Driven.following(first);
  it.position(1, 1, 40);
  it.follow(first, second);
  it.positions(80);
  assert.equal(verdicts(it, 40)[0], "durable");
  it.receivePeerVerdict(1, 1, back);
  assert.deepEqual(verdicts(it, 40), ["broken", "broken", "broken"]);
});

test("one that was broken and is back is published as broken at every level", () => {
  const it = failedOver();
  it.receivePeerVerdict(1, 1, broken);
  it.receivePeerVerdict(1, 1, back);
  assert.deepEqual(verdicts(it), ["broken", "broken", "broken"]);
  assert.equal(it.published.length, 2);
});

test("a peer verdict on an unknown attempt is remembered for a client that holds its token", () => {
  const it = Driven.following(first, second);
  it.receivePeerVerdict(1, 1, { ...broken, kind: "read", origin: { epoch: epochId(1), offset: off(80) } });
  assert.deepEqual(verdicts(it, 80, "read"), ["durable", "broken", "lost"]);
  it.present(1, 1, 80, "read");
  assert.deepEqual(verdicts(it, 80, "read"), ["durable", "broken", "lost"]);
});

test("a read that only another tracker's word had shown to be broken is expired when the word has left the ledger", () => {
  const it = Driven.following(first, second);
  it.receivePeerVerdict(1, 1, { ...broken, kind: "read", origin: { epoch: epochId(1), offset: off(80) } });
  assert.deepEqual(verdicts(it, 80, "read"), ["durable", "broken", "lost"]);
  it.sleep(it.state.config.keepVerdictMs);
  it.sleep(1);
  assert.equal(it.state.ledger.entries.size, 0);
  if (it.judge(1, 1, 80, "region", "read").needsProof) it.present(1, 1, 80, "read");
  it.positions(200);
  it.sleep(2_000);
  assert.deepEqual(verdicts(it, 80, "read"), ["expired", "expired", "expired"]);
});

test("a peer verdict on the epoch that is current here comes too early: its end is not known yet", () => {
  const it = Driven.following(first);
  it.position(1, 1, 80);
  it.receivePeerVerdict(1, 1, broken);
  it.positions(100);
  assert.equal(verdicts(it)[0], "durable");
  assert.equal(it.published.length, 0);
});
