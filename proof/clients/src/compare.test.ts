import assert from "node:assert/strict";
import { test } from "node:test";
import { compare, readTranscript } from "./compare.ts";

const direct = new Map<string, unknown>([
  ["insert", { count: 1 }],
  ["select", ["a"]],
]);

test("equal transcripts have no difference", () => {
  const found = compare("one", { direct, wire: new Map(direct) }, []);
  assert.deepEqual(found, { cases: 2, differences: [], explained: [] });
});

test("another result, a missing case and a case too many are differences", () => {
  const wire = new Map<string, unknown>([
    ["insert", { count: 2 }],
    ["more", 1],
  ]);
  const { differences } = compare("one", { direct, wire }, []);
  assert.equal(differences.length, 3);
  assert.match(differences[0] ?? "", /insert\n {2}direct: \{"count":1\}\n {2}wire: {3}\{"count":2\}/);
});

test("a difference with a reason is none, and a reason without a difference is one", () => {
  const wire = new Map(direct).set("insert", { count: 2 });
  const reason = { suite: "one", case: "insert", reason: "it counts twice" };
  const other = { suite: "two", case: "insert", reason: "of another suite" };
  assert.deepEqual(compare("one", { direct, wire }, [reason, other]).differences, []);
  assert.deepEqual(compare("one", { direct, wire: direct }, [reason]).differences, [
    "one, insert: there is a reason and no difference",
  ]);
});

test("a transcript is the lines of JSON among what a program prints", () => {
  const text = 'noise\n{"case":"a","result":[1]}\n{"other":1}\n{"case":"b","result":null}\n';
  assert.deepEqual(
    [...readTranscript(text)],
    [
      ["a", [1]],
      ["b", null],
    ],
  );
});
