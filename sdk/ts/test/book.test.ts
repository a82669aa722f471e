import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { type Entry, makeEntry, PromiseBook, type Settled, type Wait } from "../src/book.ts";
import { newTransactionId } from "../src/index.ts";
import { E1, E2, FORK, marks, moment, verdictOf } from "./support.ts";

let book: PromiseBook;
beforeEach(() => {
  book = new PromiseBook();
});

/** Told by `settled` results, in order: `id level verdict`, with offsets for ids. */
const told = (settled: readonly Settled[]): string[] =>
  settled.map(({ wait: { entry, level }, settlement }) =>
    [entry.token, level, settlement instanceof Error ? "refused" : settlement.verdict].join(" "),
  );

function watch(offset: number, options: { epoch?: string; level?: string; nowMs?: number } = {}): Entry {
  const { epoch: at = E1, level = "region", nowMs = 0 } = options;
  const position = { epoch: at, offset: String(offset) };
  const entry = makeEntry(String(offset), { id: newTransactionId(), position, nowMs });
  if (book.known(entry, level) === undefined)
    book.watch(entry, { level, waiter: () => undefined }, moment(nowMs));
  return entry;
}

const asked = (nowMs = 1e9): string[] => book.takeDue(nowMs, 100).map(({ entry }) => entry.token);
const onlyWait = (entry: Entry): Wait => {
  const [wait] = entry.waits.values();
  assert.ok(wait !== undefined);
  return wait;
};

describe("marks", () => {
  test("one mark settles everything at or below it, at its level and in its epoch only", () => {
    for (const offset of [30, 10, 20]) watch(offset);
    watch(5, { level: "global" });
    watch(6, { epoch: E2 });
    assert.deepEqual(told(book.learnMarks(marks(E1, { region: 20 }), moment())), [
      "10 region durable",
      "20 region durable",
    ]);
    assert.equal(book.entries.size, 3);
  });

  test("a mark that comes again, or late, says nothing new", () => {
    book.learnMarks(marks(E1, { region: 20 }), moment());
    watch(15);
    assert.equal(book.entries.size, 0, "known without waiting");
    watch(25);
    assert.deepEqual(book.learnMarks(marks(E1, { region: 10 }), moment()), []);
    assert.deepEqual(book.learnMarks(marks(E1, { region: 20 }), moment()), []);
    assert.deepEqual(told(book.learnMarks(marks(E1, { region: 25 }), moment())), ["25 region durable"]);
  });

  test("offsets beyond what a float can hold are compared exactly", () => {
    const big = 2n ** 80n;
    const position = { epoch: E1, offset: (big + 1n).toString() };
    const entry = makeEntry("big", { id: newTransactionId(), position, nowMs: 0 });
    book.watch(entry, { level: "region", waiter: () => undefined }, moment());
    assert.deepEqual(book.learnMarks(marks(E1, { region: big }), moment()), []);
    assert.equal(book.learnMarks(marks(E1, { region: big + 1n }), moment()).length, 1);
  });

  test("a level that nobody has seen is asked about: it may be misspelt", () => {
    watch(10, { level: "regoin" });
    assert.deepEqual(asked(), []);
    book.learnMarks(marks(E1, { region: 5 }), moment());
    assert.deepEqual(asked(), ["10"]);
  });

  test("a level that is seen later is asked about until then, and no longer", () => {
    watch(10, { level: "zone" });
    book.learnMarks(marks(E1, { region: 5 }), moment());
    assert.equal(book.toAsk.size, 1);
    book.learnMarks(marks(E1, { zone: 1 }), moment());
    assert.equal(book.toAsk.size, 0);
    assert.deepEqual(told(book.learnMarks(marks(E1, { zone: 10 }), moment())), ["10 zone durable"]);
  });

  test("the newest marks merge what was heard in any order", () => {
    assert.equal(book.marks, null);
    book.learnMarks(marks(E1, { region: 5, disk: 9 }), moment());
    book.learnMarks(marks(E1, { region: 7, disk: 8 }), moment());
    assert.deepEqual(book.marks, marks(E1, { region: 7, disk: 9 }));
    book.learnEpoch(E2, 2, moment());
    assert.equal(book.marks, null, "an epoch without marks has none, whatever the one before had");
    book.learnMarks(marks(E2, { disk: 61 }), moment());
    book.learnMarks(marks(E1, { disk: 10 }), moment());
    assert.deepEqual(book.marks, marks(E2, { disk: 61 }));
  });

  test("a mark that reaches nobody leaves who is to be asked alone; one that does, too", () => {
    const [near] = [watch(10), watch(90)];
    book.learnMarks(marks(E1, { region: 1 }), moment());
    book.recheck(0, moment());
    assert.equal(book.toAsk.size, 2);
    book.learnMarks(marks(E1, { region: 5 }), moment());
    assert.deepEqual(told(book.learnMarks(marks(E1, { region: 20 }), moment())), [
      `${near.token} region durable`,
    ]);
    assert.deepEqual(asked(), ["90"]);
  });
});

