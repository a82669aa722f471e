// Goal: transactions in one request are independent: each has its own outcome and is answered when it ends.
// Method: batches against a real primary, with gates that hold one transaction still while the others are looked at.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { BatchLine, LIMITS, type Problem, validate } from "@highwater/protocol";
import { realClock } from "@highwater/runtime";
import { type FinishedSpan, Tracer } from "@highwater/service";
import { type Database } from "../support/database.ts";
import { newId } from "../support/fakes.ts";
import { problemOf, type TestGateway } from "../support/gateway.ts";
import { Bench, note } from "../support/interactive.ts";

let bench: Bench;
let database: Database;
let gateway: TestGateway;

before(async () => {
  bench = await Bench.start({ id: "a", region: "us-east" });
  ({ database, gateway } = bench);
});

after(() => bench.close());

interface Reading {
  readonly answer: Response;
  readonly lines: AsyncGenerator<BatchLine>;
}

/** The answer to a batch, line by line as they arrive. */
async function send(transactions: readonly unknown[], signal?: AbortSignal): Promise<Reading> {
  const answer = await fetch(`${gateway.url}/v1/transactions/batch`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ transactions }),
    ...(signal === undefined ? {} : { signal }),
  });
  assert.deepEqual([answer.status, answer.headers.get("content-type")], [200, "application/x-ndjson"]);
  assert.equal(answer.headers.get("x-accel-buffering"), "no");
  return { answer, lines: linesOf(answer) };
}

async function* linesOf(answer: Response): AsyncGenerator<BatchLine> {
  assert.ok(answer.body !== null);
  let text = "";
  for await (const part of answer.body.pipeThrough(new TextDecoderStream())) {
    const lines = (text + part).split("\n");
    text = lines.pop() ?? "";
    for (const line of lines) {
      const checked = validate(BatchLine, JSON.parse(line));
      assert.ok(checked.ok, line);
      yield checked.value;
    }
  }
  assert.equal(text, "", "the last line is whole");
}

async function next({ lines }: Reading): Promise<BatchLine> {
  const found = await lines.next();
  if (found.done === true) assert.fail("there is no other line");
  return found.value;
}

async function all({ lines }: Reading): Promise<BatchLine[]> {
  const found: BatchLine[] = [];
  for await (const line of lines) found.push(line);
  return found.sort((a, b) => a.index - b.index);
}

const insert = (key: number, more: object = {}): object => ({
  ...{ id: newId(), statements: [{ sql: note(key) }], isolation: "read committed" },
  ...more,
});
const codeOf = ({ body }: BatchLine): string => ("code" in body ? body.code : body.state);

