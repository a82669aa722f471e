// Goal: candidates are ranked by what they have, the commands name them, and the fields are those of the tracker's answer.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  candidateCommand,
  candidatesOf,
  type Preview,
  type PreviewCandidate,
  promotionSteps,
  rank,
  unjudged,
} from "./candidates.ts";

const candidate = (node: string, offset: string): PreviewCandidate => ({
  ...{ node, offset, bytes: "0", promises: [], transactions: 0, complete: true, ids: [] },
});

test("the most advanced is first, by number and not by text", () => {
  const ranked = rank([candidate("b", "9"), candidate("c", "10"), candidate("a", "9")]);
  assert.deepEqual(
    ranked.map(({ node }) => node),
    ["c", "a", "b"],
  );
});

test("every replica with a counted position is a candidate, and the others are named", () => {
  const nodes = [
    { node: "east", position: "20" },
    { node: "west", position: "10" },
  ];
  assert.deepEqual(candidatesOf({ nodes }, "east"), [{ node: "west", offset: "10" }]);
  const row = { region: "r", zone: "z", isAlive: true, position: null, lagBytes: null, lagMs: null };
  const rows = ["east", "west", "south"].map((node) => ({ ...row, node, isPrimary: node === "east" }));
  assert.deepEqual(
    unjudged(rows, [candidate("west", "10")]).map(({ node }) => node),
    ["south"],
  );
});

test("the commands name the tracker and the node; under a lease no one promotes by hand", () => {
  assert.match(candidateCommand("http://127.0.0.1:4601"), /--tracker http:\/\/127\.0\.0\.1:4601 /);
  const steps = promotionSteps("us-west", { primary: "us-east", authority: "ancestry" });
  assert.deepEqual(
    steps.map(({ command }) => command?.includes("us-west") ?? null),
    [null, false, true],
  );
  const [only, ...others] = promotionSteps("us-west", { primary: "us-east", authority: "lease" });
  assert.deepEqual([only?.command, others.length], [null, 0]);
});

test("the answer's fields are those of the tracker's document", () => {
  const document = JSON.parse(
    readFileSync(new URL("../../../../docs/reference/tracker-openapi.json", import.meta.url), "utf8"),
  ) as { components: { schemas: Record<string, { properties: Record<string, unknown> }> } };
  const fieldsOf = (schema: string) =>
    Object.keys(document.components.schemas[schema]?.properties ?? {}).sort();
  const preview: Preview = {
    ...{ epoch: "", follows: true, end: null, marks: {}, nodes: [], undecided: 0, candidates: [] },
  };
  assert.deepEqual(fieldsOf("FailoverPreview"), Object.keys(preview).sort());
  assert.deepEqual(fieldsOf("CandidatePreview"), Object.keys(candidate("a", "1")).sort());
});
