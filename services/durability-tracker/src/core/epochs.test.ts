// What becomes of transactions when an epoch ends: carried over, found, lost, broken. Each case once failed on a real server.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type EpochRecord } from "@highwater/protocol";
import { count, Driven, epochId, record } from "../../test/support/core.ts";

const first = record(1);
/** Another node took over; above 50 nothing is proven. */
const promoted = record(2, { node: "b", fork: 50, start: 60 });
/** The same node came back from a crash. */
const crashed = record(2, { node: "a", fork: 50, start: 60 });
const LEVELS = ["disk", "zone", "region", "global"];

const verdicts = (it: Driven, n: number, epoch: number, offset: number): string[] =>
  LEVELS.map((level) => it.verdict(n, epoch, offset, level));

/** Durable at every level but `global` in the first epoch. */
function promised(offset: number, n = 1): Driven {
  const it = Driven.following(first);
  it.confirm(offset + 10, { b: ["s1", offset + 10] });
  it.position(n, 1, offset);
  assert.deepEqual(verdicts(it, n, 1, offset), ["durable", "durable", "durable", "pending"]);
  return it;
}

/** The current epoch's log is on every disk up to here. */
function everywhere(it: Driven, offset: number): void {
  const { standing } = it.state.topology;
  const home = standing.kind === "following" ? standing.node : "";
  for (const node of ["a", "b", "c", "d"]) if (node !== home) it.report(node, it.state.topology.ancestry);
  const replicas = Object.fromEntries(
    ["a", "b", "c", "d"]
      .filter((node) => node !== home)
      .map((node) => [node, [`s-${node}`, offset] as const]),
  );
  it.confirm(offset, replicas);
}

test("at or below the fork offset it is carried over, at any level, without a look-up", () => {
  const it = Driven.following(first);
  it.position(1, 1, 50);
  it.follow(first, promoted);
  assert.equal(it.reads.length, 0);
  assert.equal(it.judge(1, 1, 50, "disk").position.epoch, epochId(2));
  it.positions(59);
  assert.equal(it.verdict(1, 1, 50, "disk"), "pending", "59 is below the epoch's own record");
  it.positions(60);
  assert.equal(it.judge(1, 1, 50, "disk").rule, "R3 carried over");
  assert.equal(it.verdict(1, 1, 50, "disk"), "durable");
});

test("beyond the fork offset the receipt decides", () => {
  const it = Driven.following(first);
  it.position(1, 1, 51);
  it.position(2, 1, 80);
  it.follow(first, promoted);
  assert.deepEqual(it.reads[0]?.of.length, 2);
  assert.equal(it.reads[0]?.tombstone, "lost");
  it.answer(75, { 1: { kind: "commit", epoch: epochId(1) } });
  it.positions(74);
  assert.equal(it.verdict(1, 1, 51, "disk"), "pending", "the look-up saw it somewhere below 75");
  it.positions(75);
  assert.equal(it.verdict(1, 1, 51, "disk"), "durable");
  assert.equal(it.verdict(2, 1, 80, "disk"), "lost");
});

test("the announcement of an epoch that ended two epochs ago is placed like any other", () => {
  const it = new Driven();
  const third = record(3, { node: "c", fork: 60, start: 90 });
  it.follow(first);
  it.follow(first, promoted);
  it.follow(first, promoted, third);
  it.position(1, 1, 40);
  it.position(2, 1, 80);
  assert.equal(it.judge(1, 1, 40, "disk").position.epoch, epochId(3));
  it.positions(95);
  assert.equal(it.verdict(1, 1, 40, "disk"), "durable");
  it.answer(95);
  it.positions(96);
  assert.equal(it.verdict(2, 1, 80, "disk"), "lost");
});

test("a fork offset below the place that a transaction was carried over to does not matter", () => {
  const it = Driven.following(first);
  it.position(1, 1, 40);
  it.follow(first, promoted);
  it.follow(first, promoted, record(3, { node: "c", fork: 7, start: 90 }));
  assert.equal(it.reads.length, 0, "a successor's history contains its predecessor's record");
  it.positions(90);
  assert.equal(it.verdict(1, 1, 40, "disk"), "durable");
});

test("a position of an epoch newer than the one followed stays pending, and is never settled", () => {
  const it = Driven.following(first);
  it.position(1, 2, 80);
  it.present(2, 2, 80);
  it.positions(500);
  it.sleep(200_000);
  assert.deepEqual([it.stateOf(1, 2), it.stateOf(2, 2)], ["pending", "pending"]);
  assert.equal(it.reads.length, 0);
  assert.equal(it.judge(1, 2, 80, "disk").rule, "R10 unknown epoch");
  it.follow(first, promoted);
  it.positions(80);
  assert.equal(it.verdict(1, 2, 80, "disk"), "durable");
});

