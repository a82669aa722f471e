// The ledger's own life: intents and what becomes of them, who leaves and when, help for the flush, and memory.
import assert from "node:assert/strict";
import { test } from "node:test";
import { count, Driven, epochId, record, txnId } from "../../test/support/core.ts";
import { type CoreConfig, heldCount, inDoubt, judge, pendingAt, wantsPositions } from "./index.ts";

const first = record(1);
const second = record(2, { node: "b", fork: 50, start: 60 });
const DISK_ONLY: Partial<CoreConfig> = { levels: [{ name: "disk", rule: { primary: true } }] };
const DISK_AND_REGION: Partial<CoreConfig> = {
  levels: [
    { name: "disk", rule: { primary: true } },
    { name: "region", rule: { replicas: 1, outside: "region" } },
  ],
};

test("an intent without a position is settled after intentPatienceMs, and leaves if it never committed", () => {
  const it = Driven.following(first);
  it.intent(1, 1);
  it.sleep(89_000);
  assert.equal(it.reads.length, 0);
  it.sleep(2_000);
  assert.equal(it.reads[0]?.tombstone, "aborted", "in a living epoch nothing is lost");
  it.answer(50);
  assert.equal(it.stateOf(1, 1), undefined);
  assert.equal(it.published.length, 0);
});

test("an intent that had committed is found by its receipt", () => {
  const it = Driven.following(first);
  it.intent(1, 1);
  it.sleep(91_000);
  it.answer(50, { 1: { kind: "commit", epoch: epochId(1) } });
  assert.equal(it.stateOf(1, 1), "pending");
  it.positions(50);
  assert.equal(it.verdict(1, 1, 40, "disk"), "durable");
});

test("an intent whose id somebody else has settled as lost never committed in this epoch, and is not lost", () => {
  const it = Driven.following(first);
  it.intent(1, 1);
  it.sleep(91_000);
  it.answer(50, { 1: { kind: "lost", epoch: epochId(1) } });
  it.positions(60);
  assert.equal(it.stateOf(1, 1), undefined);
  assert.equal(it.published.length, 0);
});

test("the refused repetition of a lost id is not lost with the epoch in which it was refused", () => {
  const third = record(3, { fork: 90, start: 95 });
  for (const settledIn of [1, 2]) {
    const it = Driven.following(first);
    it.follow(first, second);
    it.intent(1, 2);
    it.follow(first, second, third);
    it.sleep(3_000);
    it.answer(100, { 1: { kind: "lost", epoch: epochId(settledIn) } });
    it.positions(110);
    assert.equal(it.stateOf(1, 2), undefined, `settled in epoch ${String(settledIn)}`);
    assert.equal(it.published.length, 0);
  }
});

test("an intent that may have committed before its epoch's end is lost when it was settled after that", () => {
  const it = new Driven(DISK_ONLY);
  it.follow(first);
  it.intent(1, 1);
  it.follow(first, second);
  it.sleep(3_000);
  it.answer(70, { 1: { kind: "lost", epoch: epochId(2) } });
  it.positions(80);
  assert.equal(it.published.length, 1);
});

test("after its epoch's end an intent has its grace, and then it is looked up", () => {
  const it = Driven.following(first);
  it.intent(1, 1);
  it.intent(2, 1);
  it.sleep(60_000);
  it.follow(first, second);
  it.sleep(1_000);
  assert.equal(it.reads.length, 0, "its gateway may yet withdraw it");
  it.announce({ kind: "withdrawn", id: txnId(1), epoch: epochId(1) });
  assert.equal(it.stateOf(1, 1), undefined);
  it.sleep(1_500);
  assert.deepEqual(it.reads[0]?.of, [{ id: txnId(2), owner: 0n }]);
  assert.equal(it.reads[0]?.tombstone, "lost");
  it.intent(3, 1);
  it.sleep(1_000);
  assert.equal(it.reads.length, 1, "one that arrives late has its grace as well");
  it.sleep(1_500);
  assert.equal(it.reads.length, 2);
});

