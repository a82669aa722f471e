// Goal: the client finds the events however the network splits the stream. Method: one byte sequence, split
// at every position.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { linesOf } from "../src/lines.ts";
import { EVENT_CHARS_MAX, type SseEvent, sseParser } from "../src/sse.ts";

const line = fc.string({ unit: fc.constantFrom("a", "ä", "𝄞", " ", ":", "{", "0") });
const ending = fc.constantFrom("\n", "\r\n");
const message = fc.record({
  type: line,
  id: line,
  data: fc.array(line, { minLength: 1, maxLength: 3 }),
  ending,
});

function encode(
  messages: readonly { type: string; id: string; data: string[]; ending: string }[],
): Uint8Array<ArrayBuffer> {
  const text = messages.map(({ type, id, data, ending: end }) =>
    [
      `: comment`,
      `event: ${type}`,
      `id: ${id}`,
      ...data.map((each) => `data: ${each}`),
      "retry: 5",
      "",
      "",
    ].join(end),
  );
  return new TextEncoder().encode(`\uFEFF${text.join("")}`);
}

function responseOf(chunks: readonly Uint8Array<ArrayBuffer>[]): Response {
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
  return new Response(body);
}

async function parse(chunks: readonly Uint8Array<ArrayBuffer>[]): Promise<SseEvent[]> {
  const events: SseEvent[] = [];
  const parseLine = sseParser();
  for await (const found of linesOf(responseOf(chunks))) events.push(...[parseLine(found) ?? []].flat());
  return events;
}

test("property: every message is found, at any chunking", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(message, { maxLength: 4 }),
      fc.array(fc.nat(), { maxLength: 12 }),
      async (messages, cuts) => {
        const bytes = encode(messages);
        const places = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
        const chunks = [0, ...places].map((from, i) => bytes.subarray(from, places[i] ?? bytes.length));
        assert.deepEqual(
          await parse(chunks),
          messages.map(({ type, id, data }) => ({
            ...{ type: type === "" ? "message" : type, data: data.join("\n"), lastEventId: id },
          })),
        );
      },
    ),
  );
});

test("the same at every single split point, and byte by byte", async () => {
  const bytes = encode([
    { type: "mark", id: "1.2", data: ["{}", "ä𝄞"], ending: "\r\n" },
    { type: "", id: "", data: [""], ending: "\r\n" },
    { type: "epoch", id: "x", data: ["y"], ending: "\n" },
  ]);
  const whole = await parse([bytes]);
  assert.equal(whole.length, 3);
  for (let at = 0; at <= bytes.length; at++)
    assert.deepEqual(await parse([bytes.subarray(0, at), bytes.subarray(at)]), whole, `cut at ${at}`);
  assert.deepEqual(await parse(Array.from(bytes, (byte) => Uint8Array.of(byte))), whole);
});

test("an endless event is refused, and so is an endless line", async () => {
  const parseLine = sseParser();
  const long = `data: ${"a".repeat(1024 * 1024)}`;
  assert.throws(() => {
    for (let i = 0; i < 20; i++) parseLine(long);
  }, RangeError);
  const chunk = new Uint8Array(1024 * 1024).fill(97);
  const endless = responseOf(Array.from({ length: 20 }, () => chunk));
  await assert.rejects(async () => {
    for await (const found of linesOf(endless, EVENT_CHARS_MAX)) assert.fail(found.slice(0, 10));
  }, RangeError);
});
