// Goal: a report about a version of PostgreSQL says what ran there, and nothing that did not.
// Method: made-up output of each part, and the files and stages that the parts name.
import assert from "node:assert/strict";
import { globSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { machineReadable } from "@highwater/chaos/report";
import { MAJORS, VERSION_FIGURES } from "../../scripts/verify/stages.ts";
import { installationOf, SOURCES } from "./installations.ts";
import { chaosResult, chosenParts, PARTS, roundsResult, testResult } from "./parts.ts";

const ROOT = join(import.meta.dirname, "../..");
const COUNTS = "ℹ tests 4\nℹ suites 0\nℹ pass 3\nℹ fail 0\nℹ cancelled 0\nℹ skipped 1\n";

test("tests: the counts, and each skipped test with its reason", () => {
  const output = `✔ a (1.2ms)\n  ﹣ of a restore (0.1ms) # there is no pg_dump\n${COUNTS}`;
  assert.deepEqual(testResult(0, output), {
    isGood: true,
    says: "3 passed, 1 skipped",
    skipped: ["of a restore: there is no pg_dump"],
  });
});

for (const [what, code, output] of [
  ["a test that fails", 1, COUNTS.replace("fail 0", "fail 1")],
  ["a test that was cancelled", 1, COUNTS.replace("cancelled 0", "cancelled 2")],
  ["an error behind good tests", 1, COUNTS],
  ["no test that passes", 0, COUNTS.replace("pass 3", "pass 0")],
  ["no counts at all", 0, "no test files were named"],
] as const)
  test(`tests: ${what} is a failure`, () => {
    const { isGood, says } = testResult(code, output);
    assert.equal(isGood, false);
    assert.match(says, /^FAILED: /);
  });

const SUMMARY = {
  ...{ postgres: "16.14", rounds: 6, committed: 900, durable: 800, lost: 100, pending: 0, wrong: 0 },
  failovers: 8,
};
const rounds = (verdict: string, more: object = {}): string =>
  `No complaints.\n${JSON.stringify({ ...SUMMARY, ...more })}\n${verdict} wrong verdicts, or none: 0\nMISSED ms from a promotion to the last verdict, at most 2000: 3040\n`;

test("failover rounds: a late verdict is no failure, a wrong one is", () => {
  const { isGood, says } = roundsResult(1, rounds("met   "));
  assert.ok(isGood);
  assert.equal(says, "6 rounds, 8 failovers, 900 committed, 100 lost, 0 wrong, 0 pending");
  assert.match(roundsResult(1, rounds("MISSED", { wrong: 1 })).says, /^FAILED: 6 rounds, .* 1 wrong/);
  assert.equal(roundsResult(1, "Error: no server").says, "FAILED: exit code 1");
});

test("chaos: faults and violations, from the program's last line", () => {
  const result: Parameters<typeof machineReadable>[1] = {
    ...{ postgres: "16.14", faults: { "kill gateway": 3, "cut link": 2 }, failedFaults: [] },
    ...{ judgement: null, error: null, kept: null },
  };
  const line = machineReadable(6, result);
  const clean = line.replace('"violations":null', '"violations":0').replace('"pending":null', '"pending":0');
  assert.deepEqual(chaosResult(0, `\nseed 6: 5 faults\n${clean}\n`), {
    isGood: true,
    says: "seed 6, 5 faults of 2 kinds, null committed, null lost, 0 violations, 0 pending",
    skipped: [],
  });
  for (const [code, output] of [
    [1, clean],
    [0, line],
    [0, "no line of JSON"],
  ] as const)
    assert.match(chaosResult(code, output).says, /^FAILED: exit code/);
});

test("every part runs files that there are", () => {
  for (const { name, command } of PARTS)
    for (const argument of command.filter((each) => each.endsWith(".ts")))
      assert.ok(globSync(argument, { cwd: ROOT }).length > 0, `${name}: ${argument}`);
});

test("make verify has a stage for each version, and its page a row for each part", () => {
  assert.deepEqual(Object.keys(SOURCES), [...MAJORS]);
  assert.deepEqual(VERSION_FIGURES.split(" "), [
    "postgres",
    "from",
    ...PARTS.map(({ name }) => name),
    "skipped",
  ]);
});

test("an unknown version, one that is not installed, and an unknown part are refused", () => {
  assert.throws(() => installationOf("14"), /PG=14: choose one of 15, 16, 17, 18/);
  const nowhere = { "16": { from: "a registry", binDirs: ["/nowhere/bin"] } };
  assert.throws(() => installationOf("16", nowhere), /no PostgreSQL 16 in \/nowhere\/bin \(a registry\)/);
  assert.deepEqual(
    chosenParts("chaos,wire").map(({ name }) => name),
    ["wire", "chaos"],
  );
  assert.throws(
    () => chosenParts("chaos,soak"),
    /there is no part soak: ONLY takes one or more of conformance,/,
  );
});
