// Goal: a commit on the wire has the same trace as one over HTTP, and a transaction on the read
// port has spans for its wait and for its time at the node.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type EpochId, type Offset, parseTxnId } from "@highwater/protocol";
import { type FinishedSpan, Tracer } from "@highwater/service";
import { testDeploymentKeys } from "@highwater/service/testing";
import { Tokens } from "../txn/tokens.ts";
import { Gate } from "../wire/model/hold-queue.ts";
import { ReadTraces } from "../wire/shell/read-traces.ts";
import { SessionTraces } from "../wire/shell/session-traces.ts";

const ID = parseTxnId("01890a5d-ac96-774b-bcce-b302099a8057") ?? assert.fail();
const POSITION = { epoch: "11111111-1111-4111-8111-111111111111" as EpochId, offset: 1_234n as Offset };

const KEYS = testDeploymentKeys();
const TOKEN = new Tokens(KEYS, () => null).of({
  ...{ kind: "write", id: ID, attempt: POSITION.epoch, owner: 7n },
  ...POSITION,
});

function makeTracer(ratio: number) {
  const spans: FinishedSpan[] = [];
  let nowMs = 0;
  let drawn = 0;
  const tracer = new Tracer({
    sampling: { parent: false, ratio },
    clock: { monotonicMs: () => nowMs++ },
    random: () => (drawn++ % 100) / 100,
    onSpan: (span) => spans.push(span),
  });
  return { tracer, spans, names: () => spans.splice(0).map(({ name }) => name) };
}

function makeReads(ratio: number) {
  const { tracer, ...rest } = makeTracer(ratio);
  return { ...rest, traces: new ReadTraces(tracer, { node: "west", tokens: KEYS }) };
}

function makeSession(ratio: number) {
  const { tracer, spans, names } = makeTracer(ratio);
  const traces = new SessionTraces({ tracer, node: "east", owner: 7n });
  const commit = (ack: "commit" | "durable") => {
    const gate = new Gate(true);
    const id = ack === "commit" ? ID : null;
    const trace = traces.committed(gate, { id, ack, level: "region", sentMs: tracer.nowMs() });
    trace?.committed(POSITION);
    return { gate, trace };
  };
  return { traces, commit, spans, names };
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

test("a read has its wait for highwater.after, and then its time at the node", () => {
  const { traces, spans, names } = makeReads(1);
  traces.sent();
  // SET highwater.after reads nothing.
  traces.ended(true);
  traces.awaits(TOKEN);
  traces.arrived(null);
  traces.ran(null);
  assert.equal(spans.length, 0);
  traces.ended(false);
  const [own, after, read] = spans;
  assert.deepEqual([own?.kind, own?.attributes["highwater.node"], own?.error], ["server", "west", null]);
  assert.deepEqual(after?.attributes, {
    "highwater.transaction.id": ID,
    "highwater.epoch": POSITION.epoch,
    "highwater.offset": "1234",
    "error.type": undefined,
  });
  assert.equal(read?.attributes["highwater.node"], "west");
  assert.deepEqual([own?.context.spanId, own?.context.spanId], [after?.parentSpanId, read?.parentSpanId]);
  assert.ok((after?.endMs ?? 0) > (after?.startMs ?? 0), "the wait takes time");
  assert.equal(read?.startMs, after?.endMs, "the read begins behind it");
  assert.deepEqual(names(), ["postgresql read", "highwater after", "READ"]);
  // Without a wait, and in the middle of a session.
  traces.sent();
  traces.ran(null);
  traces.ended(false);
  assert.deepEqual(names(), ["postgresql read", "READ"]);
});

test("a read whose answer waits ends with that, and says whether what it shows is durable", () => {
  for (const [isEarly, verdict] of [
    [false, "durable"],
    [true, undefined],
  ] as const) {
    const { traces, spans, names } = makeReads(1);
    const [row, end, other] = [new Gate(false), new Gate(false), new Gate(true)];
    traces.sent();
    traces.holds(row, "region");
    traces.ran(null);
    traces.holds(end, "region");
    traces.ended(true);
    // The next answer waits until its node is known to be a replica.
    traces.ran(null);
    traces.holds(other, null);
    traces.ended(false);
    traces.opened(row, false);
    assert.equal(spans.length, 0);
    traces.opened(end, isEarly);
    const [own, read, durable] = spans;
    assert.deepEqual(durable?.attributes, { "highwater.level": "region", "highwater.verdict": verdict });
    assert.ok((read?.endMs ?? 0) < (durable.endMs ?? 0) && (durable.endMs ?? 0) < (own?.endMs ?? 0));
    assert.deepEqual(names(), ["postgresql read", "READ", "highwater durable"]);
    traces.opened(other, false);
    assert.deepEqual(names(), ["postgresql read", "READ"]);
  }
});

test("a read that waits in vain is kept although it was not sampled; another's token, an error of its own and a success are not", () => {
  const { traces, spans, names } = makeReads(0);
  const refused = (error: string): void => {
    traces.sent();
    traces.awaits(TOKEN);
    traces.arrived(error);
    traces.ended(false);
  };
  refused("57014");
  assert.deepEqual([spans[0]?.error, spans[1]?.attributes["error.type"]], ["57014", "57014"]);
  assert.deepEqual(names(), ["postgresql read", "highwater after"]);
  refused("42501");
  for (const error of ["42P01", null]) {
    traces.sent();
    traces.ran(error);
    traces.ended(false);
  }
  assert.deepEqual(names(), []);
});

test("a sampled read that fails says so", () => {
  const { traces, spans } = makeReads(1);
  traces.sent();
  traces.ran("42P01");
  traces.ended(false);
  const [, read] = spans;
  assert.deepEqual([read?.error, read?.attributes["db.response.status_code"]], ["42P01", "42P01"]);
});

test("reads that are open when a session ends by an error are kept, once each; none if the client has gone", () => {
  for (const [error, kept] of [
    ["57P01", ["postgresql read", "READ", "highwater durable", "postgresql read", "highwater after"]],
    [null, []],
  ] as const) {
    const { traces, names } = makeReads(0);
    traces.sent();
    traces.ran(null);
    for (const gate of [new Gate(false), new Gate(false)]) traces.holds(gate, "region");
    traces.ended(true);
    traces.awaits(TOKEN);
    traces.stop(error);
    traces.stop(error);
    assert.deepEqual(names(), kept);
  }
});

test("a token that is not of this deployment says nothing in a trace", () => {
  const { traces, spans } = makeReads(1);
  traces.awaits(`${TOKEN.slice(0, -4)}AAAA`);
  traces.arrived("22023");
  assert.equal(spans[1]?.attributes["highwater.transaction.id"], undefined);
  assert.equal(spans[1]?.attributes["error.type"], "22023");
});
