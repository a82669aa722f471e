// Goal: a tracker that was down while its epoch ended holds nothing of it for longer than the others. Method: gateways send their announcements again while there is no primary, or when the next epoch is current.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Driven, epochId, off, record, txnId } from "../../test/support/core.ts";
import { Disk } from "../../test/support/disk.ts";
import { type AnnouncedItem, heldCount, inDoubt, restore } from "./index.ts";

const first = record(1);
const LEVELS = ["disk", "zone", "region", "global"];
const EVERYWHERE = { disk: "90", zone: "90", region: "90", global: "90" };
/** The same node came back from a crash; the other trackers had seen the first epoch on every disk up to 90. */
const crashed = record(2, { node: "a", fork: 90, start: 100, finalMarks: EVERYWHERE });

const COUNT = 50;

/** Of transactions that committed while the tracker was down, each intent before its position. */
const missed = (): AnnouncedItem[] =>
  Array.from({ length: COUNT }, (_, n) => [
    { kind: "intent", id: txnId(n), epoch: epochId(1), endsWithinMs: 60_000 } as const,
    { kind: "position", id: txnId(n), epoch: epochId(1), offset: off(20 + n) } as const,
  ]).flat();

/** Killed in the first epoch, whose log it had seen on every disk up to 15, and started anew. */
function revived(): Driven {
  const it = Driven.following(first);
  const disk = new Disk(it.state);
  const written = new Set<unknown>();
  const write = (): void => {
    for (const effect of it.effects) if (!written.has(effect)) disk.take(effect, it.state);
    for (const effect of it.effects) written.add(effect);
  };
  everywhere(it, 15);
  write();
  it.state = restore(it.state.config, it.nowMs, disk.read());
  return it;
}

function everywhere(it: Driven, offset: number): void {
  it.confirm(offset, { b: ["s1", offset], c: ["s1", offset], d: ["s1", offset] });
}

const tokens = (it: Driven, n: number): string[] => LEVELS.map((level) => it.verdict(n, 1, 20 + n, level));

function assertGone(it: Driven): void {
  assert.deepEqual([heldCount(it.state), it.state.ledger.finished.size], [0, 0]);
  assert.deepEqual(inDoubt(it.state), { intent: 0, unproven: 0, absent: 0, unplaced: 0 });
  for (const n of [0, COUNT - 1])
    assert.deepEqual(tokens(it, n), ["durable", "durable", "durable", "durable"]);
  assert.equal(it.published.length, 0);
}

test("announcements that come without a primary leave with the epoch that every level had", () => {
  const it = revived();
  it.announce(...missed());
  assert.equal(heldCount(it.state), COUNT);
  it.follow(first, crashed);
  assertGone(it);
  assert.equal(it.reads.length, 0);
});

test("announcements of an ended epoch that every level had come and go in one step", () => {
  const it = revived();
  it.follow(first, crashed);
  it.announce(...missed());
  assertGone(it);
});

test("announcements of an ended epoch that its successor's marks have passed come and go in one step", () => {
  const it = revived();
  it.follow(first, { ...crashed, finalMarks: {} });
  everywhere(it, 120);
  it.announce(...missed());
  assertGone(it);
});

test("what was looked up leaves like the others when the current history certainly has it", () => {
  const it = Driven.following(first);
  it.position(1, 1, 80);
  it.follow(first, record(2, { node: "b", fork: 50, start: 60, finalMarks: EVERYWHERE }));
  assert.equal(it.stateOf(1, 1), "asked");
  it.follow(first, record(3, { node: "a", previous: epochId(1), fork: 90, start: 100, commanded: true }));
  it.reads.splice(0, 1);
  it.answer(120, { 1: { kind: "commit", epoch: epochId(1) } });
  assert.equal(heldCount(it.state), 0);
  assert.equal(it.verdict(1, 1, 80, "global"), "durable");
});

test("what only its receipt shows to be here stays, though every level had it", () => {
  const it = Driven.following(first);
  it.position(1, 1, 80);
  it.follow(first, record(2, { node: "a", fork: 50, start: 100, limit: 90, finalMarks: EVERYWHERE }));
  it.answer(120, { 1: { kind: "commit", epoch: epochId(1) } });
  it.position(1, 1, 80);
  assert.equal(heldCount(it.state), 1);
  assert.equal(it.verdict(1, 1, 80, "global"), "durable");
});

/** By transaction, the levels at which it was published as durable. */
function published(it: Driven): Map<string, string[]> {
  const levels = new Map<string, string[]>();
  for (const effect of it.effects)
    if (effect.kind === "publish_durable")
      for (const { id } of effect.items) levels.set(id, [...(levels.get(id) ?? []), effect.level]);
  return levels;
}

const lags = (it: Driven): number =>
  it.effects.reduce((sum, effect) => sum + (effect.kind === "publish_lag" ? effect.count : 0), 0);

for (const [title, arrive] of [
  ["without a primary", ["announce", "follow"]],
  ["in the next epoch", ["follow", "announce"]],
] as const)
  test(`what the levels had before its announcements came ${title} is published as durable, once`, () => {
    const it = revived();
    it.effects.splice(0);
    it.send({ kind: "durable_wanted", wanted: true });
    const zone = { ...crashed, finalMarks: { disk: "90", zone: "90" } };
    for (const step of arrive) {
      if (step === "announce") it.announce(...missed());
      else it.follow(first, zone);
    }
    everywhere(it, 120);
    assert.equal(heldCount(it.state), 0);
    it.follow(first, zone, record(3, { fork: 130, start: 140 }));
    assert.equal(published(it).size, COUNT);
    for (const levels of published(it).values()) assert.deepEqual(levels, LEVELS);
    assert.equal(lags(it), COUNT * LEVELS.length);
  });

test("what the levels had is published as durable when the position of a commit that was looked up comes", () => {
  const it = Driven.following(first);
  it.intent(1, 1);
  it.send({ kind: "durable_wanted", wanted: true });
  it.follow(first, crashed);
  it.sleep(it.state.config.intentGraceMs);
  it.answer(200, { 1: { kind: "commit", epoch: epochId(1) } });
  assert.equal(published(it).size, 0);
  it.position(1, 1, 80);
  assert.deepEqual([...published(it).values()], [LEVELS]);
  assert.equal(heldCount(it.state), 0);
  everywhere(it, 200);
  assert.deepEqual([...published(it).values()], [LEVELS]);
});
