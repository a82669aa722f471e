// Goal: the result of a replay says in words what came of it and why. Method: outcomes as a gateway reports them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { resultText, summaryOf, whyText } from "./replay-text.ts";

const END = { id: "one", attempt: "two", answered: "yes" } as const;

test("a conflict says why and at which statement; both results differ by more than their counts", () => {
  const conflict = { ...END, outcome: "conflict", reason: "changed", statement: 1 } as const;
  assert.equal(whyText(conflict), "a row that it writes was written since the loss, statement 2");
  assert.equal(resultText({ command: "UPDATE", rowCount: 1, digest: null }), "UPDATE 1");
  const [one, other] = ["a", "b"]
    .map((digit) => digit.repeat(64))
    .map((digest) => resultText({ command: "UPDATE", rowCount: 1, digest }));
  assert.notEqual(one, other);
});

test("what cannot come back says its kind, and what is back says by which transaction", () => {
  const lost = {
    ...END,
    outcome: "unrecoverable",
    reason: "not_replayable",
    kind: "several_tables",
  } as const;
  assert.equal(whyText(lost), "its statements cannot be run again safely, several tables");
  assert.equal(whyText({ ...END, outcome: "replayed", replayedBy: "three" }), "by three");
  const counts = { lostWrites: 1_203, replayed: 1_200, conflicts: 2, unrecoverable: 1 };
  const report = { ...counts, dryRun: true, trackers: { asked: 3, answered: 2 }, transactions: [] };
  assert.equal(summaryOf(report), "1,203 lost writes = 1,200 replayed + 2 conflicts + 1 unrecoverable");
  const one = { ...report, lostWrites: 1, replayed: 0, conflicts: 1, unrecoverable: 0 };
  assert.equal(summaryOf(one), "1 lost write = 0 replayed + 1 conflict + 0 unrecoverable");
});