test("an intent of an epoch newer than the one followed is never settled in the older one", () => {
  const it = Driven.following(first);
  it.intent(1, 2);
  it.sleep(200_000);
  assert.equal(it.stateOf(1, 2), "intent");
  assert.equal(it.reads.length, 0, "a tombstone of the first epoch could deny what commits in the second");
  it.follow(first, promoted);
  it.sleep(1);
  assert.equal(it.reads[0]?.tombstone, "aborted");
});

test("intents that grow old without a primary are not settled by an epoch to which they do not belong", () => {
  const it = Driven.following(first);
  it.send({ kind: "authority_unsettled", reason: "test", split: false });
  it.intent(1, 2);
  it.sleep(200_000);
  it.follow(first);
  it.sleep(1);
  assert.equal(it.stateOf(1, 2), "intent");
  assert.equal(it.reads.length, 0);
});

test("an epoch that an operator declared ended has ended, even if its record was never seen", () => {
  const it = Driven.following(
    first,
    record(3, {
      node: "c",
      previous: epochId(1),
      fork: 20,
      start: 30,
      supersedes: [epochId(2)],
      commanded: true,
    }),
  );
  it.position(1, 2, 80);
  it.answer(40);
  it.positions(45);
  assert.equal(it.verdict(1, 2, 80, "disk"), "lost");
});

test("the answer to a look-up of an older epoch is not believed", () => {
  const it = Driven.following(first);
  it.position(1, 1, 80);
  it.follow(first, promoted);
  const third = record(3, {
    node: "c",
    previous: epochId(1),
    fork: 50,
    start: 60,
    commanded: true,
    supersedes: [epochId(2)],
  });
  it.follow(first, third);
  it.answer(75);
  it.positions(100);
  assert.equal(it.stateOf(1, 1), "asked", "the second epoch's tombstone is not in the third");
  it.answer(100, { 1: { kind: "commit", epoch: epochId(1) } });
  it.positions(100);
  assert.equal(it.verdict(1, 1, 80, "disk"), "durable");
});

test("an answer that was given in another epoch than it was asked for proves nothing", () => {
  const it = Driven.following(first);
  it.position(1, 1, 80);
  it.follow(first, promoted);
  const [read] = it.reads.splice(0, 1);
  it.send({
    kind: "receipts_read",
    request: read?.request ?? 0,
    epoch: epochId(3),
    asOf: 75n as never,
    receipts: new Map((read?.of ?? []).map((of) => [of.id, { kind: "lost", epoch: epochId(3) } as const])),
  });
  assert.equal(it.stateOf(1, 1), "asked");
  assert.equal(it.reads.length, 1, "it is asked again");
});

test("look-ups that hang in an older epoch do not hold up those of the new one", () => {
  const it = new Driven({ batch: 1 });
  it.follow(first);
  for (let n = 1; n <= 6; n++) it.position(n, 1, 80);
  it.follow(first, promoted);
  const before = it.reads.length;
  it.follow(first, promoted, record(3, { node: "c", fork: 60, start: 90 }));
  assert.ok(before > 0 && it.reads.length > before);
});

test("a retry of a lost id in the new epoch is named, and judged by itself", () => {
  const it = Driven.following(first);
  it.position(1, 1, 80);
  it.follow(first, promoted);
  it.position(1, 2, 70);
  it.answer(75, { 1: { kind: "commit", epoch: epochId(2) } });
  it.positions(80);
  assert.equal(it.verdict(1, 1, 80, "disk"), "lost");
  assert.equal(it.judge(1, 1, 80, "disk").retriedIn, epochId(2));
  assert.equal(it.published[0]?.retriedIn, epochId(2));
  assert.equal(it.verdict(1, 2, 70, "disk"), "durable");
});

test("a promotion that loses region-durable transactions breaks the promise of every level but disk", () => {
  const it = promised(80);
  it.follow(first, promoted);
  assert.equal(it.judge(1, 1, 80, "region").rule, "R5 being proven", "while it is looked up nothing is said");
  it.answer(75);
  it.positions(80);
  assert.deepEqual(verdicts(it, 1, 1, 80), ["durable", "broken", "broken", "lost"]);
  assert.deepEqual(
    it.published.map(({ verdicts: verdicts }) => verdicts),
    [{ disk: "durable", zone: "broken", region: "broken", global: "lost" }],
  );
});

