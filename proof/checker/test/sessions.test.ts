// Goal: later reads of a session show what it has written and seen.
import assert from "node:assert/strict";
import { test } from "node:test";
import { append, epoch, failure, history, read } from "./support/build.ts";
import { assertGood, assertViolates } from "./support/judge.ts";

const session = { session: "s" };
const snapshot = { ...session, isolation: "snapshot" } as const;
const one = { at: [10, 20], does: [append("x", 1)], invocation: session } as const;
const epochs = [epoch("e1", null), epoch("e2", "e1", { node: "b" })];

test("a session reads its own writes", () => {
  const later = { at: [30, 40], does: [read("x")], shows: [[]], invocation: session } as const;
  const { transactions } = assertViolates(
    history({ one, later }, { lists: { x: [1] } }),
    "session.own-writes",
    "read.stale",
  );
  assert.deepEqual(transactions, ["later", "one"]);
  assertGood(history({ one, later: { ...later, shows: [[1]] } }, { lists: { x: [1] } }));
  // A concurrent transaction of another session need not see it.
  const other = { ...later, at: [15, 40], invocation: { session: "other" } } as const;
  assertGood(history({ one, other }, { lists: { x: [1] } }));
});

test("also in the next epoch, unless they are lost", () => {
  const later = { at: [30, 40], epoch: "e2", does: [read("x")], shows: [[]], invocation: session } as const;
  assertViolates(
    history({ one, later }, { lists: { x: [1] }, epochs }),
    "session.own-writes",
    "read.survivor-missing",
  );
  assertGood(history({ one: { ...one, final: "lost" }, later }, { epochs }, [failure(25, [])]));
});

test("lost at last, and seen by somebody in the epoch: it was there", () => {
  const three = [...epochs, epoch("e3", "e2")];
  const lost = { ...one, final: "lost" } as const;
  const seen = { at: [30, 60], epoch: "e2", does: [read("x")], shows: [[1]], final: "lost" } as const;
  const later = { ...seen, at: [35, 40], shows: [[]], invocation: session } as const;
  assertViolates(
    history({ lost, seen, later }, { epochs: three }, [failure(70, [])]),
    "session.own-writes",
    "read.survivor-missing",
  );
});

test("a session does not see less than it has seen", () => {
  const write = { at: [10, 60], does: [append("x", 1)] } as const;
  const first = { at: [20, 30], does: [read("x")], shows: [[1]], invocation: session } as const;
  const second = { at: [40, 50], does: [read("x")], shows: [[]], invocation: session } as const;
  const lists = { x: [1] };
  assertViolates(history({ write, first, second }, { lists }), "session.monotonic");
  assertGood(history({ write, first, second: { ...second, shows: [[1]] } }, { lists }));
  assertGood(history({ write, first, second: { ...second, invocation: { session: "other" } } }, { lists }));
  // A snapshot read promises only what it asks for.
  assertGood(history({ write, first, second: { ...second, invocation: snapshot } }, { lists }));
  const asked = { ...second, invocation: { ...snapshot, after: "first" } };
  assertViolates(history({ write, first, asked }, { lists }), "session.after");
});

test("a session need not see lost values again, whether it wrote or read them", () => {
  const write = { at: [10, 15], does: [append("x", 1)], final: "lost" } as const;
  const first = {
    at: [20, 30],
    does: [read("x")],
    shows: [[1]],
    invocation: session,
    final: "lost",
  } as const;
  const second = { at: [40, 50], epoch: "e2", does: [read("x")], shows: [[]], invocation: session } as const;
  assertGood(history({ write, first, second }, { epochs }, [failure(35, [])]));
});

test("what was seen is lost, and its id is run again behind the later read", () => {
  const again = {
    at: [10, 60],
    epoch: "e2",
    does: [append("x", 1)],
    reported: [{ verdict: "lost", by: "event", attempt: "e1", atMs: 55 }],
  } as const;
  const first = {
    at: [20, 30],
    does: [read("x")],
    shows: [[1]],
    invocation: session,
    final: "lost",
  } as const;
  const second = { at: [40, 50], epoch: "e2", does: [read("x")], shows: [[]], invocation: session } as const;
  const rest = { lists: { x: [1] }, epochs };
  assertGood(history({ again, first, second }, rest, [failure(35, [])]));
  // After the second attempt the value has to be there.
  const third = { ...second, at: [70, 80] } as const;
  assertViolates(history({ again, first, third }, rest, [failure(35, [])]), "read.stale");
});

test("a read after a token sees what the token stands for, wherever it runs", () => {
  const lists = { x: [1], y: [2] };
  const two = { at: [30, 40], does: [append("y", 2)], invocation: session } as const;
  const after = {
    at: [50, 60],
    does: [read("x"), read("y")],
    invocation: { ...snapshot, after: "two" },
  } as const;
  assertGood(history({ one, two, after: { ...after, shows: [[1], [2]] } }, { lists }));
  assertViolates(history({ one, two, after: { ...after, shows: [[1], []] } }, { lists }), "session.after");
  // The session's earlier writes come before it in the log.
  assertViolates(history({ one, two, after: { ...after, shows: [[], [2]] } }, { lists }), "session.after");
  // Nothing is promised about later transactions than the named one.
  const early = { ...after, invocation: { ...snapshot, after: "one" } };
  assertGood(history({ one, two, early: { ...early, shows: [[1], []] } }, { lists }));
  // Nor by the token of a snapshot read, which may be older than the session's own writes.
  const old = { at: [41, 42], does: [read("z")], shows: [[]], invocation: snapshot } as const;
  const afterOld = { ...after, shows: [[], []], invocation: { ...snapshot, after: "old" } };
  assertGood(history({ one, two, old, afterOld }, { lists }));
});

test("an id that was sent again and refused has not committed there", () => {
  const reported = [{ verdict: "lost", by: "event", attempt: "e2", atMs: 35 }] as const;
  const lost = { ...one, final: "lost", reported } as const;
  const later = { at: [30, 40], epoch: "e2", does: [read("x")], shows: [[]], invocation: session } as const;
  assertGood(history({ lost, later }, { epochs }, [failure(25, [])]));
});
