// Goal: docs/reference/errors.md says what the catalogue says.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { ERRORS, HighwaterError } from "./index.ts";

test("the documented errors are the catalogue", () => {
  const page = readFileSync(new URL("../../../docs/reference/errors.md", import.meta.url), "utf8");
  const rows = Object.entries(ERRORS).map(
    ([code, { status, outcome, retry, title }]) =>
      `| \`${code}\` | ${String(status)} | ${outcome} | ${retry} | ${title} |`,
  );
  assert.deepEqual(
    page.split("\n").filter((line) => line.startsWith("| `")),
    rows,
  );
});

test("an error carries its problem, and details override the catalogue's outcome", () => {
  const problem = new HighwaterError("overloaded", { retryAfterMs: 5, outcome: "unknown" }).toProblem();
  assert.equal(problem.status, 503);
  assert.equal(problem.retry, "wait");
  assert.equal(problem.outcome, "unknown");
  assert.equal(problem.type, "urn:highwater:error:overloaded");
});