/** The first epoch's node crashed and came back without what had been promised at 80; the loss was reported. */
function lostAtHome(): Driven {
  const it = promised(80);
  it.follow(first, crashed);
  it.answer(75);
  it.confirm(80, { b: ["s2", 80] });
  assert.equal(it.published[0]?.settledAt, "region");
  return it;
}

test("a loss on the same node breaks the promise of disk too", () => {
  assert.deepEqual(verdicts(lostAtHome(), 1, 1, 80), ["broken", "broken", "broken", "lost"]);
});

test("broken and unbroken promises stay as they are, whichever node becomes the primary next", () => {
  const moved = promised(80);
  moved.follow(first, promoted);
  moved.answer(75);
  moved.positions(80);
  moved.follow(first, promoted, record(3, { node: "a", fork: 60, start: 90 }));
  assert.equal(moved.verdict(1, 1, 80, "disk"), "durable", "back on the node where it was born");
  const stayed = lostAtHome();
  stayed.follow(first, crashed, record(3, { node: "b", fork: 60, start: 90 }));
  assert.equal(stayed.verdict(1, 1, 80, "disk"), "broken", "on another node");
});

test("a loss that is found after the node has changed and come back is not the disk's fault", () => {
  const it = promised(80);
  it.follow(first, promoted);
  it.follow(first, promoted, record(3, { node: "a", fork: 60, start: 90 }));
  it.reads = it.reads.slice(-1);
  it.answer(95);
  it.positions(100);
  assert.deepEqual(verdicts(it, 1, 1, 80), ["durable", "broken", "broken", "lost"]);
});

test("a lost transaction that reappears is broken at every level, and reported again", () => {
  const it = promised(80);
  it.follow(first, promoted);
  it.answer(75);
  it.positions(80);
  const back = record(3, {
    node: "a",
    previous: epochId(1),
    fork: 50,
    start: 95,
    commanded: true,
    supersedes: [epochId(2)],
  });
  it.follow(first, back);
  it.answer(99, { 1: { kind: "commit", epoch: epochId(1) } });
  assert.deepEqual(verdicts(it, 1, 1, 80), ["broken", "broken", "broken", "broken"]);
  assert.equal(it.judge(1, 1, 80, "disk").rule, "R8 reappeared");
  assert.equal(it.published.length, 2);
  it.follow(first, back, record(4, { node: "a", previous: epochId(3), fork: 95, start: 120 }));
  it.answer(130, { 1: { kind: "commit", epoch: epochId(1) } });
  assert.equal(it.published.length, 2, "once");
});

test("what is gone is settled again in every new history", () => {
  const it = promised(80);
  it.follow(first, promoted);
  it.answer(75);
  it.positions(80);
  it.follow(first, promoted, record(3, { node: "c", fork: 60, start: 90 }));
  assert.equal(it.reads.length, 1);
  assert.equal(it.reads[0]?.tombstone, "lost");
  it.answer(95);
  assert.equal(it.published.length, 1);
});

test("a promise that only the successor's record remembers is broken, not lost", () => {
  const it = Driven.following(first);
  it.follow(first, { ...promoted, finalMarks: { region: "90", disk: "70" } });
  it.position(1, 1, 80);
  it.answer(75);
  it.positions(80);
  assert.deepEqual(verdicts(it, 1, 1, 80), ["lost", "lost", "broken", "lost"]);
});

test("a promise kept in an epoch that was superseded afterwards was a promise", () => {
  const it = Driven.following(first);
  it.follow(first, { ...promoted, fork: 50 } as EpochRecord);
  it.confirm(70, { c: ["s1", 70] });
  assert.equal(it.judge(1, 1, 40, "region").rule, "R3 carried over");
  assert.equal(it.verdict(1, 1, 40, "region"), "durable");
  const other = record(3, {
    node: "d",
    previous: epochId(1),
    fork: 20,
    start: 30,
    commanded: true,
    supersedes: [epochId(2)],
  });
  it.follow(first, other);
  it.present(1, 1, 40);
  it.answer(35);
  it.confirm(40, { c: ["s2", 40] });
  // No gateway announced it: a tracker that knows its metadata reports first.
  it.sleep(it.state.config.intentGraceMs);
  assert.equal(it.verdict(1, 1, 40, "region"), "broken");
});

test("durable in one successor stays durable in the next, until its mark is passed again", () => {
  const it = Driven.following(first);
  it.follow(first, promoted);
  it.positions(70);
  assert.equal(it.verdict(1, 1, 40, "disk"), "durable");
  it.follow(first, promoted, record(3, { node: "c", fork: 60, start: 90 }));
  assert.equal(it.judge(1, 1, 40, "disk").rule, "R2 was durable");
});

