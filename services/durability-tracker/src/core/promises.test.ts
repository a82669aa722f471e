// Promises of a history that is given up as a whole: no record follows its epochs, and what every level had is in no ledger.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Disk } from "../../test/support/disk.ts";
import { type Effect, restore } from "./index.ts";
import { Driven, epochId, record } from "../../test/support/core.ts";

const first = record(1);
const second = record(2, { fork: 10, start: 20, limit: 10 });
/** An operator names a node that has nothing of the second epoch. */
const chosen = record(3, {
  ...{ node: "c", previous: first.id, cause: "promotion", fork: 10, start: 30, limit: 10 },
  ...{ commanded: true, supersedes: [second.id] },
});
const GIVEN_UP = ["zone", "region", "global"].map((level) => [level, epochId(2), 20n, 90n]);

function durableEverywhere(): Driven {
  const it = Driven.following(first);
  it.follow(first, second);
  it.position(1, 2, 80);
  it.confirm(90, { b: ["s1", 90], c: ["s2", 90] });
  assert.equal(it.stateOf(1, 2), undefined, "it has left the ledger");
  return it;
}

/** A tracker that begins with what the other one had on disk. */
function restarted(killed: Driven): Driven {
  const disk = new Disk(killed.state);
  for (const effect of killed.effects) disk.take(effect, killed.state);
  const it = new Driven();
  it.nowMs = killed.nowMs;
  it.state = restore(killed.state.config, it.nowMs, disk.read());
  return it;
}

const ranges = (effects: readonly Effect[]): unknown[] =>
  effects.flatMap((effect) =>
    effect.kind === "publish_broken_promise" ? [[effect.level, effect.epoch, effect.from, effect.to]] : [],
  );

test("what was durable everywhere and is given up with its epoch is published by the range of each promise, once", () => {
  const it = durableEverywhere();
  assert.deepEqual(ranges(it.follow(first, chosen)), GIVEN_UP);
  const next = record(4, { node: "c", fork: 40, start: 50, limit: 40 });
  assert.deepEqual(ranges(it.follow(first, chosen, next)), []);
});

test("what was durable everywhere has its range published, once, where it is not known how much of it is there", () => {
  const it = durableEverywhere();
  const third = record(3, { cause: "promotion", node: "c", fork: 40, start: 100 });
  assert.deepEqual(
    ranges(it.follow(first, second, third)),
    ["zone", "region", "global"].map((level) => [level, second.id, 40n, 90n]),
    "the primary's own disk has promised nothing against this",
  );
  it.present(1, 2, 80);
  it.answer(110);
  it.sleep(6_000);
  it.positions(120);
  assert.equal(it.verdict(1, 2, 80, "region"), "broken", "its token says what the range leaves open");
  assert.equal(ranges(it.effects).length, 3);
});

test("a history of an older copy has the range of its level on the primary's disk published as well", () => {
  const it = durableEverywhere();
  const copy = record(3, { cause: "restored", fork: 20, start: 100 });
  assert.deepEqual(
    ranges(it.follow(first, second, copy)),
    ["disk", "zone", "region", "global"].map((level) => [level, second.id, 20n, 90n]),
  );
});

test("nothing is published where all of it is proven, or where the server that has promised it goes on", () => {
  const proven = durableEverywhere();
  assert.deepEqual(ranges(proven.follow(first, second, record(3, { fork: 90, start: 100 }))), []);
  for (const cause of ["clean_restart", "reinstated"] as const) {
    const it = durableEverywhere();
    assert.deepEqual(ranges(it.follow(first, second, record(3, { cause, fork: 85, start: 100 }))), []);
  }
});

test("every epoch of a history that is given up publishes its range", () => {
  const it = durableEverywhere();
  const third = record(4, { previous: second.id, fork: 90, start: 100, limit: 95 });
  it.follow(first, second, third);
  it.confirm(120, { b: ["s3", 120] });
  assert.deepEqual(ranges(it.follow(first, chosen)).slice(0, 2), [
    ["zone", third.id, 100n, 120n],
    ["region", third.id, 100n, 120n],
  ]);
  assert.deepEqual(ranges(it.effects).slice(2), GIVEN_UP);
});

test("a history that has only begun, and promised nothing of its own, breaks nothing when it is given up", () => {
  const it = Driven.following(first);
  it.follow(first, second);
  it.confirm(20, { b: ["s1", 20], c: ["s2", 20] });
  assert.deepEqual(ranges(it.follow(first, chosen)), []);
});

test("a tracker that was killed publishes the range of what was given up meanwhile", () => {
  assert.deepEqual(ranges(restarted(durableEverywhere()).follow(first, chosen)), GIVEN_UP);
});

test("a tracker that was killed behind a failover publishes the whole range with the first loss that it finds", () => {
  const it = Driven.following(first);
  it.follow(first, second);
  it.position(1, 2, 80);
  it.confirm(90, { b: ["s1", 90], c: ["s2", 70] });
  it.follow(first, second, chosen);
  const again = restarted(it);
  assert.deepEqual(ranges(again.follow(first, second, chosen)), [], "it was published when the epoch began");
  again.answer(60);
  again.sleep(6_000);
  again.positions(60);
  assert.deepEqual(ranges(again.effects), GIVEN_UP.slice(0, 2));
});
