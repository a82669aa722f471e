// What the core reports beyond verdicts: what is at risk, levels that stall or change, delays, broken promises, what has
// become durable. And that the ledger of millions stays small.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Offset } from "@highwater/protocol";
import { count, Driven, epochId, off, record, txnId } from "../../test/support/core.ts";
import { Disk } from "../../test/support/disk.ts";
import { type Effect, exposure, heldCount, pendingAt, restore, type TrackerEvent } from "./index.ts";

const first = record(1);
const east = { gateway: "g-east", region: "east" };
const west = { gateway: "g-west", region: "west" };

type Announced = Extract<TrackerEvent, { kind: "announced" }>;

function announce(it: Driven, from: Announced["from"], ...items: Announced["items"]): readonly Effect[] {
  return it.send({ kind: "announced", ...(from === undefined ? {} : { from }), items });
}

const position = (n: number, offset: number, owner = 0n) =>
  ({ kind: "position", id: txnId(n), epoch: epochId(1), offset: off(offset), owner }) as const;

function effectsOf<K extends Effect["kind"]>(it: Driven, kind: K): Extract<Effect, { kind: K }>[] {
  return it.effects.filter((effect): effect is Extract<Effect, { kind: K }> => effect.kind === kind);
}

test("what is at risk is counted by region, gateway and owner, until the exposure level has it", () => {
  const it = new Driven({ exposureLevel: "region" });
  it.follow(first);
  assert.deepEqual(exposure(it.state).transactions, 0);
  assert.equal(exposure(it.state).oldestMs, null);
  announce(it, east, position(1, 80, 5n), position(2, 90, 5n));
  announce(it, west, position(3, 100, 7n));
  it.sleep(500);
  const at = exposure(it.state);
  assert.equal(at.transactions, 3);
  assert.equal(at.bytes, 90n, "from where the epoch begins");
  assert.deepEqual(at.byRegion, { east: 2, west: 1 });
  assert.deepEqual(at.byGateway, { "g-east": 2, "g-west": 1 });
  assert.deepEqual(at.byOwner, { "5": 2, "7": 1 });
  assert.ok((at.oldestMs ?? 0) >= 500);
  it.confirm(100, { b: ["s1", 90] });
  const later = exposure(it.state);
  assert.deepEqual([later.transactions, later.bytes], [1, 10n]);
  assert.deepEqual(
    later.byGateway,
    { "g-east": 0, "g-west": 1 },
    "a gateway that has nothing at risk is known still",
  );
  assert.deepEqual(later.byOwner, { "7": 1 });
});

test("values at risk are summed exactly, by unit, gateway and owner, until nothing of them is left", () => {
  const it = new Driven({ exposureLevel: "region" });
  const disk = new Disk(it.state);
  it.follow(first);
  const of = (n: number, atRisk: string, owner = 5n) =>
    ({
      kind: "intent",
      id: txnId(n),
      epoch: epochId(1),
      owner,
      by: `g.${String(n)}`,
      endsWithinMs: 1,
      atRisk,
    }) as const;
  announce(it, east, of(1, "0.10 EUR"), of(2, "0.20 EUR"), of(4, "3 BTC"));
  assert.equal(exposure(it.state).values, undefined, "not committed yet");
  announce(it, east, position(1, 80, 5n), position(2, 90, 5n), position(4, 95, 5n));
  // The position is here before the announcement that has the value.
  announce(it, west, position(3, 100, 7n));
  announce(it, west, of(3, "1000000000000000.01 EUR", 7n));
  assert.deepEqual(exposure(it.state).values, {
    EUR: {
      amount: "1000000000000000.31",
      byGateway: { "g-east": "0.3", "g-west": "1000000000000000.01" },
      byOwner: { "7": "1000000000000000.01", "5": "0.3" },
    },
    BTC: { amount: "3", byGateway: { "g-east": "3" }, byOwner: { "5": "3" } },
  });
  for (const effect of it.effects) disk.take(effect, it.state);
  const again = restore(it.state.config, it.nowMs, disk.read());
  assert.deepEqual(exposure(again).values, exposure(it.state).values);
  it.follow(first, record(2, { node: "b", fork: 85, start: 110, commanded: true }));
  assert.equal(exposure(it.state).values?.["EUR"]?.amount, "1000000000000000.31", "being looked up");
  it.answer(120);
  it.positions(130, {});
  it.sleep(20_000);
  assert.deepEqual(exposure(it.state).values?.["EUR"]?.byOwner, { "5": "0.1" }, "the others are lost");
});

