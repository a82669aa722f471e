import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Parser } from "pg-protocol/dist/parser.js";
import { MessageLimits, SMALL_BYTES } from "./message-limits.ts";

function message(code: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.write(code, 0, "latin1");
  head.writeUInt32BE(4 + body.length, 1);
  return Buffer.concat([head, body]);
}

function row(...values: string[]): Buffer {
  const count = Buffer.alloc(2);
  count.writeUInt16BE(values.length);
  const cells = values.flatMap((value) => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(Buffer.byteLength(value));
    return [length, Buffer.from(value)];
  });
  return message("D", Buffer.concat([count, ...cells]));
}

const text = (code: string, words: string): Buffer =>
  message(code, Buffer.from(`SERROR\0VERROR\0C22000\0M${words}\0\0`));
const complete = (tag: string): Buffer => message("C", Buffer.from(`${tag}\0`));

interface Parsed {
  readonly name: string;
  readonly fields?: readonly (string | null)[];
  readonly text?: string;
  readonly message?: string;
  readonly code?: string;
}

/** What the parser gets of the bytes in these chunks, and the lengths of the rows that were asked for. */
function parsedFrom(chunks: readonly Buffer[], mayTake = true): { messages: Parsed[]; asked: number[] } {
  const parser = new Parser({ mode: "text" });
  const messages: Parsed[] = [];
  const asked: number[] = [];
  const limits = new MessageLimits({
    parse: (bytes) => {
      parser.parse(bytes, (parsed: unknown) => messages.push(parsed as Parsed));
    },
    mayTakeRow: (length) => {
      asked.push(length);
      return mayTake;
    },
  });
  for (const chunk of chunks) limits.push(chunk);
  return { messages, asked };
}

const LONG = "é".repeat(SMALL_BYTES);
const STREAM = Buffer.concat([
  row("1", "two"),
  row(LONG, "beside"),
  text("N", LONG),
  complete("SELECT 2"),
  row(LONG),
  text("E", LONG),
  message("Z", Buffer.from("I")),
]);

test("wherever the bytes are split, the parser gets the same", () => {
  const whole = parsedFrom([STREAM]);
  assert.deepEqual(
    whole.messages.map(({ name }) => name),
    ["dataRow", "dataRow", "notice", "commandComplete", "dataRow", "error", "readyForQuery"],
  );
  assert.deepEqual(whole.messages[1]?.fields, [LONG, "beside"]);
  fc.assert(
    fc.property(fc.uniqueArray(fc.nat(STREAM.length), { maxLength: 12 }), (cuts) => {
      const at = [0, ...cuts.sort((a, b) => a - b), STREAM.length];
      const chunks = at.slice(1).map((end, index) => Buffer.from(STREAM.subarray(at[index], end)));
      assert.deepEqual(parsedFrom(chunks).messages, whole.messages);
    }),
    { numRuns: 50 },
  );
  const headers = Buffer.concat([complete("A"), complete("B"), row("x")]);
  const bytewise = parsedFrom(Array.from(headers, (byte) => Buffer.from([byte])));
  assert.deepEqual(bytewise.messages, parsedFrom([headers]).messages);
});

test("a large row is asked for after what comes before it, and left out when it may not be taken", () => {
  const { messages, asked } = parsedFrom([STREAM], false);
  assert.deepEqual(asked, [4 + 2 + 4 + 2 * SMALL_BYTES + 4 + 6, 4 + 2 + 4 + 2 * SMALL_BYTES]);
  assert.deepEqual(
    messages.map(({ name }) => name),
    ["dataRow", "notice", "commandComplete", "error", "readyForQuery"],
  );
});

test("long errors and notices are cut, and keep their SQLSTATE", () => {
  const { messages } = parsedFrom([STREAM]);
  for (const said of messages.filter(({ name }) => name === "error" || name === "notice")) {
    assert.equal(said.code, "22000");
    const words = said.message ?? "";
    assert.ok(words.length > SMALL_BYTES / 4 && words.length < SMALL_BYTES, String(words.length));
  }
});

test("other long messages, and bytes that are no messages, end the connection", () => {
  assert.throws(() => parsedFrom([message("G", Buffer.alloc(2_000_000))]), /type "G" and 2000004 bytes/);
  assert.throws(() => parsedFrom([Buffer.from("HTTP/1.1 200 OK\r\n")]), RangeError);
  assert.throws(() => parsedFrom([Buffer.from([0x44, 0, 0, 0, 3])]), /a message of 3 bytes/);
});
