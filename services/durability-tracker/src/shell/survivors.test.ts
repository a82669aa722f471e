// Goal: what a survivor's witness row says is not lost when the tracker follows no epoch for a moment. Method: the product's core, a
// replica that keeps answering the same, and an authority that is unsettled while the first answer is on its way.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type NodeReport } from "@highwater/authority";
import { FakeClock } from "@highwater/runtime/testing";
import { type Store } from "@highwater/store";
import { Driven, epochId, off, record } from "../../test/support/core.ts";
import { Survivors } from "./survivors.ts";

for (const blinks of [false, true])
  test(`the marks of a survivor are learned${blinks ? ", also when the authority was unsettled as they came" : ""}`, async () => {
    const it = new Driven();
    const first = record(1);
    it.follow(first);
    it.positions(100);
    const second = record(2, { node: "b", fork: 20, start: 110, limit: 60, cause: "promotion" });
    it.follow(first, second);
    const clock = new FakeClock();
    const witnessOf: Store["witnessOf"] = () =>
      Promise.resolve({ reached: off(95), seenBy: off(96), marks: { region: "90", global: "90" } });
    const survivors = new Survivors({
      clock,
      store: { witnessOf },
      onRead: (word) => {
        it.send({ kind: "witnesses_read", ...word });
      },
    });
    const report = { node: "c", role: "replica", epochs: [first] } as unknown as NodeReport;
    survivors.look(report, it.state);
    if (blinks) it.send({ kind: "authority_unsettled", reason: "for a moment", split: false });
    await clock.advance(2_000);
    if (blinks) it.follow(first, second);
    survivors.look(report, it.state);
    await clock.advance(2_000);
    assert.equal(it.state.topology.marks.get(epochId(1))?.get("global"), off(90));
  });
