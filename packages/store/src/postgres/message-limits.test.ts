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

interface Heard {
  readonly name: string;
  readonly fields?: readonly (string | null)[];
  readonly text?: string;
  readonly message?: string;
  readonly code?: string;
}

/** What the parser hears of the bytes in these chunks, and the lengths of the rows that were asked for. */
function hear(chunks: readonly Buffer[], mayTake = true): { heard: Heard[]; asked: number[] } {
  const parser = new Parser({ mode: "text" });
  const heard: Heard[] = [];
  const asked: number[] = [];
  const limits = new MessageLimits({
    parse: (bytes) => {
      parser.parse(bytes, (parsed: unknown) => heard.push(parsed as Heard));
    },
    mayTakeRow: (length) => {
      asked.push(length);
      return mayTake;
    },
  });
  for (const chunk of chunks) limits.push(chunk);
  return { heard, asked };
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

test("wherever the bytes are split, the parser hears the same", () => {
  const whole = hear([STREAM]);
  assert.deepEqual(
    whole.heard.map(({ name }) => name),
    ["dataRow", "dataRow", "notice", "commandComplete", "dataRow", "error", "readyForQuery"],
  );
  assert.deepEqual(whole.heard[1]?.fields, [LONG, "beside"]);
  fc.assert(
    fc.property(fc.uniqueArray(fc.nat(STREAM.length), { maxLength: 12 }), (cuts) => {
      const at = [0, ...cuts.sort((a, b) => a - b), STREAM.length];
      const chunks = at.slice(1).map((end, index) => Buffer.from(STREAM.subarray(at[index], end)));
      assert.deepEqual(hear(chunks).heard, whole.heard);
    }),
    { numRuns: 50 },
  );
  const headers = Buffer.concat([complete("A"), complete("B"), row("x")]);
  const bytewise = hear(Array.from(headers, (byte) => Buffer.from([byte])));
  assert.deepEqual(bytewise.heard, hear([headers]).heard);
});

test("a large row is asked for after what comes before it, and left out when it may not be taken", () => {
  const { heard, asked } = hear([STREAM], false);
  assert.deepEqual(asked, [4 + 2 + 4 + 2 * SMALL_BYTES + 4 + 6, 4 + 2 + 4 + 2 * SMALL_BYTES]);
  assert.deepEqual(
    heard.map(({ name }) => name),
    ["dataRow", "notice", "commandComplete", "error", "readyForQuery"],
  );
});

test("long errors and notices are cut, and keep their SQLSTATE", () => {
  const { heard } = hear([STREAM]);
  for (const said of heard.filter(({ name }) => name === "error" || name === "notice")) {
    assert.equal(said.code, "22000");
    const words = said.message ?? "";
    assert.ok(words.length > SMALL_BYTES / 4 && words.length < SMALL_BYTES, String(words.length));
  }
});

test("other long messages, and bytes that are no messages, end the connection", () => {
  assert.throws(() => hear([message("G", Buffer.alloc(2_000_000))]), /type "G" and 2000004 bytes/);
  assert.throws(() => hear([Buffer.from("HTTP/1.1 200 OK\r\n")]), RangeError);
  assert.throws(() => hear([Buffer.from([0x44, 0, 0, 0, 3])]), /a message of 3 bytes/);
});
