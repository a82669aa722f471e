// Whose position counts in the current epoch. In each test, a tracker that simply believed the positions would report lost
// data as durable.
import assert from "node:assert/strict";
import { test } from "node:test";
import { count, Driven, epochId, off, record } from "../../test/support/core.ts";
import { markIn } from "./index.ts";

const first = record(1);
const crashed = record(2, { fork: 20, start: 30, limit: 30 });

const mark = (it: Driven, level: string, epoch = 1): number | null => {
  const offset = markIn(it.state, epochId(epoch), level);
  return offset === null ? null : Number(offset);
};

test("a replica counts once its stream was shown, its epoch's row found, and the stream shown again", () => {
  const it = Driven.following(first);
  it.positions(100, { b: ["s1", 90] });
  assert.equal(mark(it, "region"), null, "shown once");
  it.report("b", [first]);
  assert.equal(mark(it, "region"), null, "the row was found");
  it.positions(100, { b: ["s1", 95] });
  assert.equal(mark(it, "region"), 95);
});

test("a replica of another history that streams above the primary's position does not count", () => {
  const it = Driven.following(first, crashed);
  const stranger = [first, record(9, { previous: epochId(1), start: 15 })];
  for (const history of [stranger, [first], []]) {
    it.positions(100, { b: ["s1", 9_999] });
    it.report("b", history);
    it.positions(100, { b: ["s1", 9_999] });
    assert.equal(mark(it, "region", 2), null);
  }
  assert.equal(mark(it, "disk", 2), 100);
});

test("a replica whose session changed must be confirmed anew", () => {
  const it = Driven.following(first);
  it.confirm(100, { b: ["s1", 90] });
  it.positions(200, { b: ["s2", 190] });
  assert.equal(mark(it, "region"), 90, "the new stream may feed another server");
  it.positions(200, { b: ["s2", 190] });
  assert.equal(mark(it, "region"), 90, "showing it twice proves nothing");
  it.report("b", [first]);
  it.positions(200, { b: ["s2", 190] });
  assert.equal(mark(it, "region"), 190);
});

test("a word of the replica that was asked for before its stream was first seen confirms nothing", () => {
  const it = Driven.following(first);
  const askedAtMs = it.nowMs;
  it.positions(100, { b: ["s1", 90] });
  it.report("b", [first], { askedAtMs });
  it.positions(100, { b: ["s1", 90] });
  assert.equal(mark(it, "region"), null);
});

test("a word of the primary that was asked for before the replica's confirms nothing", () => {
  const it = Driven.following(first);
  it.positions(100, { b: ["s1", 90] });
  const askedAtMs = it.nowMs;
  it.report("b", [first]);
  it.positions(100, { b: ["s1", 90] }, { askedAtMs });
  assert.equal(mark(it, "region"), null, "its content may be older than what the replica said");
  it.positions(100, { b: ["s1", 91] });
  assert.equal(mark(it, "region"), 91);
});

test("a stream that the primary goes on showing after the replica's restart does not count", () => {
  const it = Driven.following(first);
  it.confirm(100, { b: ["s1", 90] });
  assert.equal(Number(it.state.topology.nodes.get("b")?.streamed), 90);
  it.report("b", [first], { incarnation: "2" });
  it.positions(100, { b: ["s1", 90] });
  it.report("b", [first], { incarnation: "2" });
  it.positions(100, { b: ["s1", 90] });
  assert.equal(
    it.state.topology.nodes.get("b")?.streamed,
    null,
    "nothing was seen to arrive in this server's life",
  );
  assert.equal(mark(it, "region"), 90, "what is on its disk stays");
  it.positions(120, { b: ["s2", 110] });
  it.report("b", [first], { incarnation: "2" });
  it.positions(130, { b: ["s2", 125] });
  assert.equal(Number(it.state.topology.nodes.get("b")?.streamed), 125);
});

