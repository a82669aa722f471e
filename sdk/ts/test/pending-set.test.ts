// The book of what is pending: what it asks, and what it does with answers. The effects of marks and verdicts are in
// sdk/conformance/vectors/judgements.json, which every language plays.
import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import {
  type PendingPromise,
  makeEntry,
  PendingSet,
  type Settled,
  type Settlement,
  type Wait,
} from "../src/pending-set.ts";
import { newTransactionId } from "../src/index.ts";
import { type Marks } from "../src/wire.ts";
import { E1, E2, E3, FORK, marks, verdictOf } from "./support.ts";

let pendingSet: PendingSet;
beforeEach(() => {
  pendingSet = new PendingSet();
});

/** Reported by `settled` results, in order: `id level verdict`, with offsets for ids. */
const shown = (settled: readonly Settled[]): string[] =>
  settled.map(({ wait: { entry, level }, settlement }) =>
    [entry.token, level, settlement instanceof Error ? "refused" : settlement.verdict].join(" "),
  );

function watch(
  offset: number,
  options: { epoch?: string; level?: string; nowMs?: number } = {},
): PendingPromise {
  const { epoch: at = E1, level = "region", nowMs = 0 } = options;
  const position = { epoch: at, offset: String(offset) };
  const entry = makeEntry(String(offset), { id: newTransactionId(), position, nowMs });
  if (pendingSet.known(entry, level) === undefined) pendingSet.watch(entry, level, () => undefined, nowMs);
  return entry;
}

const asked = (): string[] => pendingSet.takeToAsk(100).map(({ entry }) => entry.token);
const learnMarks = (learned: Marks): readonly Settled[] => {
  pendingSet.learnMarks(learned);
  return pendingSet.takeSettled();
};
const learnEpoch = (id: string, seq: number): readonly Settled[] => {
  pendingSet.learnEpoch(id, seq);
  return pendingSet.takeSettled();
};
const judge = (wait: Wait, answer: Settlement): readonly Settled[] => {
  pendingSet.judge(wait, answer);
  return pendingSet.takeSettled();
};
const onlyWait = (entry: PendingPromise): Wait => {
  const [wait] = entry.waits.values();
  assert.ok(wait !== undefined);
  return wait;
};

describe("marks", () => {
  test("a question is about one level", () => {
    learnEpoch(E2, 2);
    watch(10);
    watch(20, { level: "global" });
    watch(30);
    assert.deepEqual([asked(), asked(), asked()], [["10", "30"], ["20"], []]);
  });

  test("a level that the client has never seen is asked about: it may be misspelt", () => {
    watch(10, { level: "regoin" });
    assert.deepEqual(asked(), []);
    learnMarks(marks(E1, { region: 5 }));
    assert.deepEqual(asked(), ["10"]);
  });

  test("a level that is seen later is asked about until then, and no longer", () => {
    watch(10, { level: "zone" });
    learnMarks(marks(E1, { region: 5 }));
    assert.equal(pendingSet.toAsk.size, 1);
    learnMarks(marks(E1, { zone: 1 }));
    assert.equal(pendingSet.toAsk.size, 0);
    assert.deepEqual(shown(learnMarks(marks(E1, { zone: 10 }))), ["10 zone durable"]);
  });

  test("the newest marks merge what arrived in any order", () => {
    assert.equal(pendingSet.marks, null);
    learnMarks(marks(E1, { region: 5, disk: 9 }));
    learnMarks(marks(E1, { region: 7, disk: 8 }));
    assert.deepEqual(pendingSet.marks, marks(E1, { region: 7, disk: 9 }));
    learnEpoch(E2, 2);
    assert.equal(pendingSet.marks, null, "an epoch without marks has none, whatever the one before had");
    learnMarks(marks(E2, { disk: 61 }));
    learnMarks(marks(E1, { disk: 10 }));
    assert.deepEqual(pendingSet.marks, marks(E2, { disk: 61 }));
  });

  test("a mark changes nothing about who is to be asked, whether it settles one or none", () => {
    const [near] = [watch(10), watch(90)];
    learnMarks(marks(E1, { region: 1 }));
    pendingSet.recheck(0);
    assert.equal(pendingSet.toAsk.size, 2);
    learnMarks(marks(E1, { region: 5 }));
    assert.deepEqual(shown(learnMarks(marks(E1, { region: 20 }))), [`${near.token} region durable`]);
    assert.deepEqual(asked(), ["90"]);
  });
});

