// Goal: a scenario with a field that no driver reads is refused, and so is one that expects what did not happen.
import assert from "node:assert/strict";
import { test } from "node:test";
import { readScenarios } from "../src/format.ts";
import { differences } from "../src/match.ts";

const scenario = (steps: string, more = ""): string => `
- name: a name
  why: A sentence that says why.
${more}  steps:
${steps}`;

test("a scenario is read strictly", () => {
  const read = (text: string): unknown => readScenarios(text, "file.yaml", "fake");
  assert.equal((read(scenario("    - close: {}\n")) as unknown[]).length, 1);
  const faults: readonly (readonly [string, RegExp])[] = [
    [scenario("    - close: {}\n", "  client: { retries: 3 }\n"), /retries: is not a known field/],
    [scenario("    - close: { clinet: hw }\n"), /steps\[0\]\.close: \/clinet: is not a known field/],
    [scenario("    - explode: {}\n"), /a step has one verb, not explode/],
    [scenario("    - close: {}\n      expected: {}\n"), /one verb, not close and expected/],
    [scenario("    - { expect: {} }\n"), /one verb, not none/],
    [scenario("    - fault: { hold: {} }\n"), /fault is not for scenarios\/fake/],
    [scenario("    - close: {}\n", "  servers: [{ transactions: explode }]\n"), /servers/],
    [scenario("    - close: {}\n").replace("why: A sentence that says why.", "why: because"), /why/],
    [scenario(""), /steps/],
    ["name: no list", /a list of scenarios/],
  ];
  for (const [text, message] of faults) assert.throws(() => read(text), message);
});

test("what is expected and what is there", () => {
  const same: readonly (readonly [unknown, unknown])[] = [
    [{ a: 1 }, { a: 1, b: 2 }],
    [[{ a: 1 }], [{ a: 1, b: 2 }]],
    ["*", 0],
    ["none", undefined],
    [{ a: "none" }, {}],
    [{ a: "none" }, { a: null }],
    ["/^ab+$/", "abb"],
    [">= 2", 2],
    ["<= 2", 1],
    [null, null],
  ];
  for (const [expected, actual] of same) assert.deepEqual(differences(expected, actual), []);
  const different: readonly (readonly [unknown, unknown])[] = [
    [{ a: 1 }, { a: "1" }],
    [{ a: 1 }, {}],
    [{ a: 1 }, null],
    [[1], [1, 2]],
    [[], null],
    ["*", null],
    ["none", 0],
    ["/^ab+$/", "a"],
    ["/^1$/", 1],
    [">= 2", 1],
    ["<= 2", 3],
    ["2", 2],
    [null, undefined],
  ];
  for (const [expected, actual] of different)
    assert.notDeepEqual(differences(expected, actual), [], JSON.stringify([expected, actual]));
});
