// Levels that count synchronous standbys. Goal: a mark is made only of what every node has that the HA manager may promote, by
// one report of the primary and by no earlier or later one.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type CoreConfig } from "./index.ts";
import { Driven, epochId, record, type SynchronousReport } from "../../test/support/core.ts";
import { reachableLevels, whyNotSynchronous } from "./index.ts";
import { wantsPositions } from "./ledger.ts";
import { markIn } from "./marks.ts";

const LEVELS: CoreConfig["levels"] = [
  { name: "disk", rule: { primary: true } },
  { name: "safe", rule: { synchronous: 1 } },
  { name: "safer", rule: { synchronous: 2 } },
];
type Streams = Record<string, readonly [string, number]>;

const listed = (...nodes: string[]): SynchronousReport => ({
  shown: nodes,
  candidates: { kind: "known", nodes },
});

/** The primary is `a`, with confirmed streams to the others. */
function withPrimary(
  streams: Streams = { b: ["b1", 20], c: ["c1", 30], d: ["d1", 40] },
  flushed = 50,
): Driven {
  const it = new Driven({ levels: LEVELS, exposureLevel: "safe" });
  it.follow(record(1));
  it.confirm(flushed, streams);
  return it;
}

const marks = (it: Driven, epoch = 1): (bigint | null)[] =>
  ["safe", "safer"].map((level) => markIn(it.state, epochId(epoch), level));

test("the mark is the lowest position of exactly those that are shown and listed", () => {
  const it = withPrimary();
  assert.deepEqual(marks(it), [null, null]);
  it.positions(50, { b: ["b1", 20], c: ["c1", 30] }, { synchronous: listed("c") });
  assert.deepEqual(marks(it), [30n, null]);
  it.positions(60, { b: ["b1", 55], c: ["c1", 51] }, { synchronous: listed("b", "c") });
  assert.deepEqual(marks(it), [30n, 51n], "two are another promise than one");
});

test("an asynchronous one does not count, however far it is, nor one that is only shown or only listed", () => {
  const it = withPrimary();
  const streams: Streams = { b: ["b1", 90], c: ["c1", 30] };
  const synchronousReport = (shown: string[], nodes: string[]): SynchronousReport => ({
    shown,
    candidates: { kind: "known", nodes },
  });
  for (const [shown, nodes] of [
    [["b"], []],
    [["b"], ["c"]],
    [["b", "c"], ["b"]],
    [["b"], ["b", "c"]],
    [[], ["b"]],
    [[], []],
  ] as [string[], string[]][]) {
    it.positions(100, streams, { synchronous: synchronousReport(shown, nodes) });
    assert.deepEqual(marks(it), [null, null], `${shown.join()} shown, ${nodes.join()} listed`);
  }
  assert.match(whyNotSynchronous(it.state, "safe") ?? "", /there is no synchronous standby/);
  it.positions(100, streams, { synchronous: listed("c") });
  assert.deepEqual(marks(it), [30n, null]);
});

test("nothing is known without the manager's word, or when it is that it does not know", () => {
  const it = withPrimary();
  const streams: Streams = { b: ["b1", 90] };
  it.positions(100, streams, { synchronous: { shown: ["b"] } });
  assert.match(whyNotSynchronous(it.state, "safe") ?? "", /nobody was asked/);
  const reason = "synchronous_mode is off";
  it.positions(100, streams, { synchronous: { shown: ["b"], candidates: { kind: "unknown", reason } } });
  assert.deepEqual([marks(it), whyNotSynchronous(it.state, "safe")], [[null, null], reason]);
});

test("a stream that is not confirmed in this epoch does not count, nor an unfit node or one that is not configured", () => {
  const it = withPrimary({ b: ["b1", 20] });
  it.positions(50, { b: ["b1", 20], c: ["c1", 30] }, { synchronous: listed("c") });
  assert.match(whyNotSynchronous(it.state, "safe") ?? "", /stream of c is not confirmed/);
  it.positions(50, { b: ["b2", 40] }, { synchronous: listed("b") });
  assert.match(whyNotSynchronous(it.state, "safe") ?? "", /stream of b is not confirmed/);
  it.positions(50, { x: ["x1", 40] }, { synchronous: listed("x") });
  assert.match(whyNotSynchronous(it.state, "safe") ?? "", /x is no configured node/);
  it.report("b", it.state.topology.ancestry, { unfit: true });
  it.positions(50, { b: ["b1", 45] }, { synchronous: listed("b") });
  assert.match(whyNotSynchronous(it.state, "safe") ?? "", /b is unfit/);
  assert.deepEqual(marks(it), [null, null]);
});

test("positions of a later word do not count with the set of an earlier one", () => {
  const it = withPrimary();
  it.positions(50, { b: ["b1", 30], c: ["c1", 30] }, { synchronous: listed("b") });
  // Cut off from the list of candidates, the primary goes on collecting.
  it.positions(90, { b: ["b1", 90], c: ["c1", 30] }, { synchronous: { shown: ["b"] } });
  it.positions(90, { b: ["b1", 90], c: ["c1", 30] }, { synchronous: listed("c") });
  it.sleep(100);
  it.send({ kind: "configured", levels: LEVELS, exposureLevel: "safe" });
  assert.deepEqual(marks(it), [30n, null]);
});

