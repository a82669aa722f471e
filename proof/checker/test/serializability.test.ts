// Goal: each anomaly is found by name. Method: its smallest history, and a neighbour without it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { check } from "../src/check.ts";
import { type HistoryRecord } from "../src/history.ts";
import { append, epoch, failure, history, read, readAppend } from "./support/build.ts";
import { assertGood, assertViolates } from "./support/judge.ts";

/** All at the same time, so that only the lists show what is late. */
const at = [10, 20] as const;
const epochs = [epoch("e1", null), epoch("e2", "e1", { node: "b" })];

test("G0: two transactions overwrite each other", () => {
  const specs = {
    one: { at, does: [append("x", 1), append("y", 2)] },
    two: { at, does: [append("x", 3), append("y", 4)] },
  };
  const { transactions, explanation } = assertViolates(
    history(specs, { lists: { x: [1, 3], y: [4, 2] } }),
    "G0",
  );
  assert.deepEqual([...transactions].sort(), ["one", "two"]);
  assert.match(
    explanation,
    /^T1 -ww-> T2 -ww-> T1 in epoch e1: T2 appended \d right behind T1 in key [xy]; T1 appended/,
  );
  assertGood(history(specs, { lists: { x: [1, 3], y: [2, 4] } }));
});

test("G1a: a read of an aborted transaction", () => {
  const specs = {
    one: {
      at,
      does: [append("x", 1)],
      answer: { outcome: "aborted" },
      shows: null,
      final: null,
      receipt: null,
    },
    two: { at, does: [read("x")], shows: [[1]] },
  } as const;
  const { transactions, explanation } = assertViolates(history(specs), "G1a");
  assert.deepEqual(transactions, ["two", "one"]);
  assert.match(explanation, /T1 read 1 in key x, which T2 has appended; T2 was aborted/);
});

test("G1b: a read between two writes of one transaction", () => {
  const one = { at, does: [append("x", 1), append("x", 2)] };
  const lists = { x: [1, 2] };
  assertViolates(
    history({ one, two: { at, does: [read("x")], shows: [[1]] } }, { lists }),
    "G1b",
    "G-single",
  );
  assertGood(history({ one, two: { at, does: [read("x")], shows: [[1, 2]] } }, { lists }));
});

test("G1c: two transactions have read each other's writes", () => {
  const lists = { x: [1], y: [2] };
  const one = { at, does: [append("x", 1), read("y")], shows: [null, [2]] };
  const two = { at, does: [append("y", 2), read("x")], shows: [null, [1]] };
  assertViolates(history({ one, two }, { lists }), "G1c");
  assertGood(history({ one: { ...one, shows: [null, []] }, two }, { lists }));
});

test("G-single: a read that sees half of another transaction", () => {
  const one = { at, does: [append("x", 1), append("y", 2)] };
  const lists = { x: [1], y: [2] };
  const half = { at, does: [read("x"), read("y")], shows: [[1], []] };
  const { explanation } = assertViolates(history({ one, half }, { lists }), "G-single");
  assert.match(explanation, /-rw-> .* -wr-> .*did not see 2 of T\d in key y/);
  // On a replica, too: it shows a prefix of the log.
  const invocation = { isolation: "snapshot" } as const;
  assertViolates(history({ one, half: { ...half, invocation } }, { lists }), "G-single");
  assertGood(history({ one, none: { ...half, shows: [[], []] } }, { lists }));
});

test("G2: each of two transactions has missed what the other one wrote", () => {
  const lists = { x: [1], y: [2] };
  const one = { at, does: [read("y"), append("x", 1)], shows: [[], null] };
  const two = { at, does: [read("x"), append("y", 2)], shows: [[], null] };
  assertViolates(history({ one, two }, { lists }), "G2");
  assertGood(history({ one, two: { ...two, shows: [[1], null] } }, { lists }));
  // Snapshot isolation allows that, and nothing more was promised.
  const invocation = { isolation: "snapshot" } as const;
  const skewed = history({ one: { ...one, invocation }, two: { ...two, invocation } }, { lists });
  assertGood(skewed);
  assert.deepEqual(check(skewed).ambiguous, { cycle_through_snapshots: 1 });
});

