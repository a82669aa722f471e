// Goal: the client finds the events however the network splits the stream. Method: one byte sequence, split
// at every position.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type SseEvent, SseParser } from "../src/sse.ts";

const line = fc.string({ unit: fc.constantFrom("a", "ä", "𝄞", " ", ":", "{", "0") });
const ending = fc.constantFrom("\n", "\r\n", "\r");
const message = fc.record({
  type: line,
  id: line,
  data: fc.array(line, { minLength: 1, maxLength: 3 }),
  ending,
});

function encode(
  messages: readonly { type: string; id: string; data: string[]; ending: string }[],
): Uint8Array {
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

function parse(chunks: readonly Uint8Array[]): SseEvent[] {
  const parser = new SseParser();
  return chunks.flatMap((chunk) => parser.push(chunk));
}

test("property: every message is found, at any chunking", () => {
  fc.assert(
    fc.property(
      fc.array(message, { maxLength: 4 }),
      fc.array(fc.nat(), { maxLength: 12 }),
      (messages, cuts) => {
        const bytes = encode(messages);
        const places = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
        const chunks = [0, ...places].map((from, i) => bytes.subarray(from, places[i] ?? bytes.length));
        assert.deepEqual(
          parse(chunks),
          messages.map(({ type, id, data }) => ({
            ...{ type: type === "" ? "message" : type, data: data.join("\n"), lastEventId: id },
          })),
        );
      },
    ),
  );
});

test("the same at every single split point, and byte by byte", () => {
  const bytes = encode([
    { type: "mark", id: "1.2", data: ["{}", "ä𝄞"], ending: "\r\n" },
    { type: "", id: "", data: [""], ending: "\r" },
    { type: "epoch", id: "x", data: ["y"], ending: "\n" },
  ]);
  const whole = parse([bytes]);
  assert.equal(whole.length, 3);
  for (let at = 0; at <= bytes.length; at++)
    assert.deepEqual(parse([bytes.subarray(0, at), bytes.subarray(at)]), whole, `cut at ${String(at)}`);
  assert.deepEqual(parse(Array.from(bytes, (byte) => Uint8Array.of(byte))), whole);
});

test("an endless event is refused", () => {
  const parser = new SseParser();
  const chunk = new Uint8Array(1024 * 1024).fill(97);
  assert.throws(() => {
    for (let i = 0; i < 20; i++) parser.push(chunk);
  }, RangeError);
});