describe("epochs", () => {
  test("a new epoch: nothing of the old one is settled by marks, of either; the tracker is asked about all", () => {
    watch(50);
    watch(70);
    assert.deepEqual(book.learnEpoch(E2, 2, moment()), []);
    assert.deepEqual(book.learnMarks(marks(E2, { region: 500 }), moment()), []);
    assert.deepEqual(book.learnMarks(marks(E1, { region: 500 }), moment()), [], "an epoch that is over");
    watch(80);
    assert.deepEqual(asked(), ["50", "70", "80"]);
  });

  test("carried over: the tracker says where it stands, and marks of that epoch settle it", () => {
    const entry = watch(50);
    book.learnEpoch(E2, 2, moment());
    assert.deepEqual(asked(), ["50"]);
    const at = verdictOf(entry, "pending", { epoch: E2, offset: 60 });
    assert.deepEqual(book.judge(onlyWait(entry), at, moment()), []);
    assert.deepEqual(entry.place, { epoch: E2, offset: 60n });
    assert.equal(book.toAsk.size, 0);
    assert.deepEqual(book.learnMarks(marks(E2, { region: 59 }), moment()), []);
    assert.deepEqual(told(book.learnMarks(marks(E2, { region: 60 }), moment())), ["50 region durable"]);
  });

  test("what was durable before a new epoch stays so; what was not is not, though an old mark had passed it", () => {
    book.learnMarks(marks(E1, { region: 40 }), moment());
    const [before, after] = [watch(30), watch(31)];
    assert.equal(book.known(before, "region")?.verdict, "durable");
    book.learnEpoch(E2, 2, moment());
    assert.equal(book.known(before, "region")?.verdict, "durable");
    assert.equal(book.known(after, "region")?.verdict, "durable", "was known when it began to be waited for");
    const late = watch(32);
    assert.equal(book.known(late, "region"), undefined);
    assert.deepEqual(asked(), ["32"]);
  });

  test("a promise of an epoch that nobody has told of yet is asked about, and settled by its own marks", () => {
    book.learnMarks(marks(E1, { region: 500 }), moment());
    watch(10, { epoch: E2 });
    assert.deepEqual(asked(), ["10"]);
    assert.deepEqual(told(book.learnMarks(marks(E2, { region: 10 }), moment())), ["10 region durable"]);
  });

  test("a tracker that lags tells of an epoch that is over: nothing changes", () => {
    book.learnEpoch(E2, 2, moment());
    watch(70, { epoch: E2 });
    assert.deepEqual(book.learnMarks(marks(E1, { region: 500 }), moment()), []);
    assert.deepEqual(book.learnEpoch(E1, 1, moment()), []);
    assert.deepEqual([book.epoch, book.toAsk.size], [E2, 0]);
  });

  test("two epochs of the same number: whichever is told of last, promises of the other are asked about", () => {
    const ours = { ...marks(E2, { region: 5 }), seq: 2 };
    const theirs = { ...marks(FORK, { region: 500 }), seq: 2 };
    book.learnMarks(ours, moment());
    watch(10, { epoch: E2 });
    assert.deepEqual(book.learnMarks(theirs, moment()), []);
    assert.deepEqual(asked(), ["10"]);
    assert.deepEqual(told(book.learnMarks({ ...ours, levels: { region: "10" } }, moment())), [
      "10 region durable",
    ]);
  });

  test("before anybody has told of an epoch, there is nothing to ask", () => {
    watch(10);
    assert.equal(book.toAsk.size, 0);
    assert.deepEqual(book.learnMarks(marks(E1, { region: 5 }), moment()), []);
    assert.equal(book.toAsk.size, 0);
  });
});

