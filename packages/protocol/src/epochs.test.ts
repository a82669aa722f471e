// Goal: which epoch ends which.
import assert from "node:assert/strict";
import { test } from "node:test";
import { EpochGraph, type EpochId, type EpochRecord, outranks } from "./index.ts";
import { epochRecord } from "../test/builders.ts";

const record = (id: string, previous: string | null, more: Partial<EpochRecord> = {}): EpochRecord =>
  epochRecord(id, { seq: 1, previous, cause: "promotion", ...more });

const A = record("a", null);
const B = record("b", "a");
const C = record("c", "a");
const id = (text: string): EpochId => text as EpochId;

function graphOf(...records: EpochRecord[]): EpochGraph {
  const graph = new EpochGraph();
  graph.add(records);
  return graph;
}

test("a history outranks what it contains, and not the other way round", () => {
  const graph = graphOf(A, B);
  assert.ok(outranks([A, B], id("a"), graph));
  assert.ok(!outranks([A], id("b"), graph));
});

test("siblings do not outrank each other, whatever their sequence numbers", () => {
  const late = { ...C, seq: 99 };
  const graph = graphOf(A, B, late);
  assert.ok(!outranks([A, B], id("c"), graph));
  assert.ok(!outranks([A, late], id("b"), graph));
});

test("a command after the last common epoch wins over none, and two commands cancel each other", () => {
  const chosen = { ...B, commanded: true };
  assert.ok(outranks([A, chosen], id("c"), graphOf(A, chosen, C)));
  assert.ok(!outranks([A, C], id("b"), graphOf(A, chosen, C)));
  const both = { ...C, commanded: true };
  assert.ok(!outranks([A, chosen], id("c"), graphOf(A, chosen, both)));
  // A command before they parted chose neither.
  const root = { ...A, commanded: true };
  assert.ok(!outranks([root, B], id("c"), graphOf(root, B, C)));
});

test("superseding is a matter of words", () => {
  const over = { ...B, supersedes: ["c"] };
  assert.ok(outranks([A, over], id("c"), graphOf(A, over, C)));
});

test("a known record keeps its highest final marks, and takes everything else as it was seen last", () => {
  const [low, high] = [{ region: "9" }, { region: "10" }];
  const graph = graphOf({ ...B, finalMarks: high });
  graph.add([{ ...B, finalMarks: low, commanded: true }]);
  assert.deepEqual(graph.get(id("b")), { ...B, finalMarks: high, commanded: true });
  graph.add([{ ...B, finalMarks: { region: "11", zone: "1" }, supersedes: ["c"] }]);
  assert.deepEqual(graph.get(id("b")), {
    ...B,
    finalMarks: { region: "11", zone: "1" },
    supersedes: ["c"],
  });
});

test("a loop of records ends", () => {
  const graph = graphOf(record("x", "y"), record("y", "x"));
  assert.ok(graph.ancestry(id("x")).length <= 3);
});
