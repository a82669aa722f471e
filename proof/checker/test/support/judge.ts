// Assertions about a report.
import assert from "node:assert/strict";
import { check } from "../../src/check.ts";
import { type HistoryRecord } from "../../src/history.ts";
import { type Violation } from "../../src/findings.ts";
import { type Rule } from "../../src/rules/names.ts";

/** The history violates no rule. */
export function assertGood(records: readonly HistoryRecord[]): void {
  assert.deepEqual(check(records).violations, []);
}

/** The history violates exactly these rules. Returns the first violation of the first rule. */
export function assertViolates(records: readonly HistoryRecord[], ...rules: readonly Rule[]): Violation {
  const report = check(records);
  const details = JSON.stringify(report.violations, null, 1);
  assert.deepEqual(Object.keys(report.violationsByRule).sort(), [...rules].sort(), details);
  const violation = report.violations.find(({ rule }) => rule === rules[0]);
  assert.ok(violation !== undefined);
  return violation;
}