test("what is at risk has no size where positions do not count bytes", () => {
  const it = new Driven({ exposureLevel: "region", countsBytes: false });
  it.follow(first);
  announce(it, east, position(1, 80, 5n));
  assert.deepEqual([exposure(it.state).transactions, exposure(it.state).bytes], [1, 0n]);
});

test("what is being looked up after a failover is at risk until its loss is published", () => {
  const it = new Driven({ exposureLevel: "region" });
  it.follow(first);
  announce(it, east, position(1, 80, 5n), position(2, 40, 5n));
  // Chosen by an operator, so that the loss is reported by the primary's disk alone.
  it.follow(first, record(2, { node: "b", fork: 50, start: 60, commanded: true }));
  assert.equal(exposure(it.state).transactions, 2);
  it.answer(70);
  assert.equal(exposure(it.state).transactions, 2, "proven absent, and not published");
  it.positions(70, {});
  it.sleep(20_000);
  assert.equal(it.stateOf(1, 1, 5n), "lost");
  assert.equal(exposure(it.state).transactions, 1, "the other was carried over, and waits");
});

test("an owner that comes back after its account was closed is counted once", () => {
  const it = new Driven({ exposureLevel: "region" });
  it.follow(first);
  announce(it, east, position(1, 80, 5n));
  // Durable at the exposure level, and it waits for another one.
  it.confirm(100, { b: ["s1", 100] });
  it.sleep(100);
  announce(it, east, position(2, 120, 5n));
  assert.deepEqual(exposure(it.state).byOwner, { "5": 1 });
  it.send({ kind: "configured", levels: it.state.config.levels, exposureLevel: "global" });
  assert.deepEqual(exposure(it.state).byOwner, { "5": 2 });
  it.confirm(130, { b: ["s1", 130], c: ["s2", 130] });
  assert.deepEqual(exposure(it.state).byOwner, {});
});

test("a level whose mark stands still while something waits is published as stalled, and as recovered when it moves", () => {
  const it = new Driven({ stallAfterMs: 1_000 });
  it.follow(first);
  it.confirm(50, { b: ["s1", 50], c: ["s2", 50] });
  it.sleep(60_000);
  assert.equal(effectsOf(it, "publish_stall").length, 0, "nothing waits");
  it.position(1, 1, 80);
  it.positions(80, { b: ["s1", 80] });
  for (let round = 0; round < 3; round++) it.sleep(600);
  assert.deepEqual(
    effectsOf(it, "publish_stall").map(({ isStalled, level, offset, pending }) => [
      isStalled,
      level,
      offset,
      pending,
    ]),
    [[true, "global", 50n, 1]],
    "once, and of this level alone",
  );
  it.positions(90, { b: ["s1", 80], c: ["s2", 60] });
  it.sleep(100);
  assert.deepEqual(
    effectsOf(it, "publish_stall")
      .slice(1)
      .map(({ isStalled, level, offset }) => [isStalled, level, offset]),
    [[false, "global", 60n]],
  );
  for (let round = 0; round < 3; round++) it.sleep(600);
  assert.equal(effectsOf(it, "publish_stall").at(-1)?.isStalled, true, "it stands still again");
});

