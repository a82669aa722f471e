// What the simulation has found, each as the smallest history that shows it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Driven, epochId, record, txnId } from "../test/support/core.ts";

const LEVELS = ["disk", "zone", "region", "global"];

test("an answer that only the ledger could give is not forgotten before the token can give it", () => {
  const it = new Driven();
  const first = record(1);
  it.follow(first);
  it.confirm(100, { b: ["s1", 100] });
  it.position(1, 1, 80);
  const second = record(2, { node: "b", fork: 100, start: 110 });
  it.follow(first, second);
  it.positions(112);
  // The client has asked again under the same id, and its token says where the log ended then.
  const position = { epoch: epochId(2), offset: 150n as never };
  const again = {
    kind: "token_presented",
    id: txnId(1),
    owner: 0n,
    attempt: epochId(1),
    tokenKind: "write",
    position,
  } as const;
  it.send(again);
  assert.equal(it.state.ledger.entries.get(`${txnId(1)}/${epochId(1)}`)?.hasOtherTokens, true);
  it.confirm(120, { a: ["s2", 120], c: ["s3", 120], d: ["s4", 120] });
  assert.equal(it.stateOf(1, 1), "pending", "everywhere by now, and remembered for the other token");
  for (const level of LEVELS) assert.equal(it.verdict(1, 1, 80, level), "durable");
});

test("an entry without other tokens leaves when it is durable at every level", () => {
  const it = new Driven();
  const first = record(1);
  it.follow(first);
  it.confirm(100, { b: ["s1", 100] });
  it.position(1, 1, 80);
  it.follow(first, record(2, { node: "b", fork: 100, start: 110 }));
  it.confirm(120, { a: ["s2", 120], c: ["s3", 120], d: ["s4", 120] });
  assert.equal(it.stateOf(1, 1), undefined);
});

test("a read that another tracker had reported lost, and that the current epoch has again, is broken here too", () => {
  const it = Driven.following(record(1));
  it.confirm(100, { b: ["s1", 100] });
  assert.equal(it.verdict(1, 1, 80, "disk", "read"), "durable");
  const verdicts = Object.fromEntries(LEVELS.map((level) => [level, "broken" as const]));
  const origin = { epoch: epochId(1), offset: 80n as never };
  it.receivePeerVerdict(1, 1, { kind: "read", rule: "R8 reappeared", verdicts, origin });
  for (const level of LEVELS) assert.equal(it.verdict(1, 1, 80, level, "read"), "broken");
});
