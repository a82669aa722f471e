// The operators' page says what the command does: its options, exit codes and fields, and variables that there are.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { REFUSALS } from "../../failover/candidate.ts";
import { STANDINGS } from "../../failover/history.ts";
import { CandidateReport, EXIT_CODES } from "../../failover/report.ts";
import { USAGE } from "./parse.ts";

const read = (path: string): string =>
  readFileSync(new URL(`../../../../../docs/${path}`, import.meta.url), "utf8");
const page = read("guide/failover-candidate.md");
const guide = read("guide/durability-levels.md");

const matches = (text: string, pattern: RegExp): Set<string> => new Set(text.match(pattern));

test("the options of the page are those of the command", () => {
  const documented = matches(page, /--[a-z]+(-[a-z]+)*/g);
  documented.delete("--help");
  assert.deepEqual([...documented].sort(), [...matches(USAGE, /--[a-z]+(-[a-z]+)*/g)].sort());
});

test("every exit code is documented beside its refusal, and every standing is named", () => {
  for (const refusal of REFUSALS)
    assert.match(page, new RegExp(`\\| ${String(EXIT_CODES[refusal])} \\| \`${refusal}\` \\|`));
  for (const standing of STANDINGS) assert.ok(page.includes(`\`${standing}\``), standing);
});

test("every field of the answer is documented", () => {
  const { nodes, levels, trackers, ...top } = CandidateReport.properties;
  const inner = [nodes, levels, trackers].flatMap(({ items }) => Object.keys(items.properties));
  for (const field of [...Object.keys(top), ...inner])
    assert.match(page, new RegExp(`\`(nodes\\[\\]\\.)?${field}(\\[\\])?\``), field);
});

test("the variables that the guide names exist", () => {
  const known = ["gateway-config", "tracker-config"].map((name) => read(`reference/${name}.md`)).join("\n");
  const named = matches(guide, /\b(?:HIGHWATER|TRACKER|GATEWAY)_[A-Z_]*[A-Z]\b/g);
  // The command's own; and a family, where the text says so.
  for (const own of ["HIGHWATER_TRACKERS", "GATEWAY_EXPOSURE"]) named.delete(own);
  for (const variable of named) assert.ok(known.includes(`\`${variable}\``), variable);
});