test("G2 through three keys, with readers that only read", () => {
  const lists = { x: [1], y: [2] };
  const writes = { one: { at, does: [append("x", 1)] }, two: { at, does: [append("y", 2)] } };
  const fork = {
    left: { at, does: [read("x"), read("y")], shows: [[1], []] },
    right: { at, does: [read("x"), read("y")], shows: [[], [2]] },
  };
  assertViolates(history({ ...writes, ...fork }, { lists }), "G2");
  // A replica and the primary may disagree about the order of two independent transactions.
  const right = { ...fork.right, invocation: { isolation: "snapshot" } } as const;
  assertGood(history({ ...writes, left: fork.left, right }, { lists }));
});

test("a lost update is found although no transaction has read the lost value", () => {
  const one = { at, does: [readAppend("x", 1)], shows: [[]], final: "lost" } as const;
  const two = { ...one, does: [readAppend("x", 2)] };
  assertViolates(history({ one, two }, { epochs }, [failure(100, [])]), "G2");
  assertGood(history({ one, two: { ...two, shows: [[1]] } }, { epochs }, [failure(100, [])]));
});

test("two lists that are no parts of one order", () => {
  const writes = { one: { at, does: [append("x", 1)] }, two: { at, does: [append("x", 2)] } };
  const other = { at, does: [read("x")], shows: [[2]] };
  const { explanation } = assertViolates(
    history({ ...writes, other }, { lists: { x: [1, 2] } }),
    "order.incompatible",
  );
  assert.match(explanation, /key x: \[.*\] and \[.*\] were both read in epoch e1/);
});

test("an epoch's values come in the same order wherever they are seen", () => {
  const specs = {
    one: { at, does: [append("x", 1)] },
    two: { at, does: [append("x", 2)] },
    seen: { at, does: [read("x")], shows: [[1, 2]] },
  };
  assertGood(history(specs, { lists: { x: [1, 2] }, epochs }));
  assertViolates(history(specs, { lists: { x: [2, 1] }, epochs }), "order.incompatible");
});

test("each history until a failure has a serial order of its own, what is lost in it too", () => {
  const lost = { at, final: "lost" } as const;
  const one = { ...lost, does: [append("x", 1), read("y")], shows: [null, [2]] };
  const two = { ...lost, does: [append("y", 2), read("x")], shows: [null, [1]] };
  assertViolates(history({ one, two }, { epochs }, [failure(50, [])]), "G1c");
});

test("what an epoch has left is in every list of the next one, in its place", () => {
  const first = { at, does: [append("x", 1)] };
  const later = { epoch: "e2", at: [30, 40] as const };
  const second = { ...later, does: [append("x", 2)] };
  const lists = { x: [1, 2] };
  assertGood(
    history({ first, second, both: { ...later, does: [read("x")], shows: [[1]] } }, { lists, epochs }),
  );
  assertViolates(
    history({ first, second, none: { ...later, does: [read("x")], shows: [[]] } }, { lists, epochs }),
    "read.survivor-missing",
  );
  assertViolates(
    history({ first, second }, { lists: { x: [2, 1] }, epochs }),
    "order.epochs",
    "order.real-time",
  );
});

test("a list that goes on without what its epoch began with", () => {
  const lists = { x: [1, 3] };
  const three = [...epochs, epoch("e3", "e2", { node: "c" })];
  const specs = {
    one: { at, does: [append("x", 1)] },
    two: { at, does: [append("x", 2)], final: "lost" },
    seen: { at: [30, 40], epoch: "e2", does: [read("x")], shows: [[1, 2]], final: "lost" },
    three: { at: [50, 60], epoch: "e3", does: [append("x", 3)] },
  } as const;
  // What the second epoch inherited with its first record, the third epoch inherits, too.
  assertViolates(history(specs, { lists, epochs: three }, [failure(45, [])]), "order.incompatible");
});