test("a stall outlives a failover until the new epoch's mark moves, and nothing is published without a primary", () => {
  const it = new Driven({
    stallAfterMs: 1_000,
    levels: [{ name: "region", rule: { replicas: 1, outside: "region" } }],
  });
  it.follow(first);
  it.position(1, 1, 40);
  it.send({ kind: "authority_unsettled", reason: "test", split: false });
  for (let round = 0; round < 3; round++) it.sleep(600);
  assert.equal(effectsOf(it, "publish_stall").length, 0);
  it.follow(first);
  for (let round = 0; round < 3; round++) it.sleep(600);
  assert.equal(effectsOf(it, "publish_stall").length, 1);
  it.follow(first, record(2, { node: "b", fork: 50, start: 60 }));
  it.sleep(100);
  assert.equal(effectsOf(it, "publish_stall").length, 1, "the new epoch has no mark yet");
  it.confirm(70, { c: ["s1", 65] });
  it.sleep(100);
  assert.deepEqual(
    effectsOf(it, "publish_stall").map(({ isStalled }) => isStalled),
    [true, false],
  );
});

test("a transaction that is not durable in its time is published once, at its level or else the strongest", () => {
  const it = Driven.following(first);
  const delayed = (n: number, level?: string) =>
    ({
      kind: "intent",
      id: txnId(n),
      epoch: epochId(1),
      owner: 9n,
      maxDelayMs: 1_000,
      metadata: { order: String(n) },
      ...(level === undefined ? {} : { level }),
    }) as const;
  announce(it, east, delayed(1, "region"), position(1, 80, 9n), delayed(2), position(2, 80, 9n));
  announce(it, east, delayed(3, "region"), position(3, 200, 9n), delayed(4, "region"));
  it.confirm(100, { b: ["s1", 100] });
  it.sleep(900);
  assert.equal(effectsOf(it, "publish_delayed").length, 0);
  it.sleep(200);
  const late = effectsOf(it, "publish_delayed").map(({ published }) => published);
  assert.deepEqual(
    late.map(({ id }) => id),
    [txnId(2), txnId(3), txnId(4)],
  );
  assert.deepEqual(late[0]?.verdicts, {
    disk: "durable",
    zone: "durable",
    region: "durable",
    global: "pending",
  });
  assert.deepEqual([late[0]?.owner, late[0]?.metadata], [9n, { order: "2" }]);
  it.sleep(5_000);
  assert.equal(effectsOf(it, "publish_delayed").length, 3);
});

test("deadlines of what has left are not kept", () => {
  const it = new Driven({ levels: [{ name: "disk", rule: { primary: true } }], exposureLevel: "disk" });
  it.follow(first);
  for (let n = 1; n <= 5_000; n++) {
    const id = txnId(n);
    announce(
      it,
      east,
      { kind: "intent", id, epoch: epochId(1), maxDelayMs: 86_400_000 },
      position(n, 20 + n),
    );
  }
  it.positions(10_000);
  it.sleep(100);
  assert.equal(heldCount(it.state), 0);
  assert.ok(it.state.ledger.deadlines.size <= 1_024);
});

test("what becomes durable is published while a client or an endpoint wants it, and not otherwise", () => {
  const it = Driven.following(first);
  announce(it, east, position(1, 30, 3n));
  it.positions(40);
  assert.equal(effectsOf(it, "publish_durable").length, 0);
  it.send({ kind: "durable_wanted", wanted: true });
  announce(it, east, position(2, 60, 3n));
  it.confirm(60, { b: ["s1", 60] });
  announce(it, east, position(3, 50, 4n));
  const durable = effectsOf(it, "publish_durable").flatMap(({ level, items }) =>
    items.map(({ id, owner }) => `${level} ${String(Number(`0x${id.slice(-4)}`))} ${String(owner)}`),
  );
  const expected = [
    "disk 2 3",
    "disk 3 4",
    "region 1 3",
    "region 2 3",
    "region 3 4",
    "zone 1 3",
    "zone 2 3",
    "zone 3 4",
  ];
  assert.deepEqual(durable.sort(), expected);
});