test("a level that is added later rises by the newest word as a whole", () => {
  const it = new Driven({ levels: LEVELS.slice(0, 1), exposureLevel: "disk" });
  it.follow(record(1));
  it.confirm(50, { b: ["b1", 20], c: ["c1", 30] });
  it.positions(50, { b: ["b1", 20], c: ["c1", 30] }, { synchronous: listed("b") });
  it.positions(50, { b: ["b1", 40], c: ["c1", 30] }, { synchronous: { shown: ["b"] } });
  it.send({ kind: "configured", levels: LEVELS, exposureLevel: "safe" });
  assert.deepEqual(marks(it), [null, null]);
  it.positions(50, { b: ["b1", 40], c: ["c1", 30] }, { synchronous: listed("b") });
  assert.deepEqual(marks(it), [40n, null]);
});

test("a mark does not fall when another one becomes synchronous, and nothing of it is left in the next epoch", () => {
  const it = withPrimary();
  it.positions(50, { b: ["b1", 50], c: ["c1", 45] }, { synchronous: listed("b") });
  it.positions(50, { b: ["b1", 50], c: ["c1", 48] }, { synchronous: listed("c") });
  assert.deepEqual(marks(it), [50n, null]);
  it.follow(record(1), record(2, { fork: 50, start: 60 }));
  assert.deepEqual(
    [marks(it), marks(it, 2)],
    [
      [50n, null],
      [null, null],
    ],
  );
  assert.match(whyNotSynchronous(it.state, "safe") ?? "", /not been asked in this epoch/);
});

test("a loss breaks the promise, and a transaction is durable by it until then", () => {
  const it = withPrimary();
  it.position(1, 1, 40);
  it.positions(50, { b: ["b1", 50] }, { synchronous: listed("b") });
  assert.equal(it.verdict(1, 1, 40, "safe"), "durable");
  // The manager was ordered to promote a node that was not synchronous.
  it.report("c", [record(1), record(2, { node: "c", cause: "promotion", fork: 30, limit: 30, start: 60 })], {
    role: "primary",
  });
  it.send({ kind: "epoch_followed", epoch: epochId(2), node: "c" });
  const broken = it.effects.filter(({ kind }) => kind === "publish_broken_promise");
  assert.deepEqual(
    broken.map(
      (effect) => effect.kind === "publish_broken_promise" && [effect.level, effect.from, effect.to],
    ),
    [["safe", 30n, 50n]],
  );
});

test("nothing is looked at closely while the manager has to act first; while only a stream is unconfirmed it is", () => {
  const it = new Driven({ levels: LEVELS.slice(0, 2), exposureLevel: "safe" });
  it.follow(record(1));
  for (const node of ["b", "c"]) it.report(node, it.state.topology.ancestry);
  assert.deepEqual(reachableLevels(it.state), ["disk", "safe"]);
  it.position(1, 1, 40);
  assert.ok(wantsPositions(it.state), "no one has looked yet");
  it.positions(50, { b: ["b1", 20] }, { synchronous: listed("b") });
  assert.ok(wantsPositions(it.state), "the stream of b is unconfirmed");
  it.positions(
    50,
    { b: ["b1", 20] },
    { synchronous: { shown: [], candidates: { kind: "known", nodes: ["b"] } } },
  );
  assert.ok(!wantsPositions(it.state));
  it.positions(50, { b: ["b1", 20], c: ["c1", 30] }, { synchronous: listed("b", "c") });
  it.report("c", it.state.topology.ancestry);
  it.report("b", it.state.topology.ancestry);
  it.positions(50, { b: ["b1", 20], c: ["c1", 30] }, { synchronous: listed("b", "c") });
  assert.ok(!wantsPositions(it.state));
  assert.match(
    whyNotSynchronous(it.state, "safe") ?? "",
    /asks for 1 synchronous standbys, and the HA manager keeps 2/,
  );
});

test("each of those that were listed has everything up to the mark when it is promoted", () => {
  // The manager changes its list whenever it likes, as long as who comes new has by then what the primary had on disk.
  const move = fc.record({
    flush: fc.nat({ max: 5 }),
    b: fc.nat({ max: 9 }),
    c: fc.nat({ max: 9 }),
    d: fc.nat({ max: 9 }),
  });
  const act = fc.oneof(
    { weight: 4, arbitrary: move },
    { weight: 1, arbitrary: fc.constantFrom("b" as const, "c" as const, "d" as const) },
    { weight: 1, arbitrary: fc.constant("stale" as const) },
  );
  let advances = 0;
  fc.assert(
    fc.property(fc.array(act, { minLength: 5, maxLength: 40 }), (acts) => {
      const has = { b: 20, c: 20, d: 20 };
      let [flushed, sync, wasSync] = [20, "b" as keyof typeof has, "b" as keyof typeof has];
      const it = withPrimary({ b: ["b1", 20], c: ["c1", 20], d: ["d1", 20] }, flushed);
      for (const one of acts) {
        let shown = sync;
        if (one === "stale") shown = wasSync;
        else if (typeof one === "string") {
          wasSync = sync;
          sync = shown = one;
          has[one] = flushed;
        } else {
          flushed += one.flush;
          for (const node of ["b", "c", "d"] as const) has[node] = Math.min(flushed, has[node] + one[node]);
        }
        const before = markIn(it.state, epochId(1), "safe");
        const streams = { b: ["b1", has.b], c: ["c1", has.c], d: ["d1", has.d] } as const;
        it.positions(flushed, streams, {
          synchronous: { shown: [shown], candidates: { kind: "known", nodes: [sync] } },
        });
        const mark = markIn(it.state, epochId(1), "safe");
        assert.ok(mark === null || mark <= BigInt(has[sync]), "it may be promoted now");
        assert.ok(before === null || (mark ?? 0n) >= before);
        if (mark !== before) advances++;
      }
    }),
    { seed: 27, numRuns: 500 },
  );
  assert.ok(advances > 500);
});
