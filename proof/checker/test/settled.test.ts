// Goal: a transaction that was settled as aborted may have been seen in the history that was lost.
import { test } from "node:test";
import { append, epoch, failure, history, read, readAppend } from "./support/build.ts";
import { assertGood, assertViolates } from "./support/judge.ts";

const at = [10, 20] as const;
const epochs = [epoch("e1", null), epoch("e2", "e1", { node: "b" })];
const failures = [failure(30, ["region", "global"])];
const unseen = { at, does: [append("x", 1)], shows: null, final: null, receipt: null } as const;
const receipts = (epoch: string, txn = "answered") => ({
  epochs,
  receipts: [{ txn, kind: "aborted" as const, epoch }],
});
const aborted = { outcome: "aborted", position: null, error: "transaction_aborted" } as const;
const reader = { at, does: [read("x")], shows: [[1]] };

test("it is no dirty read if the reader is lost with it", () => {
  const answered = { ...unseen, answer: aborted };
  assertGood(history({ answered, reader: { ...reader, final: "lost" } }, receipts("e2"), failures));
  const unknown = { outcome: "unknown", position: null } as const;
  for (const outcome of ["aborted", "never"] as const) {
    const resolved = { ...unseen, answer: unknown, resolution: { outcome, position: null } };
    assertGood(
      history({ resolved, reader: { ...reader, final: "lost" } }, receipts("e2", "resolved"), failures),
    );
  }
});

test("it is one if the reader is durable", () => {
  assertViolates(
    history({ answered: { ...unseen, answer: aborted }, reader }, receipts("e2"), failures),
    "G1a",
    "recoverability.reads",
  );
});

test("it is one if the tombstone is of the reader's own history", () => {
  const answered = { ...unseen, answer: aborted };
  assertViolates(
    history({ answered, reader: { ...reader, final: "lost" } }, receipts("e1"), failures),
    "G1a",
  );
});

test("it stands in its place among what others have appended", () => {
  const later = { at, does: [append("x", 2)], final: "lost" } as const;
  const both = { at, does: [read("x")], shows: [[1, 2]], final: "lost" } as const;
  const specs = {
    answered: { ...unseen, answer: aborted },
    later,
    both,
    reader: { ...reader, final: "lost" },
  } as const;
  assertGood(history(specs, receipts("e2"), failures));
  const half = { at, does: [read("x"), readAppend("x", 3)], shows: [[1], [1]], final: "lost" } as const;
  assertViolates(history({ ...specs, half }, receipts("e2"), failures), "G-single");
});

test("it is one if the transaction was refused while it ran", () => {
  const refused = { ...unseen, receipt: null, answer: { ...aborted, error: "serialization_failure" } };
  assertViolates(history({ refused, reader: { ...reader, final: "lost" } }, { epochs }, failures), "G1a");
});
