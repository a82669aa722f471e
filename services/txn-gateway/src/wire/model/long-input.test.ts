// A quadratic search took seconds or longer on each of these inputs. The test fails by not ending.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ExpectedAnswers } from "./expected.ts";
import { readSettings } from "./own.ts";
import { statementInfo } from "./statement.ts";
import { readTag } from "./tags.ts";

const LENGTH = 1_000_000;

function long(start: string, repeated: string, end = ""): string {
  return start + repeated.repeat(LENGTH / repeated.length) + end;
}

function infoOf(text: string): ReturnType<typeof statementInfo> {
  const bytes = Buffer.from(text);
  return statementInfo(bytes, 0, bytes.length);
}

for (const [start, repeated, end] of [
  ["SELECT '", "for ", "'"],
  ["SELECT '", "for;", "'"],
  ["SELECT ", "';'", ""],
  ["DECLARE c ", "cursor ", ""],
  ["DECLARE c cursor ", "with ", ""],
  ["PREPARE p ", " ", "x"],
  ["PREPARE p (", " ", "x"],
  ["EXECUTE p", " ", "x"],
  ["FETCH ", "a ", "+"],
  ["FETCH a", " ", "+"],
  ["FETCH a", "; ", "+"],
  ["SELECT highwater", " ", "x"],
  ["SELECT ", "highwater", "x"],
  ["", "/*", ""],
  ["", "--\n", ""],
  ["", ";", ""],
] as const)
  test(`${start}${repeated}… of 1 MB is read`, () => {
    const info = infoOf(long(start, repeated, end));
    assert.equal(info.isPlain, start.startsWith("SELECT"));
  });

test("a text is one statement when its semicolons and dollars stand in quotes that end for certain", () => {
  for (const text of [
    "SELECT 'a;b'",
    "SELECT 'it''s; $1', \"a;b\" ;",
    "SELECT '\"; ', \"';\"",
    "SELECT 1 -- '\n;",
  ])
    assert.equal(infoOf(text).isPlain, true, text);
  const others = [
    "SELECT 'a'; SELECT 'b'",
    "SELECT $1",
    "SELECT $$;$$",
    "SELECT '; 1",
    "SELECT ';' -- '\n; SELECT '",
  ];
  for (const text of [...others, "SELECT /* ' */ 1; SELECT '", "SELECT E'\\'; SELECT 1 --'"])
    assert.equal(infoOf(text).isPlain, false, text);
});

test("rows may be locked where FOR is followed by UPDATE or SHARE in its statement", () => {
  const locking = ["SELECT 1 FOR UPDATE", "SELECT 1 FOR NO KEY\nUPDATE", "SELECT 1 for/**/Key share;"];
  for (const text of locking) assert.equal(infoOf(text).isLocking, true, text);
  const others = ["SELECT 1", "SELECT 'update' FOR", "SELECT 'for'; SELECT 'update'", "SELECT forupdate"];
  for (const text of others) assert.equal(infoOf(text).isLocking, false, text);
});

test("statements are dropped by any statement of a text", () => {
  for (const text of [
    "DEALLOCATE ALL",
    "SELECT 1; deallocate all",
    "DO $$BEGIN EXECUTE 'DEALLOCATE ALL'; END$$",
  ])
    assert.equal(infoOf(text).dropsStatements, true, text);
  assert.equal(infoOf("SELECT 'deallocate'").dropsStatements, false);
});

test("a max_wait of 1 MB is a fault", () => {
  for (const text of [long("1", " ", "x"), long("1", " ")]) {
    const { settings, faults } = readSettings([null, null, text, null, null], ["disk"]);
    assert.deepEqual([settings.maxWaitMs, faults.length], [0, 1]);
  }
  assert.equal(readSettings([null, null, " 5 min ", null, null], ["disk"]).settings.maxWaitMs, 300_000);
});

test("a tag of 1 MB is read", () => {
  assert.equal(readTag(long("INSERT", " 0", "x")).effect, "alone");
});

test("each COPY of a long pipeline takes what stands before the end of its data", () => {
  const expected = new ExpectedAnswers();
  const pairs = 200_000;
  for (let pair = 0; pair < pairs; pair++) {
    expected.push({ message: "query", whose: "client", kind: "copy" });
    expected.push({ message: "sync", whose: "client" });
    expected.push({ message: "copyEnd", whose: "client" });
  }
  let copied = 0;
  for (; !expected.isEmpty; copied++) {
    assert.equal(expected.head?.message, "query");
    expected.beginCopy();
    assert.equal(expected.isCopying, false);
    expected.pop();
  }
  assert.equal(copied, pairs);
});

test("each COPY of a long pipeline that fails in front of a Sync looks at its own data", () => {
  const expected = new ExpectedAnswers();
  const copies = 200_000;
  for (let copy = 0; copy < copies; copy++) {
    expected.push({ message: "query", whose: "client", kind: "copy" });
    expected.push({ message: "copyData", whose: "client" });
    expected.push({ message: "sync", whose: "client" });
  }
  let failed = 0;
  for (; !expected.isEmpty; failed++) {
    assert.equal(expected.head?.message, "query");
    expected.beginCopy();
    expected.failCopy();
    expected.pop();
    assert.equal(expected.head?.message, "sync");
    expected.pop();
  }
  assert.equal(failed, copies);
});
