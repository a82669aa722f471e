// A client's input from an invalid server: streams, answers, problems and verdicts.
import assert from "node:assert/strict";
import { Highwater, HighwaterError, sql } from "@highwater/sdk";
import {
  decoderOf,
  isTransactionResponse,
  linesOf,
  retryAfter,
  type SseEvent,
  sseParser,
} from "@highwater/sdk/internals";
import { cut, jsonOf } from "../holds.ts";
import { seedOf } from "../random.ts";
import { EPOCH, fixtures, ID, TOKEN } from "../samples.ts";
import { pure, type Target } from "../target.ts";
import { epochRecord } from "@highwater/protocol/testing";

const MARKS = { epoch: EPOCH, seq: 1, levels: { disk: "83886081", region: "83886080" } };
const RECORD = epochRecord(EPOCH, { node: "east" });
const event = (type: string, data: unknown): string =>
  `id: 1.1\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
const STREAM = event("epoch", { epochs: [RECORD] }) + event("mark", MARKS);
const ANSWER = {
  id: ID,
  state: "committed",
  token: TOKEN,
  position: { epoch: EPOCH, offset: "83886080" },
  marks: null,
  announced: true,
  results: [
    {
      command: "SELECT",
      rowCount: 1,
      rows: [["1", "t", '{"a":1}', "9007199254740993", null]],
      fields: [23, 16, 3802, 20, 25].map((oid, at) => ({ name: `c${String(at)}`, oid })),
    },
  ],
};
const PROBLEM = {
  type: "/errors/epoch_changed",
  title: "t",
  status: 503,
  code: "epoch_changed",
  outcome: "not_applied",
  retry: "wait",
  retryAfterMs: 1,
  sqlstate: "40001",
  fields: ["a"],
};
const VERDICTS = {
  verdicts: [
    { token: TOKEN, id: ID, verdict: "lost", level: "region", position: ANSWER.position, rule: "x" },
  ],
  marks: MARKS,
};

async function eventsIn(pieces: readonly Uint8Array[]): Promise<SseEvent[]> {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece);
      controller.close();
    },
  });
  const parse = sseParser();
  const events: SseEvent[] = [];
  for await (const line of linesOf(new Response(body))) events.push(...[parse(line) ?? []].flat());
  return events;
}

const sse = pure({
  name: "sdk-stream-parser",
  about: "a stream has the same events however it is cut",
  seeds: [STREAM, ": hello\r\n\r\nid: 1\r\ndata: a\r\ndata: b\r\n\r\n", "\ufeffdata\n\nid: \0\ndata:x\n\n"],
  words: ["data: ", "event: ", "id: ", "\r\n", "\r", "\n\n", ":", "\ufeff", "\0"],
  sliceRuns: 4_000,
  run: async (input) => {
    const pieces = await eventsIn(cut(input, seedOf(input)));
    assert.deepEqual(pieces, await eventsIn([input]), "it matters where the stream is cut");
    const delay = retryAfter(input.toString("latin1"), 1_700_000_000_000);
    assert.ok(delay === undefined || delay >= 0);
  },
});

const results = pure({
  name: "sdk-results",
  about: "an answer that has the shape it must have is decoded, or is refused by a typed error",
  seeds: [JSON.stringify(ANSWER), ...fixtures(/^transaction-response/)],
  words: ["rows", "fields", "oid", "name", "20", "114", "__proto__", "1.5", "x"],
  sliceRuns: 2_000,
  run: (input) => {
    const body = jsonOf(input);
    if (!isTransactionResponse(body)) return;
    try {
      for (const result of body.results ?? []) decoderOf()(result);
    } catch (cause) {
      if (!(cause instanceof HighwaterError)) throw cause;
    }
  },
});

/**
 * An answer for each call: the status in the first line, a header in each further line, and the
 * body after an empty line.
 */
const WANTED = ["transaction", "status", "verdicts", "stream"] as const;
const SEPARATOR = "\n====\n";
const answer = (status: number, body: unknown, type = "application/json"): string =>
  `${String(status)}\ncontent-type: ${type}\n\n${typeof body === "string" ? body : JSON.stringify(body)}`;
const answers = (...all: string[]): string => all.join(SEPARATOR);

const client: Target = {
  name: "sdk-client",
  about: "whatever a server answers: every call of the client ends, with a value or with a typed error",
  seeds: [
    answers(
      answer(200, ANSWER),
      answer(200, { id: ID, state: "durable", token: TOKEN, position: ANSWER.position, marks: MARKS }),
      answer(200, VERDICTS),
      answer(200, STREAM, "text/event-stream"),
    ),
    answers(answer(503, PROBLEM), answer(404, "<html>"), answer(429, "", "text/plain"), answer(500, STREAM)),
    answers(
      answer(200, { ...ANSWER, state: "pending", level: "region" }),
      answer(200, { id: ID, state: "lost", marks: null }),
      answer(200, { verdicts: [], marks: null }),
      answer(200, event("epoch", { epochs: [{ ...RECORD, id: ID, previous: EPOCH }] }), "text/event-stream"),
    ),
    answers(
      answer(409, { ...PROBLEM, code: "serialization_failure", retry: "transaction" }),
      answer(200, "nothing"),
      answer(200, {}),
      answer(200, "", "text/event-stream"),
    ),
  ],
  words: [
    SEPARATOR,
    "200",
    "503",
    "retry-after: 1",
    "text/event-stream",
    "lost",
    "durable",
    "pending",
    "resolve_outcome",
    "never",
    "wait",
  ],
  sliceRuns: 50,
  limitMs: 20_000,
  open: () => ({
    run: async (input) => {
      const parts = input.toString("utf8").split(SEPARATOR);
      const fetch = async (url: string): Promise<Response> => {
        const path = new URL(url).pathname;
        const at = path.endsWith("/stream")
          ? 3
          : path.endsWith("/verdicts")
            ? 2
            : path.endsWith("/transactions")
              ? 0
              : 1;
        return responseOf(parts[at] ?? "");
      };
      const hw = new Highwater({
        url: ["http://one", "http://two"],
        fetch,
        requestTimeoutMs: 40,
        totalTimeoutMs: 60,
        tuning: {
          backoffBaseMs: 1,
          backoffMaxMs: 5,
          attemptMinMs: 1,
          streamIdleMs: 1,
          verdictWaitMs: 1,
          recheckMs: 20,
        },
      });
      hw.onLost(() => undefined);
      const ends = await Promise.allSettled([
        run(hw),
        hw.status(ID),
        hw.verdicts([TOKEN]),
        ...["region", "disk"].map((level) => hw.promise(TOKEN).durable({ level, timeoutMs: 20 })),
      ]);
      await hw.close();
      for (const [at, end] of ends.entries())
        if (end.status === "rejected" && !(end.reason instanceof HighwaterError))
          throw new Error(`call ${WANTED[at] ?? "durable"} failed with an error of no type`, {
            cause: end.reason,
          });
    },
  }),
};

async function run(hw: Highwater): Promise<void> {
  const tx = await hw.transaction([sql`SELECT 1`], { id: ID, ack: "durable" });
  void tx.rows;
  await tx.durable({ timeoutMs: 20 });
}

/** A response that no HTTP server could send becomes a transport error, as with fetch. */
function responseOf(text: string): Response {
  const end = text.indexOf("\n\n");
  const [status = "", ...lines] = text.slice(0, Math.max(0, end)).split("\n");
  try {
    const headers = new Headers(
      lines.map((line): [string, string] => [
        line.slice(0, line.indexOf(":")),
        line.slice(line.indexOf(":") + 1),
      ]),
    );
    return new Response(text.slice(end + 2), { status: Number(status), headers });
  } catch (cause) {
    throw new TypeError("fetch failed", { cause });
  }
}

export const targets: readonly Target[] = [sse, results, client];