test("a replica that is cut off keeps the position that it had", () => {
  const it = Driven.following(first);
  it.confirm(100, { b: ["s1", 90] });
  it.positions(150);
  it.positions(150, { b: ["s2", 90] });
  assert.equal(mark(it, "region"), 90);
  assert.equal(Number(it.state.topology.nodes.get("b")?.position), 90);
});

test("its own report on a confirmed stream counts when the primary is silent", () => {
  const it = Driven.following(first);
  it.confirm(100, { b: ["s1", 90] });
  const upstream = (flushed: number) => ({ upstream: { session: "w1", flushed: BigInt(flushed) as never } });
  it.report("b", [first], upstream(95));
  it.report("b", [first], upstream(96));
  assert.equal(mark(it, "region"), 90, "the primary has not confirmed this stream since it was named");
  it.positions(100, { b: ["s1", 96] });
  it.report("b", [first], upstream(99));
  assert.equal(mark(it, "region"), 99);
  it.report("b", [first], { upstream: { session: "w2", flushed: 500n as never } });
  it.report("b", [first], { upstream: { session: "w2", flushed: 500n as never } });
  assert.equal(mark(it, "region"), 99, "another stream, another source");
});

test("a dead stream that the primary goes on showing does not vouch for one that feeds the node from elsewhere", () => {
  const it = Driven.following(first);
  it.confirm(100, { b: ["s1", 90] });
  // It now follows a node that was promoted and has no epoch of its own yet: the newest row is still this epoch's.
  const elsewhere = (flushed: number) => ({
    upstream: { session: "w2", flushed: BigInt(flushed) as never },
  });
  it.report("b", [first], elsewhere(90));
  it.positions(100, { b: ["s1", 90] });
  it.report("b", [first], elsewhere(500));
  it.positions(600, { b: ["s1", 90] });
  it.report("b", [first], elsewhere(550));
  assert.equal(mark(it, "region"), 90);
});

test("a stream of an earlier life does not count after the restart, even if it was never confirmed", () => {
  const it = Driven.following(first);
  // A replica of another history streams, and looks as if it could follow; then it is cloned anew.
  it.positions(100, { b: ["s1", 1_000] });
  it.report("b", [crashed]);
  it.report("b", [first], { incarnation: "2" });
  it.positions(2_000, { b: ["s1", 1_000] });
  it.positions(2_000, { b: ["s1", 1_000] });
  assert.equal(mark(it, "region"), null);
});

test("a word of an earlier life that arrives late does not end the streams of this one", () => {
  const it = Driven.following(first);
  it.report("b", [first]);
  const before = it.nowMs;
  it.report("b", [first], { incarnation: "2" });
  it.confirm(100, { b: ["s1", 90] }, { incarnation: "2" });
  it.report("b", [first], { incarnation: "1", askedAtMs: before });
  it.positions(120, { b: ["s1", 110] });
  assert.equal(mark(it, "region"), 110);
});

test("offsets that are reused after a crash on the same timeline are not compared with old tokens", () => {
  const it = Driven.following(first);
  it.position(1, 1, 80);
  it.positions(40);
  it.follow(first, crashed);
  it.positions(500);
  assert.equal(mark(it, "disk", 2), 500);
  assert.equal(it.verdict(1, 1, 80, "disk"), "pending", "500 is above 80, and in another epoch");
  it.answer(510);
  it.positions(520);
  assert.equal(it.verdict(1, 1, 80, "disk"), "lost");
});

test("no position of an earlier epoch counts in a new one", () => {
  const it = Driven.following(first);
  it.confirm(100, { b: ["s1", 90] });
  it.follow(first, crashed);
  it.positions(50, { b: ["s1", 90] });
  assert.equal(mark(it, "region", 2), null);
  it.positions(100, {}, { epoch: epochId(1) });
  assert.equal(mark(it, "disk", 2), 50, "a late word about the old epoch");
  assert.equal(mark(it, "disk", 1), 100);
});

test("a report of a node that is not the primary is ignored", () => {
  const it = Driven.following(first);
  it.positions(300, {}, { node: "b" });
  assert.equal(mark(it, "disk"), null);
});

