// Goal: the generated reference says what the code says. `make gen` mends a failure.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { ERRORS } from "@highwater/protocol";
import { VARIABLES as TRACKER_VARIABLES } from "@highwater/durability-tracker/config";
import { RANGES, VARIABLES } from "@highwater/txn-gateway/config";
import { OPERATIONS } from "@highwater/txn-gateway/openapi";
import { GENERATED, pathOf } from "./pages.ts";

for (const { name, render } of GENERATED)
  test(`${join("docs/reference", name)} is what make gen writes`, async () => {
    const page = readFileSync(pathOf(name), "utf8");
    assert.equal(await render(page), page);
    // A change of the page does not go unnoticed.
    const changed = page
      .replace(/default/g, "fault")
      .replace(/\| (?=\[?`)/, "| `")
      .replace("# Generated", "# Made");
    assert.notEqual(await render(changed), changed);
  });

const UNITS: Readonly<Record<string, number>> = {
  ...{ "": 1, s: 1_000, min: 60_000, h: 3_600_000 },
  ...{ KiB: 1_024, MiB: 1_048_576 },
};

test("docs/reference/errors.md names settings that there are", () => {
  const settings = new Set([...VARIABLES, ...TRACKER_VARIABLES]);
  const named = [
    ...readFileSync(pathOf("errors.md"), "utf8").matchAll(/(?:GATEWAY|TRACKER|HIGHWATER)_[A-Z_]+/g),
  ];
  assert.ok(named.length >= 40, `only ${String(named.length)} were found`);
  for (const [setting] of named) assert.ok(settings.has(setting), setting);
});

test("docs/reference/http.md names variables, defaults, calls and errors that there are", () => {
  const page = readFileSync(pathOf("http.md"), "utf8");
  for (const [, variable = ""] of page.matchAll(/`((?:GATEWAY|HIGHWATER)_[A-Z_]+)`/g))
    assert.ok(VARIABLES.includes(variable), variable);
  const defaults = [...page.matchAll(/`([A-Z]+_[A-Z_]+)`, ([0-9,]+)(?: (KiB|MiB|s|min|h))?(?= |;|\))/g)];
  assert.ok(defaults.length >= 15, `only ${String(defaults.length)} defaults were found`);
  for (const [text, variable = "", number = "", unit = ""] of defaults)
    assert.equal(
      Number(number.replaceAll(",", "")) * (UNITS[unit] ?? NaN),
      RANGES.get(variable)?.fallback,
      text,
    );
  for (const { path } of OPERATIONS)
    assert.ok(page.includes(path.replace(/.*(\/(?:statements|commit|rollback))$/, "$1")), path);
  for (const [, status = "", code = ""] of page.matchAll(/([45][0-9]{2}) `([a-z_]+)`/g))
    assert.equal(
      String((ERRORS as Readonly<Record<string, { status: number }>>)[code]?.status),
      status,
      code,
    );
});