test("a level that is added while the tracker runs waits for what is pending, and one that goes is forgotten", () => {
  const region = { name: "region", rule: { replicas: 1, outside: "region" } } as const;
  const two = { name: "two", rule: { replicas: 2, outside: "region" } } as const;
  const it = new Driven({ levels: [{ name: "disk", rule: { primary: true } }, region] });
  it.follow(first);
  it.position(1, 1, 80);
  it.confirm(100, { b: ["s1", 50] });
  assert.equal(
    count(it.send({ kind: "configured", levels: [region, two], exposureLevel: "two" }), "save_levels"),
    1,
  );
  assert.equal(pendingAt(it.state, "two"), 1);
  assert.equal(it.verdict(1, 1, 80, "two"), "pending");
  it.confirm(100, { b: ["s1", 90], c: ["s2", 90] });
  assert.equal(it.verdict(1, 1, 80, "two"), "durable");
  assert.equal(heldCount(it.state), 0);
});

test("a level whose rule becomes stricter keeps the mark that it has promised by", () => {
  const it = Driven.following(first);
  it.confirm(100, { b: ["s1", 100] });
  assert.equal(it.verdict(1, 1, 90, "region"), "durable");
  const levels = it.state.config.levels.map(({ name, rule }) =>
    name === "region" ? { name, rule: { replicas: 2, outside: "region" } as const } : { name, rule },
  );
  it.send({ kind: "configured", levels, exposureLevel: "region" });
  assert.equal(it.verdict(1, 1, 90, "region"), "durable");
  it.positions(200, { b: ["s1", 200] });
  assert.equal(it.verdict(1, 1, 150, "region"), "pending", "two are wanted from now on");
});

test("what is on disk means the same under levels in another order", () => {
  const it = new Driven({
    levels: [
      { name: "disk", rule: { primary: true } },
      { name: "zone", rule: { replicas: 1, outside: "zone" } },
    ],
  });
  const disk = new Disk(it.state);
  it.follow(first);
  it.position(1, 1, 80);
  it.positions(90);
  it.follow(first, record(2, { fork: 50, start: 60, cause: "promotion", node: "b" }));
  for (const effect of it.effects) disk.take(effect, it.state);
  const config = { ...it.state.config, levels: [...it.state.config.levels].reverse() };
  const again = restore(config, 1, { ...disk.read(), marks: [] });
  const [held] = again.ledger.entries.values();
  assert.equal(held?.reached, again.levelBits.get("disk"));
  assert.notEqual(held?.reached, 0);
});

test("a promise of more than the successor can have is published with its range, once", () => {
  const it = Driven.following(first);
  it.position(1, 1, 80);
  it.position(2, 1, 95);
  it.confirm(100, { b: ["s1", 90] });
  const second = record(2, { node: "c", cause: "promotion", fork: 50, start: 60, limit: 55 });
  it.follow(first, second);
  assert.deepEqual(
    effectsOf(it, "publish_broken_promise").map(({ level, epoch, from, to, transactions }) => [
      level,
      epoch,
      from,
      to,
      transactions,
    ]),
    [
      ["zone", epochId(1), 55n, 90n, 1],
      ["region", epochId(1), 55n, 90n, 1],
    ],
    "the primary's own disk has promised nothing against this",
  );
  it.answer(70);
  it.sleep(6_000);
  it.positions(70);
  assert.equal(it.verdict(1, 1, 80, "region"), "broken");
  assert.equal(effectsOf(it, "publish_broken_promise").length, 2);
});

test("a loss that breaks a promise publishes its range even where the limit does not exclude it", () => {
  const it = Driven.following(first);
  it.position(1, 1, 80);
  it.confirm(100, { b: ["s1", 90] });
  it.follow(first, record(2, { node: "c", cause: "promotion", fork: 50, start: 60, limit: 90 }));
  assert.equal(effectsOf(it, "publish_broken_promise").length, 0, "it may all be there");
  it.answer(70);
  it.sleep(6_000);
  it.positions(70);
  assert.deepEqual(
    effectsOf(it, "publish_broken_promise").map(({ level, from, to }) => [level, from, to]),
    [
      ["zone", 50n, 90n],
      ["region", 50n, 90n],
    ],
  );
});