test("a position that arrives after the loss was reported turns the promise into a broken one", () => {
  const it = Driven.following(first);
  it.confirm(100, { b: ["s1", 100] });
  it.intent(1, 1);
  assert.equal(it.verdict(1, 1, 80, "region"), "durable", "the client reads it off the marks");
  it.follow(first, promoted);
  it.sleep(5_000);
  it.answer(75);
  it.positions(80);
  assert.equal(it.published[0]?.verdicts["region"], "lost");
  assert.equal(it.judge(1, 1, 80, "region").needsProof, true);
  it.present(1, 1, 80);
  assert.equal(it.verdict(1, 1, 80, "region"), "broken");
  assert.equal(it.verdict(1, 1, 80, "global"), "lost");
  assert.equal(it.published[1]?.verdicts["region"], "broken");
});

test("a position that arrives after the loss was reported takes back neither of two verdicts, and breaks no promise that was not made", () => {
  const it = Driven.following(first);
  it.confirm(100, { b: ["s1", 60] });
  it.intent(1, 1);
  assert.equal(it.verdict(1, 1, 80, "disk"), "durable", "the client reads it off the marks");
  it.follow(first, promoted);
  it.sleep(5_000);
  it.answer(75);
  it.positions(80);
  assert.equal(it.published[0]?.verdicts["disk"], "lost");
  it.present(1, 1, 80);
  // Of what was published as durable and as lost, neither can be said again.
  assert.equal(it.verdict(1, 1, 80, "disk"), "broken");
  assert.equal(it.verdict(1, 1, 80, "region"), "lost");
  const ranges = it.effects.filter((each) => each.kind === "publish_broken_promise" && each.level === "disk");
  assert.equal(ranges.length, 0, "the level on the primary's disk promised nothing about a takeover");
});

test("a position that is learned during the look-up counts for what was promised", () => {
  const it = Driven.following(first);
  it.confirm(100, { b: ["s1", 100] });
  it.intent(1, 1);
  it.follow(first, promoted);
  it.sleep(5_000);
  assert.equal(it.stateOf(1, 1), "asked");
  it.position(1, 1, 80);
  it.answer(75);
  it.positions(80);
  assert.equal(it.published[0]?.verdicts["region"], "broken");
});

test("a broken promise that a tracker learns of without a primary is reported when there is one", () => {
  const it = Driven.following(first);
  it.confirm(100, { b: ["s1", 100] });
  it.intent(1, 1);
  it.follow(first, promoted);
  it.sleep(5_000);
  it.answer(75);
  it.positions(80);
  it.send({ kind: "authority_unsettled", reason: "test", split: false });
  it.position(1, 1, 80);
  assert.equal(it.published.length, 1);
  it.follow(first, promoted);
  it.sleep(1);
  it.sleep(1);
  assert.equal(it.published.length, 2);
  assert.equal(it.published[1]?.verdicts["region"], "broken");
});

test("an announcement that arrives without a primary does not withdraw a promise", () => {
  const it = Driven.following(first);
  it.positions(100);
  it.follow(first, promoted);
  it.send({ kind: "authority_unsettled", reason: "test", split: false });
  it.position(1, 1, 80);
  assert.equal(it.judge(1, 1, 80, "disk").rule, "R2 was durable");
});

test("a token says more than a look-up that found the attempt later in the log", () => {
  const it = Driven.following(first);
  it.confirm(100, { b: ["s1", 100] });
  it.intent(1, 1);
  it.follow(first, promoted);
  it.sleep(5_000);
  it.answer(200, { 1: { kind: "commit", epoch: epochId(1) } });
  assert.equal(it.stateOf(1, 1), "pending");
  assert.equal(it.judge(1, 1, 80, "region").needsProof, true);
  it.present(1, 1, 80);
  assert.equal(it.verdict(1, 1, 80, "region"), "durable");
  assert.equal(it.verdict(1, 1, 80, "global"), "pending");
});

test("a second question about a proven transaction gets the same answer", () => {
  const it = Driven.following(first);
  it.follow(first, promoted);
  it.present(1, 1, 80);
  it.answer(75, { 1: { kind: "commit", epoch: epochId(1) } });
  everywhere(it, 100);
  for (const level of LEVELS) assert.equal(it.verdict(1, 1, 80, level), "durable", level);
  assert.equal(it.reads.length, 0);
  it.sleep(1);
  assert.equal(it.verdict(1, 1, 80, "global"), "durable");
});

