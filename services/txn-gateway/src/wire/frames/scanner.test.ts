import assert from "node:assert/strict";
import { test } from "node:test";
import { message } from "./build.ts";
import { FrameError, FrameScanner, type FrameSink } from "./scanner.ts";

/** Frames of type `Q` have to arrive whole. */
const WHOLE = "Q";
/** Too large for the scanner to join. */
const LARGE_BYTES = 20_000;

/** Records each frame's type, its bytes joined again, and in how many parts it arrived. */
function scan(chunks: readonly Buffer[], more: Partial<FrameSink> = {}) {
  const seen: { type: string; bytes: Buffer; parts: number }[] = [];
  const scanner = new FrameScanner(
    {
      frame: (type, bytes, start, end) => {
        seen.push({
          type: String.fromCharCode(type),
          bytes: Buffer.from(bytes.subarray(start, end)),
          parts: 0,
        });
      },
      part: (type, bytes, { start, end, isFirst, isLast }) => {
        const part = Buffer.from(bytes.subarray(start, end));
        const last = seen.at(-1);
        if (isFirst) seen.push({ type: String.fromCharCode(type), bytes: part, parts: 1 });
        else if (last !== undefined) {
          assert.equal(last.type, String.fromCharCode(type));
          last.bytes = Buffer.concat([last.bytes, part]);
          last.parts++;
        }
        assert.equal(scanner.isBetweenFrames, isLast);
      },
      ...more,
    },
    WHOLE,
  );
  for (const chunk of chunks) scanner.push(Buffer.from(chunk));
  return { seen, scanner };
}

const joined = (seen: readonly { bytes: Buffer }[]): Buffer => Buffer.concat(seen.map(({ bytes }) => bytes));

const FRAMES = [message("Q", "SELECT 1\0"), message("S"), message("d", "abcdefgh"), message("Q", "\0")];
const STREAM = Buffer.concat(FRAMES);

test("wherever two reads split a stream, its frames are the same", () => {
  for (let at = 0; at <= STREAM.length; at++) {
    const { seen, scanner } = scan([STREAM.subarray(0, at), STREAM.subarray(at)]);
    assert.deepEqual(joined(seen), STREAM, `split at ${String(at)}`);
    assert.deepEqual(
      seen.map(({ type }) => type),
      ["Q", "S", "d", "Q"],
    );
    for (const { type, parts } of seen) if (type === "Q") assert.equal(parts, 0, `split at ${String(at)}`);
    assert.ok(scanner.isBetweenFrames);
  }
});

test("a stream that comes byte by byte has the same frames", () => {
  const { seen } = scan([...STREAM].map((byte) => Buffer.from([byte])));
  assert.deepEqual(
    seen.map(({ bytes }) => bytes),
    FRAMES,
  );
});

test("a frame that is too large to be joined comes in parts, whatever its type", () => {
  const large = message("Q", Buffer.alloc(LARGE_BYTES, 7));
  const stream = Buffer.concat([large, message("S")]);
  const { seen } = scan([
    stream.subarray(0, 10_000),
    stream.subarray(10_000, 15_000),
    stream.subarray(15_000),
  ]);
  assert.deepEqual(
    seen.map(({ type, parts }) => [type, parts]),
    [
      ["Q", 3],
      ["S", 0],
    ],
  );
  assert.deepEqual(joined(seen), stream);
});

test("the sink may want any frame whole", () => {
  const [, , data] = FRAMES;
  assert.ok(data !== undefined);
  const halves = [data.subarray(0, 7), data.subarray(7)];
  assert.equal(scan(halves).seen[0]?.parts, 2);
  assert.equal(scan(halves, { wantsWhole: () => true }).seen[0]?.parts, 0);
});

test("a length that no message has ends the stream, and names the bytes behind the last whole frame", () => {
  for (const length of [3, -1, 0x7fffffff]) {
    const wrong = Buffer.from([81, 0, 0, 0, 0, 1, 2]);
    wrong.writeInt32BE(length, 1);
    assert.throws(
      () => scan([Buffer.concat([message("S"), wrong])]),
      (error) => error instanceof FrameError && error.rest.equals(wrong),
    );
  }
});
