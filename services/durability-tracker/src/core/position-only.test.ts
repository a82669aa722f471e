// Tokens that name a position and no receipt: marks, and what is carried over, are all that can judge them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type EpochRecord, NO_ID } from "@highwater/protocol";
import { Driven, epochId, off, record } from "../../test/support/core.ts";
import { Disk } from "../../test/support/disk.ts";
import { judge, type Judgement, restore } from "./index.ts";

const first = record(1);
const GRACE_MS = 2_000;

const judged = (it: Driven, level: string): string[] => {
  const { verdict, rule } = it.judge(0, 1, 80, level, "position");
  return [verdict, rule];
};

/** Follows a fork of the first epoch. The commit at 80 is judged, and the primary's disk had so much. */
function after(successor: EpochRecord, flushed: number, waitMs = GRACE_MS): Driven {
  const it = Driven.following(first);
  it.positions(flushed);
  it.follow(first, successor);
  it.positions(200);
  it.sleep(waitMs);
  return it;
}

test("a position without a receipt is durable when a mark of its epoch has passed it", () => {
  const it = Driven.following(first);
  it.positions(79);
  assert.deepEqual(judged(it, "disk"), ["pending", "R4 waiting"]);
  it.positions(80);
  assert.deepEqual(judged(it, "disk"), ["durable", "R1 mark"]);
  assert.deepEqual(judged(it, "region"), ["pending", "R4 waiting"]);
});

test("a position without a receipt is carried over up to the fork, and goes on by the marks there", () => {
  const it = after(record(2, { fork: 80, start: 90, limit: 85 }), 0);
  assert.deepEqual(judged(it, "disk"), ["durable", "R3 carried over"]);
  assert.deepEqual(judged(it, "region"), ["pending", "R4 waiting"]);
});

test("above the fork, a position without a receipt is unknown when other trackers had time to share their marks", () => {
  const fork = record(2, { node: "b", fork: 79, start: 90, limit: 100 });
  assert.deepEqual(judged(after(fork, 0, 1), "region"), ["pending", "R5 being proven"]);
  const it = after(fork, 0);
  assert.deepEqual(judged(it, "region"), ["unknown", "R11 no receipt"]);
  assert.equal(it.published.length, 0, "nothing is lost");
  it.follow(first, { ...fork, finalMarks: { region: "80" } });
  assert.deepEqual(judged(it, "region"), ["durable", "R2 was durable"]);
});

test("a promise without a receipt stays one, unless the history cannot have its position", () => {
  const within = record(2, { fork: 40, start: 90, limit: 80 });
  const beyond = record(2, { fork: 40, start: 90, limit: 79 });
  assert.deepEqual(judged(after(within, 80), "disk"), ["durable", "R2 was durable"]);
  assert.deepEqual(judged(after(beyond, 80), "disk"), ["broken", "R7 broken"]);
  assert.deepEqual(judged(after(beyond, 80), "region"), ["unknown", "R11 no receipt"]);
  const moved = after({ ...beyond, node: "b" }, 80);
  assert.deepEqual(
    judged(moved, "disk"),
    ["durable", "R2 was durable"],
    "the level says nothing of other nodes",
  );
});

test("a promise without a receipt is unknown where it is not known that the history has its position", () => {
  const nowhere = record(2, { fork: 40, start: 90 });
  assert.deepEqual(judged(after(nowhere, 80, 1), "disk"), ["pending", "R5 being proven"]);
  const it = after(nowhere, 80);
  assert.deepEqual(judged(it, "disk"), ["unknown", "R11 no receipt"]);
  assert.deepEqual(judged(after({ ...nowhere, forkOffset: "80" }, 80), "disk"), [
    "durable",
    "R3 carried over",
  ]);
  assert.deepEqual(
    judged(after({ ...nowhere, node: "b" }, 80), "disk"),
    ["durable", "R2 was durable"],
    "the level says nothing of other nodes",
  );
  for (const cause of ["clean_restart", "reinstated"] as const)
    assert.deepEqual(
      judged(after({ ...nowhere, cause }, 80), "disk"),
      ["durable", "R2 was durable"],
      "the server goes on with its log",
    );
});

test("a promise without a receipt is broken with an epoch that was given up", () => {
  const second = record(2, { fork: 40, start: 90, limit: 95 });
  const it = Driven.following(first, second);
  it.positions(120);
  const at = (): string => it.verdict(0, 2, 120, "disk", "position");
  assert.equal(at(), "durable");
  it.follow(first, record(3, { previous: epochId(1), fork: 40, start: 90, limit: 95 }));
  it.sleep(GRACE_MS);
  assert.equal(at(), "broken");
  it.follow(first, second);
  assert.equal(at(), "durable", "an operator has chosen it again");
});

test("a position without a receipt makes no entry, and its token says where an unseen epoch began", () => {
  const it = Driven.following(first, record(2, { fork: 40, start: 90, limit: 95 }));
  const at = { epoch: epochId(9), offset: off(120) };
  const token = { id: NO_ID, owner: 0n, attempt: at.epoch, kind: "position", position: at } as const;
  const ask = (): Judgement => judge(it.state, { ...token, parent: epochId(1) }, "region");
  assert.deepEqual([ask().verdict, ask().needsProof], ["pending", true]);
  it.present(0, 9, 120, "position", { parent: epochId(1) });
  it.sleep(GRACE_MS);
  assert.deepEqual([ask().verdict, ask().needsProof], ["unknown", false]);
  assert.equal(it.state.ledger.entries.size, 0);
  assert.equal(it.reads.length, 0);
});

test("a tracker that was killed says the same of a position without a receipt", () => {
  const successor = record(2, { fork: 40, start: 90, limit: 79 });
  const it = after(successor, 80);
  const disk = new Disk(it.state);
  for (const effect of it.effects) disk.take(effect, it.state);
  it.state = restore(it.state.config, it.nowMs, disk.read());
  it.follow(first, successor);
  it.positions(200);
  it.sleep(GRACE_MS);
  assert.deepEqual(judged(it, "disk"), ["broken", "R7 broken"]);
  assert.deepEqual(judged(it, "region"), ["unknown", "R11 no receipt"]);
});
