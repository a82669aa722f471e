// Goal: a commit on the wire is traced as one over HTTP is: its own span, the database's, and the one that ends when it is durable.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type EpochId, type Offset, parseTxnId } from "@highwater/protocol";
import { type FinishedSpan, Tracer } from "@highwater/service";
import { Gate } from "../wire/model/hold-queue.ts";
import { SessionTraces } from "../wire/shell/session-traces.ts";

const ID = parseTxnId("01890a5d-ac96-774b-bcce-b302099a8057") ?? assert.fail();
const POSITION = { epoch: "11111111-1111-4111-8111-111111111111" as EpochId, offset: 1_234n as Offset };

function makeSession(ratio: number) {
  const spans: FinishedSpan[] = [];
  let nowMs = 0;
  const tracer = new Tracer({
    sampling: { parent: false, ratio },
    clock: { monotonicMs: () => nowMs++ },
    random: () => 0.5,
    onSpan: (span) => spans.push(span),
  });
  const traces = new SessionTraces({ tracer, node: "east", owner: 7n });
  const commit = (ack: "commit" | "durable") => {
    const gate = new Gate(true);
    const id = ack === "commit" ? ID : null;
    const trace = traces.committed(gate, { id, ack, level: "region", sentMs: nowMs });
    trace?.committed(POSITION);
    return { gate, trace };
  };
  return { traces, commit, spans, names: () => spans.splice(0).map(({ name }) => name) };
}

test("a held commit has its spans when it is answered, and the next one its own", () => {
  const { traces, commit, spans, names } = makeSession(1);
  traces.sent();
  const { gate } = commit("durable");
  traces.ended(true);
  assert.equal(spans.length, 0);
  traces.answered(gate, false);
  const [, own, store, durable] = spans;
  assert.deepEqual(own?.attributes, {
    "highwater.ack": "durable",
    "highwater.isolation": undefined,
    "highwater.form": "wire",
    "highwater.state": "durable",
    "error.type": undefined,
    "highwater.epoch": POSITION.epoch,
    "highwater.offset": "1234",
  });
  assert.equal(store?.attributes["highwater.node"], "east");
  assert.deepEqual([durable?.attributes["highwater.verdict"], durable?.error], ["durable", null]);
  assert.deepEqual(names(), ["postgresql commit", "highwater transaction", "COMMIT", "highwater durable"]);
  // It was sent before the first was answered.
  const next = commit("durable");
  traces.answered(next.gate, true);
  assert.deepEqual(names(), ["postgresql commit", "highwater transaction", "COMMIT"]);
});

test("a fast commit goes on until the mark has passed it, by its id", () => {
  const { traces, commit, spans, names } = makeSession(1);
  traces.sent();
  const { gate, trace } = commit("commit");
  traces.answered(gate, true);
  assert.equal(spans[1]?.attributes["highwater.transaction.id"], ID);
  assert.equal(spans[1]?.attributes["highwater.state"], "committed");
  names();
  trace?.transaction.settled("durable", "region");
  assert.deepEqual(names(), ["highwater durable"]);
});

test("what is lost, or has no answer, is kept although it was not sampled; a success is not", () => {
  const { traces, commit, spans, names } = makeSession(0);
  traces.sent();
  traces.answered(commit("durable").gate, false);
  assert.deepEqual(names(), []);
  traces.sent();
  traces.lost(commit("durable").gate);
  assert.equal(spans.find(({ name }) => name === "highwater durable")?.error, "lost");
  names();
  traces.sent();
  commit("durable");
  traces.stop();
  assert.equal(spans[0]?.error, "commit_unconfirmed");
});

test("without a tracer, and without anything sent, nothing is traced", () => {
  const traces = new SessionTraces({ tracer: undefined, node: "east", owner: 0n });
  traces.sent();
  const commit = { id: ID, ack: "commit", level: "region", sentMs: 0 } as const;
  assert.equal(traces.committed(new Gate(true), commit), null);
  assert.equal(makeSession(1).traces.committed(new Gate(true), commit), null);
});
