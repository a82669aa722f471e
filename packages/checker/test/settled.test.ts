// What was settled as aborted, when nobody knew any more whether it had committed, may have been seen in the history that was lost.
import { test } from "node:test";
import { append, epoch, failure, history, read } from "./support/build.ts";
import { assertGood, assertViolates } from "./support/judge.ts";

const at = [10, 20] as const;
const epochs = [epoch("e1", null), epoch("e2", "e1", { node: "b" })];
const failures = [failure(30, ["region", "global"])];
const unseen = { at, does: [append("x", 1)], shows: null, final: null, receipt: "aborted" } as const;
const aborted = { outcome: "aborted", position: null, error: "transaction_aborted" } as const;
const reader = { at, does: [read("x")], shows: [[1]] };

test("it is no dirty read if the reader is lost with it", () => {
  const answered = { ...unseen, answer: aborted };
  assertGood(history({ answered, reader: { ...reader, final: "lost" } }, { epochs }, failures));
  const unknown = { outcome: "unknown", position: null } as const;
  for (const outcome of ["aborted", "never"] as const) {
    const resolved = { ...unseen, answer: unknown, resolution: { outcome, position: null } };
    assertGood(history({ resolved, reader: { ...reader, final: "lost" } }, { epochs }, failures));
  }
});

test("it is one if the reader is durable", () => {
  assertViolates(history({ answered: { ...unseen, answer: aborted }, reader }, { epochs }, failures), "G1a");
});

test("it is one if the transaction was refused while it ran", () => {
  const refused = { ...unseen, receipt: null, answer: { ...aborted, error: "serialization_failure" } };
  assertViolates(history({ refused, reader: { ...reader, final: "lost" } }, { epochs }, failures), "G1a");
});
