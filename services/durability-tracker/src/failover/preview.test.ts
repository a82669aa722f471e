import assert from "node:assert/strict";
import { test } from "node:test";
import Fastify from "fastify";
import fc from "fast-check";
import { type Problem } from "@highwater/protocol";
import { FakeClock } from "@highwater/runtime/testing";
import {
  Admission,
  AnonymousAuthenticator,
  ANYBODY,
  Callers,
  installCallers,
  installErrorHandling,
} from "@highwater/service";
import { MemoryLog } from "@highwater/service/testing";
import { Driven, epochId, record, txnId } from "../../test/support/core.ts";
import { registerFailoverRoutes } from "../routes/failover.ts";
import { previewFailover } from "./preview.ts";
import { type CandidatePreview, type FailoverPreview } from "./wire.ts";

const first = record(1);

/** `a` was the primary; `b` has the log up to 60, `c` up to 40. */
function withPositions(offsets: readonly number[]): Driven {
  const it = Driven.following(first);
  it.confirm(100, { b: ["s1", 60], c: ["s2", 40] });
  for (const [at, offset] of offsets.entries()) {
    it.intent(at + 1, 1);
    it.position(at + 1, 1, offset);
  }
  return it;
}

function previewOf(it: Driven, offsets: Readonly<Record<string, number>>, list = 0): FailoverPreview {
  const candidates = Object.entries(offsets).map(([node, offset]) => ({ node, offset: String(offset) }));
  return previewFailover(it.state, { epoch: epochId(1), candidates, list });
}

test("what each choice would lose: bytes, promises, and transactions by name", () => {
  const it = withPositions([90, 70, 61, 60, 41]);
  it.intent(9, 1);
  const found = previewOf(it, { b: 60, c: 40 }, 2);
  const levels = Object.fromEntries(
    found.candidates.map(({ node, promises }) => [node, promises.map(({ level }) => level)]),
  );
  assert.deepEqual(found.marks, { disk: "100", zone: "60", region: "60", global: "40" });
  assert.equal(found.end, "100");
  assert.equal(found.follows, true);
  assert.equal(found.undecided, 1);
  assert.deepEqual(found.nodes, [
    { node: "a", position: "100" },
    { node: "b", position: "60" },
    { node: "c", position: "40" },
  ]);
  // The primary's own disk is not expected to survive that another node takes over.
  assert.deepEqual(levels, { b: [], c: ["zone", "region"] });
  const [b, c] = found.candidates;
  assert.deepEqual([b?.bytes, b?.transactions, b?.complete, b?.ids], ["40", 3, true, [txnId(3), txnId(2)]]);
  assert.deepEqual([c?.bytes, c?.transactions, c?.complete, c?.ids], ["60", 5, false, [txnId(5), txnId(4)]]);
  assert.deepEqual(c?.promises[0], { level: "zone", from: "40", to: "60" });
});

test("the numbers are those of a count over everything, whatever the order in which it was announced", () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 41, max: 120 }), { maxLength: 30 }),
      fc.integer({ min: 40, max: 120 }),
      fc.integer({ min: 0, max: 8 }),
      (offsets, offset, list) => {
        const [found] = previewOf(withPositions(offsets), { b: offset }, list).candidates;
        const above = offsets
          .map((at, n) => ({ at, id: txnId(n + 1) }))
          .filter(({ at }) => at > offset)
          .sort((x, y) => x.at - y.at);
        assert.equal(found?.transactions, above.length);
        const at = new Map(above.map(({ id, at: where }) => [id as string, where]));
        assert.deepEqual(
          found.ids.map((id) => at.get(id)),
          above.slice(0, list).map(({ at: where }) => where),
        );
        assert.equal(new Set(found.ids).size, found.ids.length);
      },
    ),
    { numRuns: 200 },
  );
});

test("of an epoch that the tracker does not follow it shows the marks, and no transactions", () => {
  const it = withPositions([90]);
  it.follow(first, record(2, { node: "b", fork: 60, start: 70 }));
  const found = previewOf(it, { c: 40 });
  const [c] = found.candidates as [CandidatePreview];
  assert.deepEqual([found.follows, c.transactions, c.complete], [false, 0, false]);
  assert.deepEqual(c.promises[1], { level: "region", from: "40", to: "60" });
});

test("it is asked before there is a new primary: the old one is gone, the epoch is the same", () => {
  const it = withPositions([90]);
  it.send({ kind: "authority_unsettled", reason: "no writable node answers", split: false });
  assert.equal(previewOf(it, { b: 60 }).candidates[0]?.transactions, 1);
});

test("over HTTP: the scope admin, a body that is checked, and the answer of the state as it is then", async () => {
  const it = withPositions([90]);
  const body = { epoch: epochId(1), candidates: [{ node: "b", offset: "60" }] };
  const clock = new FakeClock();
  const admission = new Admission({
    clock,
    defaults: { ratePerSecond: null, burst: null, concurrency: null },
  });
  for (const scopes of [["read"], ["admin"]] as const) {
    const app = Fastify();
    installErrorHandling(app, new MemoryLog());
    const authenticator = new AnonymousAuthenticator();
    authenticator.authenticate = () => Promise.resolve({ ...ANYBODY, scopes: new Set(scopes) });
    installCallers(app, new Callers({ authenticator, admission, clock, onRefused: () => undefined }));
    registerFailoverRoutes(app, { state: () => it.state });
    const ask = async (payload: object) =>
      app.inject({ method: "POST", url: "/v1/durability/failover-preview", payload });
    if (scopes[0] === "read") {
      assert.equal((await ask(body)).statusCode, 403);
      continue;
    }
    const answer = await ask(body);
    assert.equal(answer.statusCode, 200, answer.body);
    assert.equal(answer.json<FailoverPreview>().candidates[0]?.transactions, 1);
    for (const bad of [{}, { ...body, candidates: [] }, { ...body, epoch: "1" }, { ...body, list: 5_000 }]) {
      const refused = await ask(bad);
      assert.equal(refused.json<Problem>().code, "invalid_request", JSON.stringify(bad));
    }
    await app.close();
  }
});
