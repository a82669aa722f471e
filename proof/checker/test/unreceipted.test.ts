// Goal: a safe transaction without a receipt is judged by its effects and by the answer that it is durable.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { failure, history, insert, type Spec } from "./support/build.ts";
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

  it("is there as a whole", () => {
    const torn = { ...safe(), does: [insert(7), insert(8)] };
    assertViolates(history({ a: torn }, { inserted: [7] }), "atomicity.torn");
  });
});
