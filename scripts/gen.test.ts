// Goal: the generated reference says what the code says. `make gen` mends a failure.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { GENERATED, pathOf } from "./reference/pages.ts";

for (const { name, render } of GENERATED)
  test(`docs/reference/${name} is what make gen writes`, async () => {
    const page = readFileSync(pathOf(name), "utf8");
    assert.equal(await render(page), page);
    // A change of the page does not go unnoticed.
    const changed = page.replace(/default/g, "fault").replace(/\| `/, "| ``");
    assert.notEqual(await render(changed), changed);
  });