test("what was lost in one failover can be there after another one, if the histories say so", () => {
  const branches = [epoch("e1", null), epoch("e2", "e1", { inHistory: false }), epoch("e3", "e1")];
  const specs = {
    one: { at, does: [append("x", 1)] },
    early: { at: [30, 40], epoch: "e2", does: [read("x")], shows: [[]], final: "lost" },
    late: { at: [50, 60], epoch: "e3", does: [read("x")], shows: [[1]] },
  } as const;
  assertGood(history(specs, { lists: { x: [1] }, epochs: branches }, [failure(25, [])]));
});

test("an attempt without an answer is known from those who saw it before the id ran again", () => {
  const does = [append("x", 1)];
  const again = { at: [10, 60], epoch: "e2", does } as const;
  const seen = { at: [20, 30], does: [read("x")], shows: [[1]], final: "lost" } as const;
  const final = { lists: { x: [1] }, epochs };
  const judge = (reader: object): HistoryRecord[] =>
    history({ again, reader: { ...seen, ...reader } }, final, [failure(40, [])]);
  assertGood(judge({}));
  // It claims an earlier epoch, but may have seen the value of the later one.
  assertViolates(judge({ at: [61, 70] }), "read.other-history");
  // It is reported as durable, and the value that it read is lost.
  assertViolates(judge({ final: "durable" }), "recoverability.reads");
});

test("a list without what the final one has in front of the value shows an attempt that got no answer", () => {
  const judge = (shows: readonly number[]): HistoryRecord[] =>
    history(
      {
        other: { at: [42, 50], epoch: "e2", does: [append("x", 2)] },
        again: { at: [10, 60], epoch: "e2", does: [append("x", 1)] },
        reader: { at: [61, 70], does: [read("x")], shows: [shows], final: "lost" },
      },
      { lists: { x: [2, 1] }, epochs },
      [failure(40, [])],
    );
  assertGood(judge([1]));
  assertViolates(judge([2, 1]), "read.other-history");
});

test("an id may run on a node that was given up, also after it has run in the history that counts", () => {
  const specs = (shows: readonly number[], list: readonly number[]): HistoryRecord[] =>
    history(
      {
        stray: { at: [20, 30], does: [append("x", 1)], final: "lost" },
        twice: { at: [10, 60], epoch: "e2", does: [append("x", 2)] },
        reader: { at: [70, 80], does: [read("x")], shows: [shows], final: "lost" },
      },
      { lists: { x: list }, epochs },
      [failure(40, [])],
    );
  assertGood(specs([1, 2], [2]));
  // The list may be that of the history that counts, while the reader is in another one.
  assertViolates(specs([2], [2]), "read.other-history", "read.stale");
});

test("a read of what is only in another history", () => {
  const branches = [epoch("e1", null), epoch("e2", "e1", { inHistory: false }), epoch("e3", "e1")];
  const specs = {
    one: { at, epoch: "e2", does: [append("x", 1)], final: "lost" },
    two: { at: [50, 60], epoch: "e3", does: [read("x")], shows: [[1]], final: "lost" },
  } as const;
  assertViolates(history(specs, { epochs: branches }, [failure(5, [])]), "read.other-history");
  // Nothing follows for an epoch whose place in the tree is unknown.
  const unplaced = history(specs, { epochs: [epoch("e1", null), epoch("e3", "e1")] }, [failure(5, [])]);
  assertGood(unplaced);
  assert.ok((check(unplaced).ambiguous.epoch_without_path ?? 0) > 0);
});

test("an unknown outcome that others have seen is in the epoch of the first that saw it", () => {
  const unknown = { at, does: [append("x", 1)], answer: null, final: null, receipt: null } as const;
  const seen = { at: [30, 40], does: [read("x")], shows: [[1]], final: "lost" } as const;
  const after = { at: [50, 60], epoch: "e2", does: [append("x", 2)] } as const;
  const later = { at: [70, 80], epoch: "e2", does: [read("x")], shows: [[2]] } as const;
  const lost = [failure(45, [])];
  assertGood(history({ unknown, seen, after, later }, { lists: { x: [2] }, epochs }, lost));
  assertViolates(
    history(
      { unknown, seen, after, later: { ...later, shows: [[2, 1]] } },
      { lists: { x: [2] }, epochs },
      lost,
    ),
    "order.epochs",
    "recoverability.reads",
  );
});