describe("a batch", () => {
  it("gives each transaction the outcome that it would have had alone", async () => {
    const failing = insert(2, { statements: [{ sql: note(2) }, { sql: "SELECT 1 / 0" }] });
    const read = { id: newId(), statements: [{ sql: "SELECT 7 AS seven" }], readOnly: true };
    const lines = await all(
      await send([insert(1), failing, { id: "order-7" }, insert(3, { id: "order-7" }), read, "x", insert(4)]),
    );
    assert.deepEqual(
      lines.map((line) => [line.index, line.status, codeOf(line)]),
      [
        [0, 200, "committed"],
        [1, 422, "statement_failed"],
        [2, 400, "invalid_request"],
        [3, 400, "invalid_id"],
        [4, 200, "committed"],
        [5, 400, "invalid_request"],
        [6, 200, "committed"],
      ],
    );
    const { sqlstate, statement, outcome } = lines[1]?.body as Problem;
    assert.deepEqual([sqlstate, statement, outcome], ["22012", 1, "not_applied"]);
    const found = lines[4]?.body;
    assert.ok(found !== undefined && "results" in found);
    assert.deepEqual(found.results?.[0]?.rows, [["7"]]);
    assert.deepEqual(await Promise.all([1, 2, 3, 4].map((key) => bench.notes(key))), [1, 0, 0, 1]);
  });

  it("runs an id once, also when it is in there twice, and answers a second batch by its outcome", async () => {
    const request = insert(10);
    const lines = await all(await send([request, request]));
    assert.ok(lines.some((line) => codeOf(line) === "committed"));
    const [again] = await all(await send([request]));
    assert.ok(again !== undefined && "replayed" in again.body);
    assert.deepEqual([codeOf(again), again.body.replayed, again.body.results], ["committed", true, null]);
    assert.equal(await bench.notes(10), 1);
  });

  it("answers those that have ended while a slow one goes on", async () => {
    const gate = await database.gate();
    const slow = insert(20, { statements: [{ sql: note(20) }, gate.inStatement] });
    const reading = await send([slow, insert(21), insert(22)]);
    await gate.reached();
    const early = [await next(reading), await next(reading)];
    assert.deepEqual(early.map(({ index }) => index).sort(), [1, 2]);
    assert.deepEqual([await bench.notes(20), await bench.notes(21)], [0, 1]);
    await gate.open();
    const late = await next(reading);
    assert.deepEqual([late.index, codeOf(late)], [0, "committed"]);
    assert.equal((await reading.lines.next()).done, true);
  });

  it("ends what is under way when its client goes away, and nothing that has committed", async () => {
    const gate = await database.gate();
    const leave = new AbortController();
    const id = newId();
    const slow = insert(30, { id, statements: [{ sql: note(30) }, gate.inStatement] });
    const reading = await send([slow, insert(31)], leave.signal);
    await gate.reached();
    assert.equal((await next(reading)).index, 1);
    leave.abort();
    await assert.rejects(next(reading), { name: "AbortError" });
    await database.untilNone(gate.waiting);
    await gate.open();
    // The gateway learns of the end of its statement after the database.
    await bench.nothingOpen();
    assert.deepEqual([await bench.notes(30), await bench.notes(31)], [0, 1]);
    assert.equal((await gateway.state(id)).state, "unknown");
    await bench.poolIsWhole(gateway);
  });

  it("keeps each transaction in the trace that its client has named, and the others in the request's", async () => {
    const clientSpans = ["a", "b"];
    const spans: FinishedSpan[] = [];
    const sampling = { parent: true, ratio: 0 };
    const tracer = new Tracer({
      sampling,
      clock: realClock,
      random: Math.random,
      onSpan: (span) => spans.push(span),
    });
    const traced = await bench.start({}, { tracer });
    const [mine, unsampled] = [1, 2].map((digit) => `00-${String(digit).repeat(32)}-${"a".repeat(16)}`);
    const transactions = [insert(60), insert(61), insert(62), { id: "order-7" }, insert(63)];
    const answer = await fetch(`${traced.url}/v1/transactions/batch`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        traceparent: `00-${"9".repeat(32)}-${"b".repeat(16)}-01`,
      },
      body: JSON.stringify({
        transactions,
        traceparents: ["", `${String(mine)}-01`, `${String(unsampled)}-00`, `${String(mine)}-01`],
      }),
    });
    await answer.text();
    await traced.close();
    const found = spans.map(({ name, context, parentSpanId, attributes }) => [
      context.traceId.slice(0, 1),
      name,
      clientSpans.find((each) => each.repeat(16) === parentSpanId) ?? "its own",
      attributes["highwater.transaction.id"] ?? attributes["http.response.status_code"],
    ]);
    const [first, second, , , last] = transactions.map((each) => (each as { id: string }).id);
    const of = (trace: string, name: string): unknown[] =>
      found
        .filter((each) => each[0] === trace && each[1] === name)
        .map((each) => each.slice(2))
        .sort();
    assert.deepEqual(of("1", "highwater transaction"), [["its own", second]]);
    assert.deepEqual(of("1", "COMMIT"), [["its own", second]]);
    assert.deepEqual(of("1", "POST /v1/transactions/batch"), [
      ["a", 200],
      ["a", 400],
    ]);
    assert.deepEqual(
      of("9", "highwater transaction"),
      [
        ["its own", first],
        ["its own", last],
      ].sort(),
    );
    assert.deepEqual(of("9", "POST /v1/transactions/batch"), [["b", 200]]);
    assert.ok(
      found.every(([trace]) => trace === "1" || trace === "9"),
      "what its client does not sample is not kept",
    );
  });

  it("is refused as a whole only for what is wrong with the whole", async () => {
    const tooMany = Array.from({ length: LIMITS.transactionsPerBatch + 1 }, (_, at) => insert(1_000 + at));
    const traces = { transactions: [insert(1_000)], traceparents: [1] };
    for (const body of [
      traces,
      {},
      { transactions: [] },
      { transactions: tooMany },
      { transactions: [1], more: 1 },
    ])
      assert.equal(problemOf(await gateway.call("/batch", body)).code, "invalid_request");
    assert.equal(await bench.notes(1_000), 0);
  });
});