describe("epochs", () => {
  test("a new epoch: nothing of the old one is settled by marks, of either; the tracker is asked about all", () => {
    watch(50);
    watch(70);
    assert.deepEqual(learnEpoch(E2, 2), []);
    assert.deepEqual(learnMarks(marks(E2, { region: 500 })), []);
    assert.deepEqual(learnMarks(marks(E1, { region: 500 })), [], "an epoch that is over");
    watch(80);
    assert.deepEqual(asked(), ["50", "70", "80"]);
  });

  test("what was durable before a new epoch stays so; what was not is not, though an old mark had passed it", () => {
    learnMarks(marks(E1, { region: 40 }));
    const [before, after] = [watch(30), watch(31)];
    assert.equal(pendingSet.known(before, "region")?.verdict, "durable");
    learnEpoch(E2, 2);
    assert.equal(pendingSet.known(before, "region")?.verdict, "durable");
    assert.equal(
      pendingSet.known(after, "region")?.verdict,
      "durable",
      "was known when it began to be waited for",
    );
    const late = watch(32);
    assert.equal(pendingSet.known(late, "region"), undefined);
    assert.deepEqual(asked(), ["32"]);
  });

  test("a promise of an epoch that no tracker has announced yet is asked about, and settled by its own marks", () => {
    learnMarks(marks(E1, { region: 500 }));
    watch(10, { epoch: E2 });
    assert.deepEqual(asked(), ["10"]);
    assert.deepEqual(shown(learnMarks(marks(E2, { region: 10 }))), ["10 region durable"]);
  });

  test("a tracker that lags reports an epoch that is over: nothing changes", () => {
    learnEpoch(E2, 2);
    watch(70, { epoch: E2 });
    assert.deepEqual(learnMarks(marks(E1, { region: 500 })), []);
    assert.deepEqual(learnEpoch(E1, 1), []);
    assert.deepEqual([pendingSet.epoch, pendingSet.toAsk.size], [E2, 0]);
  });

  test("two epochs with the same number: whichever is announced last, promises of the other are asked about", () => {
    const ours = { ...marks(E2, { region: 5 }), seq: 2 };
    const theirs = { ...marks(FORK, { region: 500 }), seq: 2 };
    learnMarks(ours);
    watch(10, { epoch: E2 });
    assert.deepEqual(learnMarks(theirs), []);
    assert.deepEqual(asked(), ["10"]);
    assert.deepEqual(shown(learnMarks({ ...ours, levels: { region: "10" } })), ["10 region durable"]);
  });

  test("before any epoch is announced, there is nothing to ask", () => {
    watch(10);
    assert.equal(pendingSet.toAsk.size, 0);
    assert.deepEqual(learnMarks(marks(E1, { region: 5 })), []);
    assert.equal(pendingSet.toAsk.size, 0);
  });
});

