// Goal: the deliberate bugs still fit the product's source. Otherwise only the next run of hours
// would notice.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { stripTypeScriptTypes } from "node:module";
import { join } from "node:path";
import { describe, it } from "node:test";
import { MUTANTS } from "../src/mutants/list.ts";
import { LANES } from "../src/nemesis/nemesis.ts";

const ROOT = join(import.meta.dirname, "../../..");
const kinds = new Set(LANES.flatMap(({ scenarios }) => scenarios.map(({ kind }) => kind)));

describe("the mutants", () => {
  for (const { name, patch, faults } of MUTANTS)
    it(`${name}: its text occurs once, and its faults exist`, async () => {
      const parts = (await readFile(join(ROOT, patch.file), "utf8")).split(patch.find);
      assert.equal(parts.length, 2, `the text occurs ${String(parts.length - 1)} times in ${patch.file}`);
      stripTypeScriptTypes(parts.join(patch.replace));
      assert.deepEqual(
        faults.filter((kind) => !kinds.has(kind)),
        [],
      );
    });

  it("have different names", () => {
    assert.equal(new Set(MUTANTS.map(({ name }) => name)).size, MUTANTS.length);
  });
});
