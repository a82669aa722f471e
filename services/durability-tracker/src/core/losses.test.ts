// Goal: a loss is reported when no failover can take it back, to its owner, and for every epoch that was left behind.
import assert from "node:assert/strict";
import { test } from "node:test";
import { waitingLosses } from "./proof.ts";
import { restore } from "./state.ts";
import { Driven, epochId, off, record, txnId } from "../../test/support/core.ts";
import { Disk } from "../../test/support/disk.ts";

const first = record(1);
/** Node b took over; above 50 nothing is proven. */
const second = record(2, { node: "b", cause: "promotion", fork: 50, start: 60 });
const LEVELS = ["disk", "zone", "region", "global"];
const verdicts = (it: Driven, n = 1, epoch = 1, owner = 0n): string[] =>
  LEVELS.map((level) => it.verdict(n, epoch, 80, level, "write", owner));

/** One transaction whose receipt the successor lacks; the tombstone is on the new primary's disk alone. */
function provenOn(it: Driven, ...epochs: Parameters<Driven["follow"]>): Driven {
  it.follow(first);
  it.position(1, 1, 80);
  it.follow(first, ...epochs);
  it.answer(75);
  it.positions(80);
  return it;
}

/** As time passes, with the primary in sight. */
function wait(it: Driven, ms: number): void {
  for (let waited = 0; waited < ms; waited += 1_000) {
    it.report("b", it.state.topology.ancestry, { role: "primary" });
    it.sleep(1_000);
  }
}

test("a loss is reported at no level weaker than the exposure level, however long that takes", () => {
  const it = provenOn(new Driven({ exposureLevel: "region" }), second);
  wait(it, 3_600_000);
  assert.deepEqual(it.published, [], "the other node may still be kept, and it has the transaction");
  assert.deepEqual(verdicts(it), ["pending", "pending", "pending", "pending"]);
  it.confirm(85, { c: ["s1", 80] });
  assert.deepEqual(
    it.published.map(({ settledAt }) => settledAt),
    ["region"],
  );
  assert.deepEqual(verdicts(it), ["lost", "lost", "lost", "lost"]);
});

test("new transactions of the only node that is left commit and become durable while a loss waits", () => {
  const it = provenOn(new Driven({ exposureLevel: "region" }), second);
  it.position(2, 2, 90);
  it.positions(95);
  assert.equal(it.verdict(2, 2, 90, "disk"), "durable");
  assert.equal(it.verdict(1, 1, 80, "disk"), "pending");
});

test("a loss that waits for the exposure level is counted with its age until it is reported", () => {
  const it = provenOn(new Driven({ exposureLevel: "region" }), second);
  const [before, fromMs] = [waitingLosses(it.state), it.state.nowMs];
  wait(it, 60_000);
  assert.deepEqual(waitingLosses(it.state), {
    count: 1,
    oldestMs: before.oldestMs + it.state.nowMs - fromMs,
  });
  it.confirm(85, { c: ["s1", 80] });
  assert.deepEqual(waitingLosses(it.state), { count: 0, oldestMs: 0 });
});

test("a loss that an operator's command releases waits no more", () => {
  const it = provenOn(new Driven({ exposureLevel: "region" }), second);
  assert.equal(waitingLosses(it.state).count, 1);
  it.report("b", [first, { ...second, commanded: true }], { role: "primary" });
  assert.equal(waitingLosses(it.state).count, 0);
});

test("an operator's command for the history releases its losses, at what the survivors can reach", () => {
  const it = provenOn(new Driven({ exposureLevel: "region" }), { ...second, commanded: true });
  assert.equal(it.published[0]?.settledAt, "disk");
});

test("a command that confirms an epoch after it has begun releases its losses as well", () => {
  const it = provenOn(new Driven({ exposureLevel: "region" }), second);
  assert.equal(it.published.length, 0);
  it.report("b", [first, { ...second, commanded: true }], { role: "primary" });
  assert.equal(it.published[0]?.settledAt, "disk");
});

test("a weaker exposure level releases the losses that waited for the stronger one", () => {
  const it = provenOn(new Driven({ exposureLevel: "region" }), second);
  assert.equal(it.published.length, 0);
  it.send({ kind: "configured", levels: it.state.config.levels, exposureLevel: "disk" });
  wait(it, 60_000);
  assert.equal(it.published[0]?.settledAt, "disk");
});

test("a command before the histories parted releases nothing", () => {
  const it = new Driven({ exposureLevel: "region" });
  const chosen = { ...first, commanded: true };
  it.follow(chosen);
  it.position(1, 1, 80);
  it.follow(chosen, second);
  it.answer(75);
  it.positions(80);
  wait(it, 60_000);
  assert.deepEqual(it.published, []);
});

