// Goal: trackers learn promises that only a dead tracker had published from the log of a replica that did not follow
// the next epoch.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Offset } from "@highwater/protocol";
import { Driven, epochId, off, record } from "../../test/support/core.ts";

const first = record(1);
const second = record(2, { node: "b", cause: "promotion", fork: 50, start: 60 });
const LEVELS = ["disk", "zone", "region", "global"];
const verdicts = (it: Driven): string[] => LEVELS.map((level) => it.verdict(1, 1, 80, level));

/** No position on any disk was ever reported in the first epoch. */
function deaf(): Driven {
  const it = Driven.following(first);
  it.position(1, 1, 80);
  for (const node of ["c", "d"]) {
    it.report(node, [first]);
    it.send({ kind: "node_unreachable", node });
  }
  return it;
}

function read(
  it: Driven,
  epoch: number,
  reached: Record<string, number>,
  marks: Record<string, number> = {},
): void {
  const map = (of: Record<string, number>): ReadonlyMap<string, Offset> =>
    new Map(Object.entries(of).map(([name, offset]) => [name, off(offset)]));
  it.send({ kind: "witnesses_read", epoch: epochId(epoch), reached: map(reached), marks: map(marks) });
}

test("a promise that only a survivor's log shows is broken, also after its loss was published", () => {
  const before = deaf();
  before.follow(first, second);
  read(before, 1, { c: 85 });
  before.answer(75);
  before.positions(80);
  assert.deepEqual(verdicts(before), ["durable", "broken", "broken", "lost"]);

  const after = deaf();
  after.follow(first, second);
  after.answer(75);
  after.positions(80);
  assert.deepEqual(verdicts(after), ["lost", "lost", "lost", "lost"]);
  read(after, 1, { c: 79 });
  assert.deepEqual(verdicts(after), ["lost", "lost", "lost", "lost"], "it lacks the transaction");
  read(after, 1, { c: 85 });
  assert.deepEqual(verdicts(after), ["lost", "broken", "broken", "lost"]);
  assert.deepEqual(
    after.published.map(({ verdicts: verdicts }) => verdicts["region"]),
    ["lost", "broken"],
  );
  // A disk that promises nothing about what happened has no word that it could break.
  assert.equal(after.effects.filter(({ kind }) => kind === "save_marks").length > 0, true);
});

test("a promise of an epoch that no other continues is broken as well, also after its loss was reported", () => {
  const it = Driven.following(first);
  const givenUp = record(2, { fork: 40, start: 45, limit: 40 });
  it.follow(first, givenUp);
  it.position(1, 2, 80);
  for (const node of ["c", "d"]) it.report(node, [first, givenUp]);
  // A laggard without the second epoch takes over.
  const heir = { node: "b", previous: first.id, cause: "promotion", fork: 30, start: 60 } as const;
  it.follow(first, record(3, { ...heir, supersedes: [givenUp.id] }));
  it.answer(75);
  it.sleep(60_000);
  it.positions(80);
  const reported = (): string[] => LEVELS.map((level) => it.verdict(1, 2, 80, level));
  assert.deepEqual(reported(), ["lost", "lost", "lost", "lost"]);
  read(it, 2, { c: 85 });
  assert.deepEqual(reported(), ["lost", "broken", "broken", "lost"]);
});

test("survivors' marks of an epoch that has not ended say nothing", () => {
  const it = deaf();
  read(it, 1, { c: 85 });
  read(it, 7, { c: 85 });
  assert.deepEqual(verdicts(it), ["pending", "pending", "pending", "pending"]);
});

test("survivors in too few regions prove nothing for a level that asks for more", () => {
  const it = deaf();
  it.follow(first, second);
  // In the region of the primary, and in another zone of it.
  read(it, 1, { d: 85 });
  it.answer(75);
  it.positions(80);
  assert.deepEqual(verdicts(it), ["durable", "broken", "lost", "lost"]);
});

test("what a primary has sent proves nothing of its own disk, where that does not count", () => {
  const it = new Driven();
  const restarted = record(2, { fork: 50, start: 60 });
  it.follow(first);
  it.position(1, 1, 40);
  it.follow(first, restarted);
  it.report("a", [first, restarted], { role: "primary", unfit: true });
  it.report("b", [first]);
  read(it, 1, { b: 45 });
  assert.deepEqual(
    LEVELS.map((level) => it.verdict(1, 1, 40, level)),
    ["pending", "durable", "durable", "pending"],
  );
});

test("a promise of a level that asks for more than what has survived is broken, if a survivor's log names its mark", () => {
  const it = deaf();
  it.follow(first, second);
  it.answer(75);
  it.positions(80);
  read(it, 1, { d: 95 }, { zone: 79, global: 79 });
  assert.deepEqual(verdicts(it), ["lost", "broken", "lost", "lost"], "only what the log proves");
  read(it, 1, { d: 98 }, { region: 85, "a level of another configuration": 85 });
  assert.deepEqual(verdicts(it), ["lost", "broken", "broken", "lost"]);
});
