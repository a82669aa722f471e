import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { readSse, type SseEvent } from "./sse.ts";

async function* cut(bytes: Uint8Array, at: readonly number[]): AsyncGenerator<Uint8Array> {
  let from = 0;
  for (const to of [...at, bytes.length]
    .map((index) => Math.min(index, bytes.length))
    .sort((a, b) => a - b)) {
    yield bytes.subarray(from, to);
    from = to;
  }
}

async function read(text: string, at: readonly number[] = []): Promise<SseEvent[]> {
  const events: SseEvent[] = [];
  for await (const event of readSse(cut(new TextEncoder().encode(text), at))) events.push(event);
  return events;
}

const STREAM =
  ': heartbeat\n\nid: 1-1\nevent: epoch\ndata: {"epochs":"größer €"}\n\n: \r\n\r\nevent: mark\r\ndata: {"a":\r\ndata: 1}\r\nid: 1-2\r\n\r\nretry: 100\n\ndata: 😀\n\ndata: never finished';

test("events, comments, ids and line ends of every kind", async () => {
  assert.deepEqual(await read(STREAM), [
    { event: "epoch", data: '{"epochs":"größer €"}', id: "1-1" },
    { event: "mark", data: '{"a":\n1}', id: "1-2" },
    { event: "message", data: "😀", id: "1-2" },
  ]);
});

test("any chunking gives the same events", async () => {
  const whole = await read(STREAM);
  const size = new TextEncoder().encode(STREAM).length;
  for (let at = 0; at <= size; at++)
    assert.deepEqual(await read(STREAM, [at]), whole, `cut at ${String(at)}`);
  assert.deepEqual(
    await read(
      STREAM,
      Array.from({ length: size }, (_, index) => index),
    ),
    whole,
  );
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(size), { maxLength: 20 }), async (at) => {
      assert.deepEqual(await read(STREAM, at), whole);
    }),
    { numRuns: 200 },
  );
});

test("an event without end is refused at the bound, not kept", async () => {
  const chunk = new TextEncoder().encode("data: ".padEnd(1_048_576, "x"));
  const endless = async function* () {
    for (let count = 0; count < 64; count++) yield chunk;
  };
  await assert.rejects(async () => {
    for await (const event of readSse(endless())) assert.fail(event.event);
  });
});
