// Goal: a safe transaction without a receipt is judged by its effects and by the answer that it is
// durable.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { append, epoch, failure, history, insert, read, type Spec } from "./support/build.ts";
import { check } from "../src/check.ts";
import { assertGood, assertViolates } from "./support/judge.ts";

const safe = (answer: Spec["answer"] = { durableAt: "region" }): Spec => ({
  ...{ does: [insert(7)], final: null, receipt: null },
  invocation: { ack: "durable", level: "region", receipt: false },
  ...(answer !== undefined && { answer }),
});

describe("a transaction without a receipt", () => {
  it("may be there, and needs neither a verdict nor a receipt", () => {
    assertGood(history({ a: safe() }, { inserted: [7] }));
  });

  it("that was answered as durable is there in the end", () => {
    assertViolates(history({ a: safe() }), "fate.durable-absent");
  });

  it("may be gone after a failure that did not keep its level", () => {
    const records = history({ a: safe() }, {}, [failure(50, ["disk"])]);
    assert.deepEqual(check(records).ambiguous, { broken_without_token: 1 });
  });

  it("may not be gone after a failure that kept it", () => {
    const records = history({ a: safe() }, {}, [failure(50, ["disk", "region"])]);
    assertViolates(records, "fate.durable-absent");
  });

  it("that was answered early, or not at all, promises nothing", () => {
    assertGood(history({ a: safe({ durableAt: null }) }));
    assertGood(history({ a: safe({ outcome: "unknown", position: null }) }));
  });

  it("that was rolled back is not there", () => {
    const aborted = safe({ outcome: "aborted", position: null });
    assertViolates(history({ a: aborted }, { inserted: [7] }), "fate.aborted-present");
  });

  it("is known by the id that its token names", () => {
    const fast = (answer: NonNullable<Spec["answer"]>): Spec => ({
      ...{ does: [insert(7)], receipt: null, answer },
      invocation: { ack: "commit", receipt: false },
    });
    const receipts = [{ txn: "g", kind: "commit", epoch: "e1" }] as const;
    const there = { inserted: [7], receipts };
    assertGood(history({ a: fast({ tokenOf: "g" }) }, there));
    assertViolates(history({ a: fast({ tokenOf: "g" }) }, { receipts }), "atomicity.receipt");
    assertViolates(
      history({ a: fast({ tokenOf: "g" }) }, { inserted: [7] }),
      "atomicity.receipt",
      "fate.durable-absent",
    );
    assertViolates(history({ a: { ...fast({ tokenOf: "g" }), final: null } }, there), "fate.no-verdict");
  });

  it("is of the epoch that shows it, also in front of a value that was lost and sent again", () => {
    const lost = { level: "global", verdict: "lost", attempt: "e1" } as const;
    const records = history(
      {
        first: { does: [append("x", 1)] },
        before: { epoch: "e2", does: [read("x")], shows: [[1]] },
        held: { ...safe({ durableAt: "region", position: null }), does: [append("x", 2)] },
        again: { epoch: "e2", does: [append("x", 3)], reported: [lost] },
        after: { epoch: "e2", does: [read("x")], shows: [[1, 2, 3]] },
      },
      { lists: { x: [1, 2, 3] }, epochs: [epoch("e1", null), epoch("e2", "e1", { node: "b" })] },
      [failure(15, ["disk", "region"])],
    );
    assertGood(records);
  });

  describe("whose token names a position", () => {
    const early = (final: NonNullable<Spec["final"]>, more: Partial<Spec> = {}): Spec => ({
      ...safe({ durableAt: null }),
      final,
      ...more,
    });
    const moved = { epochs: [epoch("e1", null), epoch("e2", "e1", { node: "b" })] };
    const there = { inserted: [7] };

    it("is durable once a mark has passed it", () => {
      assertGood(history({ a: early("durable") }, there));
      assertViolates(history({ a: early("durable") }), "fate.durable-absent");
    });

    it("is not durable where a failure has discarded it", () => {
      const records = history({ a: early("durable") }, moved, [failure(50, [])]);
      assertViolates(records, "fate.durable-absent");
    });

    it("may be unknown once its epoch has ended, whether it is there or not", () => {
      for (const final of [{ ...moved, ...there }, moved]) {
        const records = history({ a: early("unknown") }, final, [failure(50, [])]);
        assertGood(records);
        assert.deepEqual(check(records).ambiguous, { unknown_without_receipt: 3 });
      }
      assertViolates(history({ a: early("unknown") }, there), "fate.unjudged");
      assertViolates(history({ a: early("pending") }, moved, [failure(50, [])]), "fate.pending");
    });

    it("is never lost", () => {
      assertViolates(history({ a: early("lost") }, moved, [failure(50, [])]), "fate.lost-guessed");
    });

    it("is broken if it was durable, and only after a failure that did not keep that", () => {
      const broken = early("broken", { reported: [{ verdict: "durable", by: "asked", atMs: 40 }] });
      assertGood(history({ a: broken }, moved, [failure(50, [])]));
      assertViolates(
        history({ a: broken }, moved, [failure(50, ["disk", "region", "global"])]),
        "fate.promise-broken",
      );
    });
  });

  it("is there as a whole", () => {
    const torn = { ...safe(), does: [insert(7), insert(8)] };
    assertViolates(history({ a: torn }, { inserted: [7] }), "atomicity.torn");
  });
});

describe("the token of an answer", () => {
  const written = (value: number, tokenOf: string): Spec => ({ does: [insert(value)], answer: { tokenOf } });

  it("is that of its own transaction", () => {
    assertGood(history({ a: written(7, "a") }, { inserted: [7] }));
    assertViolates(history({ a: written(7, "b") }, { inserted: [7] }), "token.foreign");
  });

  it("belongs to one transaction", () => {
    const unnamed = (value: number): Spec => ({ ...written(value, "g"), invocation: { receipt: false } });
    const receipts = [{ txn: "g", kind: "commit", epoch: "e1" }] as const;
    const records = history({ a: unnamed(7), b: unnamed(8) }, { inserted: [7, 8], receipts });
    assertViolates(records, "token.foreign", "fate.durable-absent", "atomicity.receipt");
  });

  it("is empty where nothing was committed", () => {
    const aborted = { ...written(7, "a"), final: null, receipt: null };
    assertViolates(
      history({ a: { ...aborted, answer: { tokenOf: "a", outcome: "aborted", position: null } } }),
      "token.foreign",
    );
    assertViolates(
      history({ a: { does: [read("x")], shows: [[]], answer: { tokenOf: "a" } } }),
      "token.foreign",
    );
  });
});