test("a node that becomes unfit stops counting, and what it had stays true", () => {
  const it = Driven.following(first);
  it.confirm(100, { b: ["s1", 90] });
  it.report("b", [first], { unfit: true });
  it.positions(200, { b: ["s1", 190] });
  assert.equal(mark(it, "region"), 90);
  it.report("b", [first]);
  assert.equal(
    mark(it, "region"),
    90,
    "what it seemed to flush while it was unfit does not count afterwards",
  );
  it.report("a", [first], { role: "primary", unfit: true });
  it.positions(300, { b: ["s1", 290] });
  assert.equal(mark(it, "disk"), 200);
});

test("late, repeated and lower words never lower a mark or a position", () => {
  const it = Driven.following(first);
  it.confirm(100, { b: ["s1", 90] });
  it.positions(70, { b: ["s1", 60] });
  assert.deepEqual([mark(it, "disk"), mark(it, "region")], [100, 90]);
  assert.equal(Number(it.state.topology.nodes.get("b")?.position), 90);
  assert.equal(Number(it.state.topology.nodes.get("b")?.streamed), 90);
});

test("marks are published when they rise, and only then", () => {
  const it = Driven.following(first);
  assert.equal(count(it.positions(100), "publish_marks"), 1);
  assert.equal(count(it.positions(100), "publish_marks"), 0);
  assert.equal(count(it.positions(90), "publish_marks"), 0);
});

test("split brain publishes nothing", () => {
  const it = Driven.following(first, record(2, { fork: 20, start: 30 }));
  it.position(1, 1, 80);
  it.position(2, 2, 90);
  it.send({ kind: "authority_unsettled", reason: "two", split: true });
  const from = it.effects.length;
  it.answer(95);
  it.positions(500);
  it.position(3, 1, 80);
  it.present(4, 1, 80);
  it.sleep(100_000);
  it.report("a", [first, crashed], { role: "primary" });
  const kinds = it.effects.slice(from).map(({ kind }) => kind);
  for (const kind of [
    "publish_marks",
    "publish_verdict",
    "publish_epochs",
    "read_receipts",
    "help_flush",
  ] as const)
    assert.ok(!kinds.includes(kind), kind);
  assert.equal(it.verdict(1, 1, 80, "disk"), "pending");
  assert.equal(it.verdict(2, 2, 90, "disk"), "pending");
});

test("an epoch without a record is never current, and ends the one before", () => {
  const it = Driven.following(first);
  it.send({ kind: "epoch_followed", epoch: epochId(2), node: "b" });
  assert.equal(it.state.topology.standing.kind, "unsettled");
  assert.equal(count(it.positions(100, {}, { node: "a", epoch: epochId(1) }), "publish_marks"), 0);
});

test("a dead stream that is first seen after the replica was cloned anew does not count before another one feeds it", () => {
  const it = Driven.following(record(1));
  it.report("b", [record(1)], { incarnation: "2", isFed: false });
  // Of the server that had this name before, whose host has died: the primary has not noticed.
  it.positions(50, { b: ["dead", 50] });
  it.report("b", [record(1)], { incarnation: "2", isFed: false });
  it.positions(50, { b: ["dead", 50] });
  assert.equal(markIn(it.state, epochId(1), "region"), null);
  it.report("b", [record(1)], { incarnation: "2", isFed: true });
  it.positions(50, { b: ["alive", 20] });
  it.report("b", [record(1)], { incarnation: "2", isFed: true });
  it.positions(50, { b: ["alive", 20] });
  assert.equal(markIn(it.state, epochId(1), "region"), 20n);
});

function standing({ state }: Driven): [kind: string, reason: string | null] {
  const at = state.topology.standing;
  return [at.kind, at.kind === "unsettled" ? at.reason : null];
}