test("an intent that was run again and never seen to commit leaves silently", () => {
  const it = Driven.following(first);
  it.intent(1, 1);
  it.follow(first, second);
  it.sleep(5_000);
  it.answer(75, { 1: { kind: "commit", epoch: epochId(2) } });
  it.positions(80);
  assert.equal(it.stateOf(1, 1), undefined);
  assert.equal(it.published.length, 0);
});

test("withdrawn means nothing once there is a position", () => {
  const it = Driven.following(first);
  it.position(1, 1, 80);
  it.announce({ kind: "withdrawn", id: txnId(1), epoch: epochId(1) });
  assert.equal(it.stateOf(1, 1), "pending");
});

const by = (n: number, name: string, endsWithinMs = 0) =>
  ({ kind: "intent", id: txnId(n), epoch: epochId(1), by: name, endsWithinMs }) as const;
const takenBack = (n: number, name: string) =>
  ({ kind: "withdrawn", id: txnId(n), epoch: epochId(1), by: name }) as const;

test("a withdrawal takes back what its own attempt announced, in whatever order the two arrive", () => {
  for (const [order, isLeft] of [
    [[by(1, "g1"), by(1, "g2"), takenBack(1, "g1")], true],
    [[by(1, "g1"), takenBack(1, "g1"), by(1, "g2")], true],
    [[by(1, "g2"), by(1, "g1"), takenBack(1, "g1")], true],
    [[by(1, "g2"), takenBack(1, "g1")], true],
    [[by(1, "g1"), by(1, "g1"), by(1, "g2"), takenBack(1, "g1"), takenBack(1, "g1")], true],
    [[by(1, "g1"), by(1, "g2"), takenBack(1, "g1"), takenBack(1, "g2")], false],
    [[by(1, "g1"), by(1, "g1"), takenBack(1, "g1")], false],
  ] as const) {
    const it = Driven.following(first);
    it.announce(...order);
    assert.equal(it.stateOf(1, 1), isLeft ? "intent" : undefined, JSON.stringify(order));
  }
});

test("with many attempts of one id none is taken back, and the position of one counts", () => {
  const it = Driven.following(first);
  const names = Array.from({ length: 100 }, (_, n) => `g${String(n)}`);
  it.announce(...names.map((name) => by(1, name)));
  it.announce(...names.map((name) => takenBack(1, name)));
  assert.equal(it.stateOf(1, 1), "intent");
  it.position(1, 1, 80);
  it.announce(takenBack(1, "g99"));
  assert.equal(it.stateOf(1, 1), "pending");
});

test("an intent is settled after the last deadline of those who announced it, however short the patience", () => {
  const it = Driven.following(first);
  it.announce(by(1, "g1", 3_600_000), by(2, "g1", 1_000));
  it.sleep(91_000);
  assert.deepEqual(
    it.reads.map(({ of }) => of.map(({ id }) => id)),
    [[txnId(2)]],
  );
  it.answer(50);
  it.announce(by(1, "g2", 3_600_000));
  it.sleep(3_600_000 - 91_000 + 1_000);
  assert.equal(it.reads.length, 0, "the second sender has as long from its own start");
  it.sleep(91_000);
  assert.deepEqual(
    it.reads.map(({ of, tombstone }) => [of.map(({ id }) => id), tombstone]),
    [[[txnId(1)], "aborted"]],
  );
});

test("an id that a living attempt holds is asked about again, and not at once", () => {
  const it = Driven.following(first);
  it.intent(1, 1);
  const counted = { intent: 0, unproven: 0, absent: 0, unplaced: 0 };
  assert.deepEqual(inDoubt(it.state), { ...counted, intent: 1 });
  it.sleep(91_000);
  assert.deepEqual(inDoubt(it.state), { ...counted, unproven: 1 }, "while it is looked up");
  it.answer(50, { 1: { kind: "held" } });
  it.positions(60);
  assert.equal(it.reads.length, 0);
  assert.equal(it.stateOf(1, 1), "unproven");
  assert.deepEqual(inDoubt(it.state), { ...counted, unproven: 1 }, "while another attempt holds it");
  it.sleep(1_000);
  assert.equal(it.reads.length, 1);
  it.answer(70, { 1: { kind: "commit", epoch: epochId(1) } });
  assert.equal(it.stateOf(1, 1), "pending");
  assert.deepEqual(inDoubt(it.state), counted);
});