test("a value that no transaction wrote, and one that belongs to another key", () => {
  const one = { at, does: [append("y", 1)] };
  const lists = { y: [1] };
  assertViolates(history({ one, two: { at, does: [read("x")], shows: [[7]] } }, { lists }), "read.garbage");
  assertViolates(history({ one, two: { at, does: [read("x")], shows: [[1]] } }, { lists }), "read.garbage");
  assertViolates(history({ one }, { lists: { y: [1], x: [7] } }), "read.garbage");
});

test("a transaction sees its own writes, and one state of everything else", () => {
  const does = [append("x", 1), read("x")];
  const lists = { x: [1] };
  assertGood(history({ one: { at, does, shows: [null, [1]] } }, { lists }));
  assertViolates(history({ one: { at, does, shows: [null, []] } }, { lists }), "read.internal");
  assertViolates(
    history({ one: { at, does: [readAppend("x", 1)], shows: [[1]] } }, { lists }),
    "read.internal",
  );
  const other = { at, does: [append("x", 1)] };
  const twice = [read("x"), read("x")];
  assertGood(history({ other, one: { at, does: twice, shows: [[1], [1]] } }, { lists }));
  assertViolates(
    history({ other, one: { at, does: twice, shows: [[], [1]] } }, { lists }),
    "read.internal",
    "G-single",
  );
});

test("what was answered before a read began is in it, unless it asks for a snapshot", () => {
  const one = { at, does: [append("x", 1)] };
  const late = { at: [30, 40] as const, does: [read("x")], shows: [[]] };
  const lists = { x: [1] };
  const { explanation } = assertViolates(history({ one, late }, { lists }), "read.stale");
  assert.match(explanation, /answered 10\.000 ms before T1 began/);
  assertGood(history({ one, late: { ...late, at: [15, 40] } }, { lists }));
  assertGood(history({ one, late: { ...late, invocation: { isolation: "snapshot" } } }, { lists }));
  // Even if it was never read.
  const lost = { ...one, final: "lost" } as const;
  assertViolates(history({ lost, late }, { epochs }, [failure(50, [])]), "read.stale");
});

test("no transaction appends before a value that was answered before it began", () => {
  const one = { at, does: [append("x", 1)] };
  const late = { at: [30, 40] as const, does: [append("x", 2)] };
  assertGood(history({ one, late }, { lists: { x: [1, 2] } }));
  assertViolates(history({ one, late }, { lists: { x: [2, 1] } }), "order.real-time");
  assertGood(history({ one, late: { ...late, at: [15, 40] } }, { lists: { x: [2, 1] } }));
});

test("the answer of an attempt that was lost says nothing of when the id ran again", () => {
  const two = { epoch: "e2", at: [10, 20] } as const;
  const reported = [{ verdict: "lost", by: "event", attempt: "e1", atMs: 35 }] as const;
  const answer = { position: { epoch: "e1", offset: "1" } };
  const again = { ...two, does: [append("x", 1)], reported, answer };
  const before = { epoch: "e2", at: [40, 50], does: [append("x", 2)] } as const;
  const early = { epoch: "e2", at: [60, 70], does: [read("x")], shows: [[2]] } as const;
  assertGood(history({ again, before, early }, { lists: { x: [2, 1] }, epochs }, [failure(30, [])]));
});

test("a reported loss does not say that an id ran again in the later epoch, where older values follow", () => {
  const specs = {
    one: { at, does: [append("x", 1)], reported: [{ attempt: "e2", verdict: "lost", by: "event" }] },
    two: { at, does: [append("x", 2)] },
    reader: { at: [50, 60], epoch: "e2", does: [read("x")], shows: [[1, 2]], final: "lost" },
  } as const;
  const final = { lists: { x: [1, 2] }, epochs };
  assertGood(history(specs, final, [failure(70, [])]));
  const ranAgain = { ...specs.one, reported: [{ attempt: "e2", verdict: "durable", by: "event" }] } as const;
  const twice = history({ ...specs, one: ranAgain }, final, [failure(70, [])]);
  assertViolates(twice, "fate.durable-absent", "order.epochs");
});