describe("verdicts", () => {
  test("pending: the tracker's place is taken on, and asked about again until marks are enough", () => {
    learnEpoch(E2, 2);
    const entry = watch(51);
    const wait = onlyWait(entry);
    for (let round = 0; round < 3; round++) {
      assert.deepEqual(asked(), ["51"]);
      assert.deepEqual(judge(wait, verdictOf(entry, "pending", { offset: 51 })), []);
      assert.deepEqual(asked(), [], "not before it is given back");
      pendingSet.giveBack(wait);
    }
    assert.deepEqual(asked(), ["51"]);
    judge(wait, verdictOf(entry, "pending", { epoch: E2, offset: 77 }));
    pendingSet.giveBack(wait);
    assert.equal(pendingSet.toAsk.size, 0);
    assert.deepEqual(shown(learnMarks(marks(E2, { region: 77 }))), ["51 region durable"]);
  });

  test("pending where the marks have been already is durable", () => {
    learnEpoch(E2, 2);
    const entry = watch(51);
    learnMarks(marks(E2, { region: 80 }));
    const settled = judge(onlyWait(entry), verdictOf(entry, "pending", { epoch: E2, offset: 77 }));
    assert.deepEqual(shown(settled), ["51 region durable"]);
  });

  test("lost settles every level that was not durable, and stays", () => {
    const entry = watch(51);
    for (const level of ["disk", "global"]) pendingSet.watch(entry, level, () => undefined, 0);
    learnMarks(marks(E1, { disk: 51, region: 0, global: 0 }));
    const wait = onlyWait(entry);
    const settled = judge(wait, verdictOf(entry, "lost"));
    assert.deepEqual(shown(settled), ["51 region lost", "51 global lost"]);
    assert.deepEqual(
      settled.map(({ isLoss }) => isLoss),
      [true, false],
    );
    assert.equal(pendingSet.entries.size, 0);
    assert.equal(pendingSet.known(entry, "disk")?.verdict, "durable");
    assert.deepEqual(pendingSet.known(entry, "zone"), verdictOf(entry, "lost"));
    assert.deepEqual(judge(wait, verdictOf(entry, "durable")), [], "an answer too late");
  });

  test("a promise is broken at the level that its verdict names, even if waits use others", () => {
    const entry = watch(51);
    pendingSet.watch(entry, "global", () => undefined, 0);
    const verdict = verdictOf(entry, "broken");
    const settled = judge(onlyWait(entry), verdict);
    assert.deepEqual(shown(settled), ["51 region broken", "51 global broken"]);
    for (const { settlement } of settled) assert.deepEqual(settlement, verdict);
    assert.deepEqual(pendingSet.known(entry, "zone"), verdict);
  });

  test("expired and unknown end the wait at their level, and are asked again next time", () => {
    for (const verdict of ["expired", "unknown"] as const) {
      const entry = watch(51);
      assert.deepEqual(shown(judge(onlyWait(entry), verdictOf(entry, verdict))), [`51 region ${verdict}`]);
      assert.equal(pendingSet.known(entry, "region"), undefined);
    }
  });

  test("no answer: asked again later, and not twice at once", () => {
    learnEpoch(E2, 2);
    const entry = watch(51);
    assert.deepEqual(asked(), ["51"]);
    assert.deepEqual(asked(), []);
    learnEpoch(E3, 3);
    assert.deepEqual(asked(), [], "an epoch more, while the question is under way");
    pendingSet.giveBack(onlyWait(entry));
    assert.deepEqual(asked(), ["51"]);
  });

  test("a transaction that has waited long is asked about without any sign of a failover", () => {
    learnEpoch(E1, 1);
    watch(10, { nowMs: 0 });
    watch(20, { nowMs: 900 });
    pendingSet.recheck(0);
    assert.deepEqual(asked(), ["10"]);
    pendingSet.recheck(900);
    assert.deepEqual(asked(), ["20"], "one is asked about already");
  });
});

test("the last waiter that goes takes the promise out of the book", () => {
  const entry = makeEntry("t", { id: newTransactionId(), position: { epoch: E1, offset: "5" }, nowMs: 0 });
  const waiters = [(): void => undefined, (): void => undefined];
  for (const waiter of waiters) pendingSet.watch(entry, "region", waiter, 0);
  for (const [index, waiter] of waiters.entries()) {
    pendingSet.unwatch(entry, "region", waiter);
    assert.equal(pendingSet.find("t"), index === 0 ? entry : undefined);
  }
  assert.deepEqual(learnMarks(marks(E1, { region: 9 })), []);
  assert.equal(pendingSet.entries.size + pendingSet.toAsk.size, 0);
});
