import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { type Entry, makeEntry, PromiseBook, type Settled, type Wait } from "../src/book.ts";
import { newTransactionId } from "../src/index.ts";
import { E1, E2, E3, epoch, FORK, marks, moment, verdictOf } from "./support.ts";

let book: PromiseBook;
beforeEach(() => {
  book = new PromiseBook();
});

const first = epoch(E1);
const second = epoch(E2, { previous: E1, fork: 50, start: 60 });
const third = epoch(E3, { previous: E2, fork: 80, start: 90 });

/** Told by `settled` results, in order: `id level verdict`, with offsets for ids. */
const told = (settled: readonly Settled[]): string[] =>
  settled.map(({ entry, level, settlement }) =>
    [entry.token, level, settlement.kind === "verdict" ? settlement.verdict.verdict : "refused"].join(" "),
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

  test("the newest marks merge what was heard in any order", () => {
    assert.equal(book.history.newestMarks(), null);
    book.learnMarks(marks(E1, { region: 5, disk: 9 }), moment());
    book.learnMarks(marks(E1, { region: 7, disk: 8 }), moment());
    assert.deepEqual(book.history.newestMarks(), marks(E1, { region: 7, disk: 9 }));
    book.learnEpochs([first, second], moment());
    book.learnMarks(marks(E2, { disk: 61 }), moment());
    book.learnMarks(marks(E1, { disk: 10 }), moment());
    assert.deepEqual(book.history.newestMarks(), marks(E2, { disk: 61 }));
  });
});

describe("epochs", () => {
  test("carried over at or below the fork offset, and then judged by the successor's marks", () => {
    const [at, above] = [watch(50), watch(51)];
    assert.deepEqual(book.learnEpochs([first, second], moment()), []);
    assert.deepEqual(at.place, { epoch: E2, offset: 60n });
    assert.deepEqual(above.place, { epoch: E1, offset: 51n });
    assert.deepEqual(book.learnMarks(marks(E2, { region: 59 }), moment()), []);
    assert.deepEqual(told(book.learnMarks(marks(E2, { region: 60 }), moment())), ["50 region durable"]);
    assert.deepEqual(asked(), ["51"]);
  });

  test("carried over again and again; the second time by its place before the epoch's own record", () => {
    const entry = watch(50);
    // Start 60 of the second epoch, an upper bound, is above the third's fork: that proves nothing against it.
    book.learnEpochs([first, second, epoch(E3, { previous: E2, fork: 55, start: 90 })], moment());
    assert.deepEqual(entry.place, { epoch: E3, offset: 90n });
  });

  test("a promise of the second epoch itself is not carried above the third's fork", () => {
    const entry = watch(85, { epoch: E2 });
    book.learnEpochs([first, second, third], moment());
    assert.deepEqual(entry.place, { epoch: E2, offset: 85n });
    assert.deepEqual(asked(), ["85"]);
  });

  test("marks of an ended epoch above its fork do not make a promise durable: the tracker is asked", () => {
    watch(55);
    book.learnEpochs([first, second], moment());
    assert.deepEqual(book.learnMarks(marks(E1, { region: 70 }), moment()), []);
    watch(56);
    assert.deepEqual(asked(), ["55", "56"]);
  });

  test("what its old epoch's marks had passed is durable also after the carry-over", () => {
    book.learnMarks(marks(E1, { region: 40 }), moment());
    book.learnEpochs([first, second], moment());
    const entry = watch(30);
    assert.equal(book.known(entry, "region")?.verdict, "durable");
    assert.equal(book.known(entry, "global"), undefined);
  });

  test("an epoch outside the ancestry: its marks count, and the tracker is asked", () => {
    book.learnEpochs([first, second], moment());
    watch(10, { epoch: FORK });
    assert.deepEqual(asked(), ["10"]);
    assert.deepEqual(told(book.learnMarks(marks(FORK, { region: 10 }), moment())), ["10 region durable"]);
  });

  test("marks of an unknown epoch cast doubt on the current one until the ancestry is told again", () => {
    book.learnEpochs([first], moment());
    const entry = watch(10);
    book.learnMarks(marks(E2, { region: 70 }), moment());
    assert.deepEqual(asked(), ["10"]);
    book.judge(onlyWait(entry), verdictOf(entry, "pending", { offset: 10 }), moment());
    book.learnEpochs([first, second], moment());
    assert.equal(book.toAsk.size, 0);
    assert.equal(book.entries.size, 0, "carried over, and the marks were known");
  });

  test("marks of an ancestor cast no doubt; the ancestry of a tracker that lags changes nothing", () => {
    book.learnEpochs([first, second], moment());
    watch(70, { epoch: E2 });
    book.learnMarks(marks(E1, { region: 50 }), moment());
    book.learnEpochs([first], moment());
    assert.equal(book.toAsk.size, 0);
    assert.equal(book.history.head, E2);
  });

  test("without any ancestry, marks of another epoch are a reason to ask, not to judge", () => {
    watch(10);
    book.learnMarks(marks(E1, { region: 5 }), moment());
    assert.deepEqual(book.learnMarks(marks(E2, { region: 500 }), moment()), []);
    assert.deepEqual(asked(), ["10"]);
  });
});

describe("verdicts", () => {
  test("pending: the tracker's place is taken on, and asked about again with growing delays", () => {
    book.learnEpochs([first, second], moment());
    const entry = watch(51);
    const wait = onlyWait(entry);
    const delays: number[] = [];
    let nowMs = 0;
    for (let i = 0; i < 10; i++) {
      const next = book.nextAskAtMs();
      assert.ok(next !== null);
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
    book.learnEpochs([first, second], moment());
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
      settled.map(({ gone }) => gone),
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
    book.learnEpochs([first, second], moment());
    const entry = watch(51);
    assert.deepEqual(asked(100), ["51"]);
    assert.deepEqual(asked(100), []);
    book.askLater(onlyWait(entry), moment(100));
    assert.deepEqual(asked(100), []);
    assert.deepEqual(asked(300), ["51"]);
  });

  test("what waits for long is asked about even though nothing says that it must be", () => {
    book.learnEpochs([first], moment());
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
  assert.deepEqual(
    waiters.map((waiter) => book.unwatch(entry, "region", waiter)),
    [false, true],
  );
  assert.deepEqual(book.learnMarks(marks(E1, { region: 9 }), moment()), []);
  assert.equal(book.entries.size + book.toAsk.size, 0);
});
