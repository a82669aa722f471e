// The sections of docs/benchmarks.md: what people wrote stays, and missed bars, disturbed rows and the papers' figures show.
import assert from "node:assert/strict";
import { test } from "node:test";
import { barsTable, cellsTable, ratiosTable, replaced } from "./page.ts";

test("a section is replaced, and all around it stays", () => {
  const page = "before\n<!-- latency: measured -->\nold\n<!-- latency: end -->\nafter\n";
  const renewed = "before\n<!-- latency: measured -->\nnew\n<!-- latency: end -->\nafter\n";
  assert.equal(replaced(page, "latency", "new"), renewed);
  assert.throws(() => replaced(page, "tpcc", "new"), /no place for tpcc/);
  const long = "word ".repeat(30).trim();
  const [, , first, second, row] = replaced(page, "latency", `${long}\n| ${long} |`).split("\n");
  assert.deepEqual([`${first ?? ""} ${second ?? ""}`, row], [long, `| ${long} |`]);
});

test("bars say which are missed, and ratios stand beside those of the papers where there are any", () => {
  const bars = [
    { what: "one", measured: 2, met: true },
    { what: "two", measured: 0, met: false },
  ];
  assert.match(barsTable({ bars }), /\| one \| 2 \| met \|\n\| two \| 0 \| \*\*missed\*\* \|$/);
  assert.match(ratiosTable({ ratios: { "safe to fast": 0.951 } }), /\| safe to fast \| 0.951 \|$/);
  assert.match(
    ratiosTable({ ratios: { a: 0.951, b: 1 } }, { a: "0.52" }),
    /\| a \| 0.951 \| 0.52 \|\n\| b \| 1 \| {2}\|$/,
  );
});

test("a row with disturbed turns is marked, and what a result does not know is a dash", () => {
  const none = null as unknown as number;
  const figures = {
    per_second: { median: 430, min: 400, max: 450 },
    p50_ms: { median: none, min: none, max: none },
  };
  const cell = { workload: "hot", row: "safe", rounds: 3, disturbed: 1, refused: 4, figures, cpu_us: {} };
  assert.match(
    cellsTable([cell], ["gateway"]),
    /^\| hot, safe † \| 430 \(400 to 450\) \| – \| – \| – \| {2}\|$/m,
  );
});