test("a primary that stops flushing is unfit, and its epoch goes on when it flushes again", () => {
  const it = Driven.following(record(1));
  it.confirm(100, { b: ["s1", 90] });
  for (const unfit of [true, false]) {
    // Positions are asked for more often than the node is asked about itself.
    const off = [...it.positions(null, { b: ["s1", 120] })];
    it.report("a", [record(1)], { role: "primary", unfit });
    off.push(...it.positions(null, { b: ["s1", 120] }));
    assert.ok(off.every(({ kind }) => kind !== "disown_epoch"));
    assert.deepEqual(standing(it), ["following", null]);
    assert.equal(it.verdict(1, 1, 110, "disk"), "pending");
  }
  assert.ok(it.positions(130, { b: ["s1", 130] }).every(({ kind }) => kind !== "disown_epoch"));
  assert.equal(it.verdict(1, 1, 110, "disk"), "durable");
  // An older state that is put under it meanwhile is noticed as soon as it flushes.
  it.positions(null);
  assert.ok(it.positions(60).some(({ kind }) => kind === "disown_epoch"));
});

test("a primary that has less on disk than before within an epoch ends it, and no mark of it rises again", () => {
  const it = Driven.following(record(1));
  it.confirm(100, { b: ["s1", 90] });
  assert.equal(it.verdict(1, 1, 95, "region"), "pending");
  // Asked before the last report arrived: two answers that crossed say nothing.
  it.positions(99, { b: ["s1", 90] }, { askedAtMs: 0 });
  assert.deepEqual(standing(it), ["following", null]);
  const effects = it.positions(60, { b: ["s1", 200] });
  assert.deepEqual(
    effects.filter(({ kind }) => kind === "disown_epoch"),
    [{ kind: "disown_epoch", node: "a", epoch: epochId(1), was: off(100), now: off(60) }],
  );
  const [kind, reason] = standing(it);
  assert.equal(kind, "unsettled");
  assert.match(reason ?? "", /^a went back from 100 to 60 within epoch/);
  it.follow(record(1));
  it.confirm(300, { b: ["s1", 300] });
  assert.equal(it.verdict(1, 1, 95, "region"), "pending", "the log that it writes now is another one");
  it.follow(record(1), record(2, { fork: 10, limit: null, start: 310 }));
  assert.deepEqual(standing(it), ["following", null]);
  assert.equal(it.verdict(1, 1, 95, "region"), "pending", "its receipt decides");
});

/** `b` had all up to 90 and `c` up to 50: then `b` is put back to an older copy, and `c` catches up. */
function putBack(show: (it: Driven) => void): Driven {
  const it = Driven.following(first);
  it.confirm(100, { b: ["s1", 90], c: ["s1", 50] });
  assert.equal(mark(it, "global"), 50);
  show(it);
  return it;
}

const showsOldCopy: Record<string, (it: Driven) => void> = {
  "it reports that it was restarted": (it) => it.report("b", [first], { incarnation: "2" }),
  "it reports a history without the epoch": (it) => it.report("b", []),
  "the primary shows less on a new stream": (it) => it.positions(100, { b: ["s2", 35], c: ["s1", 50] }),
};

for (const [form, show] of Object.entries(showsOldCopy))
  test(`a replica that may have lost its disk counts anew from what it has now: ${form}`, () => {
    const it = putBack(show);
    it.positions(100, { b: ["s2", 35], c: ["s1", 95] });
    assert.equal(mark(it, "global"), 50, "only the primary and c have what is above");
    it.report("b", [first], { incarnation: "2" });
    it.positions(100, { b: ["s2", 60], c: ["s1", 95] });
    assert.equal(mark(it, "global"), 60, "and when its new stream is confirmed, it counts again");
  });

test("a replica that has only restarted loses no mark, and counts again with its new stream", () => {
  const it = Driven.following(first);
  it.confirm(100, { b: ["s1", 90], c: ["s1", 95] });
  it.report("b", [first], { incarnation: "2" });
  it.positions(110, { c: ["s1", 110] });
  assert.equal(mark(it, "global"), 90);
  it.positions(110, { b: ["s2", 90], c: ["s1", 110] });
  it.report("b", [first], { incarnation: "2" });
  it.positions(110, { b: ["s2", 105], c: ["s1", 110] });
  assert.equal(mark(it, "global"), 105);
});
