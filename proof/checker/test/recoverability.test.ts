// Goal: a durable transaction has read only durable ones.
import assert from "node:assert/strict";
import { test } from "node:test";
import { append, epoch, failure, history, read } from "./support/build.ts";
import { assertGood, assertViolates } from "./support/judge.ts";

const at = [10, 20] as const;
const lost = { at, does: [append("x", 1)], final: "lost" } as const;
const reader = { at, does: [read("x")], shows: [[1]] };
const epochs = [epoch("e1", null), epoch("e2", "e1", { node: "b" })];

test("a read-only transaction is lost with what it has read", () => {
  const failures = [failure(30, [])];
  assertGood(history({ lost, reader: { ...reader, final: "lost" } }, { epochs }, failures));
  assertGood(
    history(
      { lost, reader: { ...reader, does: [read("x")], shows: [[]], final: "durable" } },
      { epochs },
      failures,
    ),
  );
  const durable = history({ lost, reader }, { epochs }, failures);
  const { transactions, explanation } = assertViolates(durable, "recoverability.reads");
  assert.deepEqual(transactions, ["reader", "lost"]);
  assert.match(explanation, /T1 is durable at region and has read 1 of T2 in key x; T2 is absent in the end/);
});

test("not only the last value of the list counts", () => {
  const specs = {
    one: { at, does: [append("x", 1)], answer: null, final: null, receipt: null },
    two: { at, does: [append("x", 2)], final: "lost" },
    reader: { at, does: [read("x")], shows: [[1, 2]] },
  } as const;
  const { transactions } = assertViolates(
    history(specs, { epochs }, [failure(30, [])]),
    "recoverability.reads",
  );
  assert.deepEqual(transactions, ["reader", "one"]);
});

test("one that writes, too, is not durable before what it has read", () => {
  const writer = { at, does: [read("x"), append("y", 2)], shows: [[1], null] };
  const wrong = history({ lost, writer }, { lists: { y: [2] }, epochs }, [failure(30, [])]);
  assertViolates(wrong, "recoverability.reads");
  assertGood(history({ lost, writer: { ...writer, final: "lost" } }, { epochs }, [failure(30, [])]));
});

test("durable on a disk that took no part in later epochs is not a promise any more", () => {
  const onDisk = { ...reader, final: ["durable", "lost", "lost"] } as const;
  assertGood(history({ lost, reader: onDisk }, { epochs }, [failure(30, ["region", "global"])]));
  // It is a violation while the node has only crashed.
  const stayed = [epoch("e1", null), epoch("e2", "e1")];
  const crashed = history({ lost, reader: onDisk }, { epochs: stayed }, [
    failure(30, ["disk", "region"], { node: "a" }),
  ]);
  assertViolates(crashed, "recoverability.reads");
});

test("a durable report that a later failure has undone is not a promise any more", () => {
  const reported = [{ by: "promise", tracker: null, atMs: 25 }] as const;
  const broken = { ...reader, reported, final: ["lost", "broken", "lost"] } as const;
  assertGood(history({ lost, reader: broken }, { epochs }, [failure(30, [])]));
  // A value that came back need not be reported either.
  const back = { at, does: [append("x", 1)], final: "broken", receipt: "commit" } as const;
  const wasLost = { ...back, reported: [{ verdict: "lost", level: "region", atMs: 40 }] } as const;
  assertGood(history({ wasLost, reader }, { lists: { x: [1] }, epochs }, [failure(30, []), failure(50, [])]));
});

test("a durable report counts although its tracker was not asked at the end", () => {
  const reported = [{ by: "promise", tracker: null, atMs: 25 }] as const;
  const promised = { ...reader, reported, final: "lost" } as const;
  const records = history({ lost, reader: promised }, { epochs }, [failure(30, ["region"])]);
  assertViolates(records, "recoverability.reads", "fate.durable-absent");
});

test("a transaction is not durable while one that it has read is pending", () => {
  const pending = {
    at,
    does: [append("x", 1)],
    final: ["durable", "pending", "durable"],
    receipt: "commit",
  } as const;
  const records = history({ pending, reader }, { lists: { x: [1] } });
  const { explanation } = assertViolates(records, "recoverability.reads", "fate.pending");
  assert.match(explanation, /durable at region .* T2 is pending there/);
});
