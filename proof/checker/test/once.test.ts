// Goal: nothing happens twice, and money is neither made nor lost.
import { test } from "node:test";
import { type FinalState } from "../src/index.ts";
import { append, epoch, failure, history, insert, read, sum, transfer } from "./support/build.ts";
import { assertGood, assertViolates } from "./support/judge.ts";

const at = [10, 20] as const;

test("no value is twice in a list or in the set", () => {
  const one = { at, does: [append("x", 1)] };
  assertViolates(history({ one }, { lists: { x: [1, 1] } }), "once.value");
  const reader = { at, does: [read("x")], shows: [[1, 1]], final: "durable" } as const;
  assertViolates(history({ one, reader }, { lists: { x: [1] } }), "once.value");
  const row = { at, does: [insert(1)] };
  assertGood(history({ row }, { inserted: [1] }));
  assertViolates(history({ row }, { inserted: [1, 1] }), "once.value");
  assertViolates(history({ row }, { inserted: [1, 2] }), "read.garbage");
});

test("a transfer has moved what it was asked to, once", () => {
  const one = { at, does: [transfer(0, 1, 5)] };
  const row = { txn: "one", from: 0, to: 1, amount: 5 };
  const balances = [95, 105];
  assertGood(history({ one }, { transfers: [row], balances }));
  assertViolates(history({ one }, { transfers: [row, row], balances: [90, 110] }), "once.transfer");
  assertViolates(
    history({ one }, { transfers: [{ ...row, amount: 6 }], balances: [94, 106] }),
    "once.transfer",
  );
  const stranger = { ...row, txn: "nobody" };
  assertViolates(history({}, { transfers: [stranger], balances }), "once.transfer");
});

test("balances follow from the transfers, and totals never change", () => {
  const one = { at, does: [transfer(0, 1, 5)] };
  const row = { txn: "one", from: 0, to: 1, amount: 5 };
  assertViolates(history({ one }, { transfers: [row], balances: [90, 110] }), "bank.balance");
  assertViolates(history({ one }, { transfers: [row], balances: [95] }), "bank.balance");
  assertGood(history({ total: { at, does: [sum], shows: [200] } }));
  assertViolates(history({ total: { at, does: [sum], shows: [195] } }), "bank.sum");
});

test("an id has one receipt", () => {
  const receipts = ["e1", "e2"].map((epoch) => ({ txn: "one", kind: "commit" as const, epoch }));
  assertViolates(
    history({ one: { at, does: [append("x", 1)] } }, { lists: { x: [1] }, receipts }),
    "once.receipt",
  );
});

test("a body that ran again is there once", () => {
  const aborted = {
    at,
    does: [append("x", 1)],
    answer: { outcome: "aborted" },
    shows: null,
    final: null,
    receipt: null,
  } as const;
  const again = { at: [30, 40], does: [append("x", 2)], invocation: { rerunOf: "first" } } as const;
  assertGood(history({ first: aborted, again }, { lists: { x: [2] } }));
  const both = { lists: { x: [1, 2] } };
  assertViolates(
    history({ first: { ...aborted, receipt: "commit" }, again }, both),
    "once.rerun",
    "fate.aborted-present",
  );
  assertViolates(history({ first: { at, does: [append("x", 1)] }, again }, both), "once.rerun");
  // It was lost, ran again, and came back with an older node: it is reported as broken.
  const reported = [{ verdict: "lost", atMs: 25 }] as const;
  const back = { at, does: [append("x", 1)], reported, final: "broken", receipt: "commit" } as const;
  const failures = [failure(22, []), failure(50, [])];
  const returned = (commanded: boolean): Partial<FinalState> => ({
    ...both,
    epochs: [epoch("e1", null), epoch("e3", "e1", { commanded }), epoch("e2", "e1", { inHistory: false })],
  });
  assertGood(history({ first: back, again }, returned(true), failures));
  assertViolates(history({ first: back, again }, returned(false), failures), "once.rerun");
});