describe("verdicts", () => {
  test("pending: the tracker's place is taken on, and asked about again with growing delays", () => {
    book.learnEpoch(E2, 2, moment());
    const entry = watch(51);
    const wait = onlyWait(entry);
    const delays: number[] = [];
    let nowMs = 0;
    for (let i = 0; i < 10; i++) {
      const next = book.nextAskAtMs();
      assert.ok(Number.isFinite(next));
      delays.push(next - nowMs);
      nowMs = next;
      assert.deepEqual(asked(nowMs), ["51"]);
      book.judge(wait, verdictOf(entry, "pending", { offset: 51 }), moment(nowMs));
    }
    assert.ok(delays.every((delay, i) => i === 0 || delay >= (delays[i - 1] ?? 0)));
    assert.equal(delays.at(-1), 7_500);
    book.judge(wait, verdictOf(entry, "pending", { epoch: E2, offset: 77 }), moment(nowMs));
    assert.equal(book.toAsk.size, 0);
    assert.deepEqual(told(book.learnMarks(marks(E2, { region: 77 }), moment())), ["51 region durable"]);
  });

  test("pending where the marks have been already is durable", () => {
    book.learnEpoch(E2, 2, moment());
    const entry = watch(51);
    book.learnMarks(marks(E2, { region: 80 }), moment());
    const settled = book.judge(
      onlyWait(entry),
      verdictOf(entry, "pending", { epoch: E2, offset: 77 }),
      moment(),
    );
    assert.deepEqual(told(settled), ["51 region durable"]);
  });

  test("lost settles every level that was not durable, and stays", () => {
    const entry = watch(51);
    for (const level of ["disk", "global"]) book.watch(entry, { level, waiter: () => undefined }, moment());
    book.learnMarks(marks(E1, { disk: 51, region: 0, global: 0 }), moment());
    const wait = onlyWait(entry);
    const settled = book.judge(wait, verdictOf(entry, "lost"), moment());
    assert.deepEqual(told(settled), ["51 region lost", "51 global lost"]);
    assert.deepEqual(
      settled.map(({ isGone }) => isGone),
      [true, false],
    );
    assert.equal(book.entries.size, 0);
    assert.equal(book.known(entry, "disk")?.verdict, "durable");
    assert.deepEqual(book.known(entry, "zone"), { ...verdictOf(entry, "lost"), level: "zone" });
    assert.deepEqual(book.judge(wait, verdictOf(entry, "durable"), moment()), [], "an answer too late");
  });

  test("expired and unknown end the wait at their level, and are asked again next time", () => {
    for (const verdict of ["expired", "unknown"] as const) {
      const entry = watch(51);
      assert.deepEqual(told(book.judge(onlyWait(entry), verdictOf(entry, verdict), moment())), [
        `51 region ${verdict}`,
      ]);
      assert.equal(book.known(entry, "region"), undefined);
    }
  });

  test("no answer: asked again later, and not twice at once", () => {
    book.learnEpoch(E2, 2, moment());
    const entry = watch(51);
    assert.deepEqual(asked(100), ["51"]);
    assert.deepEqual(asked(100), []);
    book.askLater(onlyWait(entry), moment(100));
    assert.deepEqual(asked(100), []);
    assert.deepEqual(asked(300), ["51"]);
  });

  test("what waits for long is asked about even though nothing says that it must be", () => {
    book.learnEpoch(E1, 1, moment());
    watch(10, { nowMs: 0 });
    watch(20, { nowMs: 900 });
    book.recheck(1_000, moment(1_000));
    assert.deepEqual(asked(), ["10"]);
  });
});

test("the last waiter that goes takes the promise out of the book", () => {
  const entry = makeEntry("t", { id: newTransactionId(), position: { epoch: E1, offset: "5" }, nowMs: 0 });
  const waiters = [(): void => undefined, (): void => undefined];
  for (const waiter of waiters) book.watch(entry, { level: "region", waiter }, moment());
  for (const [index, waiter] of waiters.entries()) {
    book.unwatch(entry, "region", waiter);
    assert.equal(book.find("t"), index === 0 ? entry : undefined);
  }
  assert.deepEqual(book.learnMarks(marks(E1, { region: 9 }), moment()), []);
  assert.equal(book.entries.size + book.toAsk.size, 0);
});
