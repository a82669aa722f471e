// Goal: the page about versions of PostgreSQL claims only what has run. Method: made-up records.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Done } from "./run.ts";
import { versionsPage } from "./versions-page.ts";

const PAGE =
  "# Versions\n\nBefore.\n\n| | 15 | 16 | 17 | 18 |\n| --- | --- | --- | --- | --- |\n| old | 1 |\n\nAfter.\n";

function done(over: Partial<Done> = {}): Done {
  const figures = { postgres: "16.14", from: "PyPI", conformance: "300 passed", chaos: "seed 6 | clean" };
  return {
    ...{ result: "passed", reason: null, attempt: 1, seconds: 900, log: "a.log", machine: "2 cores" },
    ...{ commit: "0123456789abcdef", startedAt: "2026-11-28T09:00:00.000Z" },
    figures: Object.entries(figures).map(([name, value]) => ({ name, value })),
    ...over,
  };
}

const rowOf = (page: string, title: string): string =>
  page.split("\n").find((line) => line.startsWith(`| ${title} |`)) ?? "";

test("a version whose stage has not run is shown as not run, and what is written by hand stays", () => {
  const page = versionsPage(PAGE, {});
  assert.ok(page.startsWith("# Versions\n\nBefore.\n") && page.endsWith("|\n\nAfter.\n"), page);
  for (const title of ["result", "server", "conformance suite", "failover rounds", "slice of chaos"])
    assert.equal(rowOf(page, title), `| ${title} | not run | not run | not run | not run |`);
  assert.doesNotMatch(page, /old/);
});

test("a result names its commit and day, and a part that was not reached is not run", () => {
  const page = versionsPage(PAGE, { "versions-16": done(), "chaos-6": done() });
  assert.equal(rowOf(page, "result"), "| result | not run | passed | not run | not run |");
  assert.equal(rowOf(page, "commit"), "| commit |  | `0123456789ab` |  |  |");
  assert.equal(rowOf(page, "date"), "| date |  | 2026-11-28 |  |  |");
  assert.equal(rowOf(page, "server"), "| server | not run | 16.14 | not run | not run |");
  assert.equal(rowOf(page, "PostgreSQL wire"), "| PostgreSQL wire | not run | not run | not run | not run |");
  assert.equal(rowOf(page, "skipped tests"), "| skipped tests | not run | none | not run | not run |");
  assert.match(rowOf(page, "slice of chaos"), /seed 6 \\\| clean/);
});

test("a failure is a failure", () => {
  const page = versionsPage(PAGE, { "versions-17": done({ result: "failed", reason: "exit code 1" }) });
  assert.equal(rowOf(page, "result"), "| result | not run | not run | **FAILED**: exit code 1 | not run |");
});