test("expired is the answer where no receipt is kept, but not to a promise", () => {
  const it = promised(80);
  it.follow(first, { ...promoted, forkLimit: "90" });
  it.answer(75, { 1: { kind: "expired" } });
  assert.deepEqual(verdicts(it, 1, 1, 80), ["durable", "durable", "durable", "expired"]);
});

test("a promise that was broken is not durable again when its verdict has left the ledger and its receipt has expired", () => {
  const it = promised(80);
  it.follow(first, promoted);
  it.answer(75);
  everywhere(it, 100);
  assert.deepEqual(verdicts(it, 1, 1, 80), ["durable", "broken", "broken", "lost"]);
  it.sleep(it.state.config.keepVerdictMs);
  assert.equal(it.state.ledger.entries.size, 0);
  it.present(1, 1, 80);
  it.answer(95, { 1: { kind: "expired" } });
  assert.deepEqual(verdicts(it, 1, 1, 80), ["expired", "expired", "expired", "expired"]);
});

test("a promise that left the ledger is durable without its receipt while what its epoch's end has broken is remembered", () => {
  const it = promised(80);
  it.follow(first, { ...promoted, forkLimit: "90" });
  it.answer(75, { 1: { kind: "commit", epoch: epochId(1) } });
  everywhere(it, 100);
  it.present(2, 1, 60);
  it.answer(95, { 2: { kind: "expired" } });
  assert.equal(verdicts(it, 2, 1, 60)[1], "durable");
});

test("a promise about a place that the history cannot have is not kept by an expired receipt", () => {
  const it = promised(80);
  it.follow(first, { ...promoted, forkLimit: "70" });
  it.answer(75, { 1: { kind: "expired" } });
  assert.deepEqual(verdicts(it, 1, 1, 80), ["durable", "expired", "expired", "expired"]);
});

test("a promise about a place that the history is not known to have is not kept by an expired receipt", () => {
  const it = promised(80);
  it.follow(first, promoted);
  it.answer(75, { 1: { kind: "expired" } });
  assert.deepEqual(verdicts(it, 1, 1, 80), ["durable", "expired", "expired", "expired"]);
});

test("publication waits for the strongest level that the survivors can reach, and gives way after a while", () => {
  const it = Driven.following(first);
  it.position(1, 1, 80);
  it.position(2, 1, 81);
  it.follow(first, promoted);
  it.report("c", [first]);
  it.answer(75);
  it.positions(80);
  assert.equal(it.published.length, 0, "a replica in another region is alive");
  it.confirm(80, { c: ["s1", 75] });
  assert.deepEqual(
    it.published.map(({ settledAt }) => settledAt),
    ["region", "region"],
  );

  const stuck = Driven.following(first);
  stuck.position(1, 1, 80);
  stuck.follow(first, promoted);
  stuck.answer(75);
  const alive = (): void => {
    stuck.report("b", [first, promoted], { role: "primary" });
    stuck.report("c", [first]);
  };
  alive();
  stuck.positions(80);
  for (let waited = 0; waited < 4_000; waited += 1_000, alive()) stuck.sleep(1_000);
  assert.equal(stuck.published.length, 0);
  for (let waited = 0; waited < 12_000; waited += 1_000, alive()) stuck.sleep(1_000);
  assert.equal(stuck.published[0]?.settledAt, "disk", "alive, and it never follows");
});

test("publication does not wait for nodes that have been silent for too long", () => {
  const it = Driven.following(first);
  it.position(1, 1, 80);
  it.follow(first, promoted);
  it.report("c", [first]);
  it.answer(75);
  it.sleep(3_500);
  it.positions(80);
  it.sleep(1);
  assert.equal(it.published[0]?.settledAt, "disk");
});

test("a proof that was not published before the next epoch is made again", () => {
  const it = Driven.following(first);
  it.position(1, 1, 80);
  it.follow(first, promoted);
  it.answer(75);
  it.follow(first, promoted, record(3, { node: "c", fork: 60, start: 90 }));
  it.positions(100);
  assert.equal(it.published.length, 0);
  assert.equal(it.reads.length, 1);
  it.answer(105);
  it.positions(105);
  assert.equal(it.published.length, 1);
});

test("when the same epoch is current again after a moment without authority, open look-ups are asked again", () => {
  const it = Driven.following(first, promoted);
  it.send({ kind: "authority_unsettled", reason: "test", split: false });
  it.position(1, 1, 80);
  assert.equal(it.reads.length, 0);
  assert.equal(count(it.follow(first, promoted), "read_receipts"), 1);
});
