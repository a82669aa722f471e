// Goal: the console explains every rule by which a tracker judges.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { explainRule, hasExplanation } from "./rules.ts";

const SPEC = readFileSync(new URL("../../../durability-tracker/SPEC.md", import.meta.url), "utf8");

test("every rule of the tracker's specification has an explanation", () => {
  const rules = Array.from(SPEC.matchAll(/^\| (R\d+ [a-z ]+?) +\|/gm), ([, rule = ""]) => rule);
  assert.ok(rules.length >= 12, String(rules.length));
  for (const rule of rules) assert.ok(hasExplanation(rule), rule);
});

test("an unknown rule is named", () => {
  assert.equal(explainRule("R99 new"), "Rule R99 new");
});