test("a loss that was reported at the exposure level is broken if an operator chooses its history again", () => {
  const it = provenOn(new Driven({ exposureLevel: "region" }), second);
  it.confirm(85, { c: ["s1", 80] });
  const twin = record(3, { node: "d", previous: first.id, fork: 80, start: 90, commanded: true });
  it.follow(first, { ...twin, supersedes: [second.id] });
  assert.deepEqual(verdicts(it), ["broken", "broken", "broken", "broken"]);
});

test("a loss that only a token shows is its owner's", () => {
  const it = Driven.following(first);
  it.follow(first, second);
  it.present(1, 1, 80, "write", { owner: 7n });
  it.present(2, 1, 80, "read", { owner: 7n });
  it.answer(75);
  it.positions(80);
  it.sleep(3_000);
  assert.deepEqual(
    it.published.map(({ owner, kind }) => ({ owner, kind })).sort((a, b) => (a.kind < b.kind ? -1 : 1)),
    [
      { owner: 7n, kind: "read" },
      { owner: 7n, kind: "write" },
    ],
  );
});

test("a loss that was published without an owner is published again for its owner, once", () => {
  const it = Driven.following(first);
  it.follow(first, second);
  it.present(1, 1, 80);
  it.answer(75);
  it.positions(80);
  it.sleep(3_000);
  it.present(1, 1, 80, "write", { owner: 7n });
  it.present(1, 1, 80, "write", { owner: 7n });
  it.answer(85);
  it.positions(90);
  it.sleep(3_000);
  assert.deepEqual(
    it.published.map(({ owner }) => owner),
    [0n, 7n],
  );
});

test("a loss that was published from a token alone is published again with what its gateway knows of it", () => {
  const it = Driven.following(first);
  it.follow(first, second);
  it.present(1, 1, 80, "write", { owner: 7n });
  it.answer(75);
  it.positions(80);
  it.sleep(3_000);
  const about = { id: txnId(1), epoch: epochId(1), owner: 7n, metadata: { order: "8" } };
  it.announce({ kind: "intent", ...about });
  it.announce({ kind: "intent", ...about });
  it.announce({ kind: "position", ...about, offset: 80n as never });
  assert.deepEqual(
    it.published.map(({ owner, metadata }) => ({ owner, metadata })),
    [
      { owner: 7n, metadata: null },
      { owner: 7n, metadata: { order: "8" } },
    ],
  );
});

/** Clients know of the loss of transaction 1 of owner 7; its event waits for a tracker that knows its metadata. */
function hearsay(it = new Driven()): Driven {
  it.follow(first);
  it.follow(first, second);
  it.present(1, 1, 80, "write", { owner: 7n });
  it.answer(75);
  it.positions(80);
  assert.deepEqual(verdicts(it, 1, 1, 7n), ["lost", "lost", "lost", "lost"], "clients wait for no metadata");
  assert.deepEqual(it.published, []);
  return it;
}

test("a loss that only a token shows is left first to a tracker that knows its metadata", () => {
  const it = hearsay();
  it.announce({
    ...{ kind: "intent", id: txnId(1), epoch: epochId(1), owner: 7n },
    metadata: { order: "8" },
  });
  it.sleep(1);
  assert.deepEqual(
    it.published.map(({ metadata }) => metadata),
    [{ order: "8" }],
  );
});

/** Given up with the second epoch, and then the third is current, whose log ended before the tombstone. */
const third = record(3, { node: "c", previous: first.id, fork: 40, start: 45, cause: "promotion" });

test("an event that waited while another history began is recorded when the id is settled there", () => {
  const it = hearsay();
  it.follow(first, third);
  it.sleep(3_000);
  assert.deepEqual(it.published, [], "the id can still commit in this history");
  assert.deepEqual(verdicts(it, 1, 1, 7n), ["lost", "lost", "lost", "lost"]);
  it.answer(60);
  it.sleep(3_000);
  assert.deepEqual(it.published, [], "the tombstone is not on disk");
  it.positions(60);
  assert.deepEqual(
    it.published.map(({ owner, rule, retriedIn }) => ({ owner, rule, retriedIn })),
    [{ owner: 7n, rule: "R6 absent", retriedIn: null }],
  );
});

test("an event that waited while its id was run again in the next history names the retry", () => {
  const it = hearsay();
  it.follow(first, third);
  it.answer(60, { 1: { kind: "commit", epoch: epochId(3) } });
  it.positions(60);
  it.sleep(3_000);
  assert.deepEqual(
    it.published.map(({ retriedIn }) => retriedIn),
    [epochId(3)],
  );
});

test("what came back before its event was recorded is broken, and recorded once", () => {
  const it = hearsay();
  it.follow(first, { ...third, forkOffset: "85", startOffset: "90" });
  assert.deepEqual(verdicts(it, 1, 1, 7n), ["broken", "broken", "broken", "broken"]);
  it.sleep(3_000);
  it.sleep(3_000);
  assert.deepEqual(
    it.published.map(({ rule }) => rule),
    ["R8 reappeared"],
  );
});