test("metadata that follows the position is kept for the webhook", () => {
  const it = Driven.following(first);
  it.position(1, 1, 80);
  it.announce({ kind: "intent", id: txnId(1), epoch: epochId(1), metadata: { order: "7" } });
  it.follow(first, second);
  it.answer(75);
  it.positions(80);
  assert.deepEqual(it.published[0]?.metadata, { order: "7" });
});

test("entries leave when they are durable everywhere, and the token is judged without them", () => {
  const it = new Driven(DISK_AND_REGION);
  it.follow(first);
  it.intent(1, 1);
  it.position(1, 1, 80);
  it.confirm(100, { b: ["s1", 79] });
  assert.equal(it.stateOf(1, 1), "pending");
  const effects = it.positions(100, { b: ["s1", 80] });
  assert.equal(count(effects, "forget_waiting"), 1);
  assert.equal(heldCount(it.state), 0);
  assert.equal(it.verdict(1, 1, 80, "region"), "durable");
});

test("a position that the marks have already passed comes and goes in one step", () => {
  const it = new Driven(DISK_ONLY);
  it.follow(first);
  it.positions(100);
  const effects = it.position(1, 1, 100);
  assert.deepEqual(
    effects.map(({ kind }) => kind),
    ["publish_lag"],
  );
  it.intent(2, 1);
  assert.equal(count(it.position(2, 1, 100), "forget"), 1);
  assert.equal(heldCount(it.state), 0);
  it.position(1, 1, 101);
  assert.equal(heldCount(it.state), 1);
});

test("what is durable beyond the primary leaves after keepDurableMs, whatever the other levels do", () => {
  const it = Driven.following(first);
  it.position(1, 1, 80);
  it.position(2, 1, 200);
  it.confirm(300, { b: ["s1", 100] });
  it.sleep(3_599_000);
  assert.equal(heldCount(it.state), 2);
  it.sleep(2_000);
  assert.equal(it.stateOf(1, 1), undefined);
  assert.equal(it.stateOf(2, 1), "pending", "on the primary alone is not durable enough");
  assert.equal(it.verdict(1, 1, 80, "region"), "durable");
  assert.equal(it.verdict(1, 1, 80, "global"), "pending");
});

test("old entries that have to stay do not keep others from leaving", () => {
  const it = new Driven({ batch: 5_000 });
  it.follow(first);
  for (let n = 1; n <= 1_500; n++) it.position(n, 1, 1_000);
  it.follow(first, second);
  it.answer(75);
  it.positions(80);
  it.sleep(1);
  assert.equal(it.published.length, 1_500);
  it.position(2_000, 2, 90);
  it.confirm(100, { c: ["s1", 100] });
  it.sleep(3_700_000);
  it.sleep(1);
  it.sleep(1);
  assert.equal(it.stateOf(2_000, 2), undefined);
  assert.equal(heldCount(it.state), 1_500);
});

test("a level that is out of reach for long does not keep what has left in memory", () => {
  const it = new Driven({ keepDurableMs: 1_000 });
  it.follow(first);
  it.confirm(10, { b: ["s1", 10] });
  for (let n = 1; n <= 5_000; n++) it.position(n, 1, 10 + n);
  it.confirm(6_000, { b: ["s1", 6_000] });
  for (let round = 0; round < 10; round++) it.sleep(1_000);
  assert.equal(heldCount(it.state), 0);
  assert.ok(pendingAt(it.state, "global") <= 1_024);
  it.position(9_000, 1, 7_000);
  it.position(9_001, 1, 6_999);
  it.sleep(1);
  it.confirm(8_000, { b: ["s1", 8_000], c: ["s2", 8_000] });
  assert.equal(heldCount(it.state), 0, "and those that wait are still found");
});