test("a kept promise is not published as broken", () => {
  const it = Driven.following(first);
  it.position(1, 1, 80);
  it.confirm(100, { b: ["s1", 90] });
  it.follow(first, record(2, { node: "b", cause: "promotion", fork: 92, start: 95, limit: 92 }));
  assert.equal(effectsOf(it, "publish_broken_promise").length, 0);
});

test("the oldest of the backlog that are durable somewhere leave when there are too many", () => {
  const it = new Driven({ exposureLevel: "region", maxKept: 100 });
  it.follow(first);
  for (let n = 1; n <= 300; n++) it.position(n, 1, 20 + n);
  it.sleep(100);
  assert.equal(heldCount(it.state), 300, "the primary alone has them");
  it.confirm(1_000, { b: ["s1", 220] });
  it.sleep(100);
  assert.equal(heldCount(it.state), 100);
  assert.equal(exposure(it.state).transactions, 100);
});

test("a tracker that comes back goes on with what waited, and makes no entries of it", () => {
  const it = new Driven();
  const disk = new Disk(it.state);
  it.follow(first);
  for (let n = 1; n <= 50; n++) announce(it, east, position(n, 50 + n, 4n));
  it.confirm(200, { b: ["s1", 60] });
  for (const effect of it.effects) disk.take(effect, it.state);
  const again = new Driven();
  again.state = restore(again.state.config, again.nowMs, disk.read());
  assert.deepEqual(exposure(again.state).byGateway, exposure(it.state).byGateway);
  again.follow(first);
  assert.equal(again.state.ledger.entries.size, 0);
  assert.equal(heldCount(again.state), 50);
  again.confirm(200, { b: ["s2", 200], c: ["s3", 200] });
  assert.equal(heldCount(again.state), 0);
});

test("a broken promise that was found without a primary is published although the tracker was killed in between", () => {
  const it = new Driven();
  const disk = new Disk(it.state);
  it.follow(first);
  it.intent(1, 1);
  it.confirm(100, { b: ["s1", 90] });
  const second = record(2, { node: "c", cause: "promotion", fork: 50, start: 60 });
  it.follow(first, second);
  it.sleep(3_000);
  it.answer(70);
  it.sleep(6_000);
  it.positions(70);
  assert.equal(it.stateOf(1, 1), "lost");
  it.send({ kind: "authority_unsettled", reason: "test", split: false });
  const before = it.published.length;
  it.position(1, 1, 80);
  assert.equal(it.published.length, before, "there is no primary");
  for (const effect of it.effects) disk.take(effect, it.state);
  const again = new Driven();
  again.nowMs = it.nowMs;
  again.state = restore(again.state.config, it.nowMs, disk.read());
  again.follow(first, second);
  again.sleep(100);
  assert.equal(again.published[0]?.verdicts["region"], "broken");
});

test("a late announcement of what has left is not kept", () => {
  const it = Driven.following(first);
  announce(it, east, position(1, 80));
  it.confirm(100, { b: ["s1", 100], c: ["s2", 100] });
  assert.equal(heldCount(it.state), 0);
  assert.equal(count(announce(it, east, position(1, 80)), "save_waiting"), 0);
  assert.equal(heldCount(it.state), 0);
});

test("a hundred thousand that a mark passes leave in one step, with one word to the disk", () => {
  const it = Driven.following(first);
  const items = Array.from({ length: 100_000 }, (_, n) => position(n + 1, 100 + n));
  announce(it, east, ...items);
  it.confirm(50, { b: ["s1", 50], c: ["s2", 50] });
  const effects = it.positions(1_000_000, { b: ["s1", 500_000], c: ["s2", 500_000] });
  assert.equal(heldCount(it.state), 0);
  assert.deepEqual(
    effects.filter(({ kind }) => kind.startsWith("forget")),
    [{ kind: "forget_waiting", through: 100_099n as Offset }],
  );
  assert.equal(it.state.apply({ kind: "ticked", nowMs: it.nowMs + 1 }).length, 0);
});