test("metadata that come under a later history are recorded when the id is settled there", () => {
  const it = hearsay();
  it.sleep(3_000);
  it.follow(first, third);
  it.announce({
    ...{ kind: "intent", id: txnId(1), epoch: epochId(1), owner: 7n },
    metadata: { order: "8" },
  });
  it.sleep(3_000);
  assert.equal(it.published.length, 1, "the id can still commit in this history");
  it.answer(60);
  it.positions(60);
  assert.deepEqual(
    it.published.map(({ metadata }) => metadata),
    [null, { order: "8" }],
  );
});

test("an event that waits is recorded by the process that comes after a kill", () => {
  const before = new Driven();
  const disk = new Disk(before.state);
  hearsay(before);
  for (const effect of before.effects) disk.take(effect, before.state);
  const it = new Driven();
  it.nowMs = before.nowMs;
  it.state = restore(it.state.config, it.nowMs, disk.read());
  it.follow(first, second);
  assert.deepEqual(verdicts(it, 1, 1, 7n), ["lost", "lost", "lost", "lost"]);
  it.answer(85);
  it.positions(90);
  assert.deepEqual(it.published, []);
  it.sleep(3_000);
  assert.deepEqual(
    it.published.map(({ owner }) => owner),
    [7n],
  );
});

/** Epoch 5 follows the first as the second does, and no survivor has its record. */
const unseen = 5;

test("an epoch that no survivor has seen is left behind when its parent's successor is current", () => {
  const it = Driven.following(first);
  it.follow(first, second);
  assert.equal(it.verdict(1, unseen, 80, "disk"), "pending", "nothing says where it began");
  it.present(1, unseen, 80, "write", { parent: epochId(1) });
  it.answer(75);
  it.positions(80);
  it.sleep(3_000);
  assert.deepEqual(verdicts(it, 1, unseen), ["lost", "lost", "lost", "lost"]);
});

test("announcements of an epoch that no survivor has seen are settled by its parent", () => {
  const it = Driven.following(first);
  it.follow(first, second);
  const item = {
    kind: "position",
    id: txnId(1),
    epoch: epochId(unseen),
    offset: off(80),
    owner: 7n,
  } as const;
  it.announce(item);
  assert.equal(it.stateOf(1, unseen, 7n), "pending");
  it.send({ kind: "announced", items: [], parents: { [epochId(unseen)]: epochId(1) } });
  it.answer(75);
  it.positions(80);
  assert.deepEqual(verdicts(it, 1, unseen, 7n), ["lost", "lost", "lost", "lost"]);
});

test("an epoch that follows the current one is newer, and stays pending", () => {
  const it = Driven.following(first);
  it.follow(first, second);
  it.present(1, unseen, 80, "write", { parent: epochId(2) });
  assert.equal(it.reads.length, 0);
  assert.deepEqual(verdicts(it, 1, unseen), ["pending", "pending", "pending", "pending"]);
});

test("an epoch whose parents are unseen as well is left behind with the first that is known", () => {
  const it = Driven.following(first);
  it.follow(first, second);
  it.present(1, 6, 80, "write", { parent: epochId(unseen) });
  assert.equal(it.verdict(1, 6, 80, "disk"), "pending");
  it.present(2, unseen, 80, "write", { parent: epochId(1) });
  for (; it.reads.length > 0;) it.answer(75);
  it.positions(80);
  it.sleep(3_000);
  assert.deepEqual(verdicts(it, 1, 6), ["lost", "lost", "lost", "lost"]);
});

test("a twin whose record was seen is left behind as well, and every tracker says so", () => {
  const it = new Driven();
  const twin = record(3, { node: "c", previous: first.id, fork: 70, start: 75 });
  it.follow(first);
  it.report("c", [first, twin], { role: "primary" });
  it.position(1, 3, 80);
  it.follow(first, second);
  for (; it.reads.length > 0;) it.answer(75);
  it.positions(80);
  assert.deepEqual(verdicts(it, 1, 3), ["lost", "lost", "lost", "lost"]);
});

test("an epoch that has ended the one followed here is not left behind", () => {
  const it = new Driven();
  const chosen = record(3, {
    ...{ node: "c", previous: first.id, fork: 70, start: 75 },
    ...{ commanded: true, supersedes: [second.id] },
  });
  it.follow(first);
  it.follow(first, second);
  it.report("c", [first, chosen], { role: "primary" });
  it.position(1, 3, 80);
  assert.equal(it.reads.length, 0);
  assert.deepEqual(verdicts(it, 1, 3), ["pending", "pending", "pending", "pending"]);
});