test("verdicts are remembered for keepVerdictMs", () => {
  const it = Driven.following(first);
  it.position(1, 1, 80);
  it.follow(first, second);
  it.answer(75);
  it.positions(80);
  it.sleep(86_399_000);
  assert.equal(it.stateOf(1, 1), "lost");
  it.sleep(2_000);
  assert.equal(it.stateOf(1, 1), undefined);
});

test("exactly one help_flush is in flight while something is pending, and none when nothing is", () => {
  const it = Driven.following(first);
  it.positions(50);
  it.sleep(100);
  assert.equal(count(it.positions(50), "help_flush"), 0, "nothing is pending");
  it.position(1, 1, 80);
  assert.equal(count(it.positions(50), "help_flush"), 0, "its gateway's own flush is on its way");
  it.sleep(30);
  assert.equal(count(it.positions(50), "help_flush"), 1);
  it.sleep(30);
  assert.equal(count(it.positions(60), "help_flush"), 0, "one is in flight");
  it.send({ kind: "flush_helped", epoch: epochId(1) });
  assert.equal(count(it.positions(60), "help_flush"), 1);
  it.send({ kind: "flush_helped" });
  it.sleep(30);
  assert.equal(count(it.positions(80), "help_flush"), 0, "all of it is on the primary's disk");
});

test("the end of an older epoch's flush help does not start a second one", () => {
  const it = Driven.following(first);
  it.position(1, 1, 80);
  it.positions(50);
  it.sleep(30);
  assert.equal(count(it.positions(50), "help_flush"), 1);
  it.follow(first, second);
  it.position(2, 2, 90);
  it.positions(60);
  it.sleep(30);
  assert.equal(count(it.positions(60), "help_flush"), 1);
  it.send({ kind: "flush_helped", epoch: epochId(1) });
  assert.equal(count(it.positions(60), "help_flush"), 0);
  it.send({ kind: "flush_helped", epoch: epochId(2) });
  assert.equal(count(it.positions(60), "help_flush"), 1);
});

test("receipts are asked for in batches, each id once, and again when they could not be read", () => {
  const it = new Driven({ batch: 2 });
  it.follow(first);
  for (let n = 1; n <= 5; n++) it.position(n, 1, 80 + n);
  const effects = it.follow(first, second);
  assert.equal(count(effects, "read_receipts"), 3);
  const ids = it.reads.flatMap((read) => read.of.map(({ id }) => id));
  assert.equal(new Set(ids).size, 5);
  const [read] = it.reads.splice(0, 1);
  const again = it.send({ kind: "receipts_unread", request: read?.request ?? 0 });
  assert.equal(count(again, "read_receipts"), 1);
});

test("an answer of an adapter that has settled nothing proves nothing", () => {
  const it = Driven.following(first);
  it.position(1, 1, 80);
  it.follow(first, second);
  it.answer(75, { 1: { kind: "absent" } });
  it.positions(80);
  assert.equal(it.stateOf(1, 1), "asked");
  assert.equal(it.published.length, 0);
});

test("positions are wanted while something waits at a level that can be reached", () => {
  const it = Driven.following(first);
  it.positions(50);
  assert.equal(wantsPositions(it.state), false);
  it.position(1, 1, 80);
  assert.equal(wantsPositions(it.state), true);
  it.positions(80);
  assert.equal(wantsPositions(it.state), false, "only the primary is alive, and it has it");
  it.report("b", [first]);
  assert.equal(wantsPositions(it.state), true);
});

test("the token of an unknown id is pending, and the ledger keeps nothing of it", () => {
  const it = Driven.following(first);
  const position = { epoch: epochId(1), offset: 80n as never };
  const judged = judge(
    it.state,
    { id: txnId(1), owner: 0n, attempt: epochId(1), kind: "write", position },
    "disk",
  );
  assert.equal(judged.verdict, "pending");
  assert.equal(judged.needsProof, false);
  assert.equal(heldCount(it.state), 0);
});
