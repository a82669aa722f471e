// Goal: both languages are tested against the same data. Method: the files are what this SDK makes of it, and every other
// SDK reads them; the judgements and the boundaries were written by hand, and are tested here as well.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { boundaryOf } from "@highwater/sdk/internals";
import { VECTORS } from "./build.ts";
import { judge, type Judgement } from "./judge.ts";

const read = (name: string): unknown => JSON.parse(readFileSync(new URL(name, import.meta.url), "utf8"));

for (const [name, build] of Object.entries(VECTORS))
  test(`${name} is what the protocol says (node sdk/conformance/vectors/write.ts)`, () => {
    assert.deepEqual(read(name), JSON.parse(JSON.stringify(build())));
  });

for (const judgement of read("judgements.json") as Judgement[])
  test(`judgement: ${judgement.name}`, () => {
    judge(judgement);
  });

for (const { text, boundary } of read("boundaries.json") as { text: string; boundary: string | null }[])
  test(`what ${JSON.stringify(text)} does to a transaction`, () => {
    assert.equal(boundaryOf(text) ?? null, boundary);
  });
