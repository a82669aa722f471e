// Goal: imports form no circle, types included. Method: all TypeScript files are read; what fails is made up.
import assert from "node:assert/strict";
import { test } from "node:test";
import { circlesIn, crossingIn, importsOf } from "./imports.ts";
import { readTree } from "./tree.ts";

const imports = importsOf(new Map([...readTree()].filter(([path]) => /\.tsx?$/.test(path))));

test("no import lies on a circle", () => {
  assert.ok(imports.length > 1_000);
  assert.deepEqual(
    circlesIn(imports).map((files) => files.join(" -> ")),
    [],
  );
});

for (const [back, isFound] of [
  [`import { here } from "../../../scripts/here.ts";`, true],
  [`import here, { type Here } from "../../../scripts/here.ts";`, true],
  [`import "../../../scripts/here.ts";`, true],
  [`export * from "../../../scripts/here.ts";`, true],
  [`const here = async () => await import("../../../scripts/here.ts");`, true],
  [`import type { Here } from "../../../scripts/here.ts";`, true],
  [`import { type Here } from "../../../scripts/here.ts";`, true],
  [`export { type Here } from "../../../scripts/here.ts";`, true],
  [`let here: import("../../../scripts/here.ts").Here;`, true],
  [`const text = 'import "../../../scripts/here.ts"'; // import "../../../scripts/here.ts"`, false],
] as const)
  test(`${isFound ? "a circle and a crossing" : "no import"}: ${back}`, () => {
    const files = {
      "scripts/here.ts": `import { rule } from "@highwater/store/rules";`,
      "packages/store/src/rules.ts": `import "./there.ts";`,
      "packages/store/src/there.ts": back,
    };
    const made = importsOf(new Map(Object.entries(files)));
    assert.equal(circlesIn(made).length, isFound ? 3 : 0);
    assert.deepEqual(
      crossingIn(made, ["packages/store"]).map(({ from }) => from),
      isFound ? ["packages/store/src/there.ts"] : [],
    );
  });

test("a path may stay in a package, or in a folder that is in none", () => {
  const paths = [
    ["packages/store/src/a.ts", "packages/store/test/b.ts"],
    ["scripts/a.ts", "docs/test/b.ts"],
    ["scripts/a.ts", "packages/store/src/a.ts"],
    ["packages/store/src/a.ts", "packages/store-2/src/a.ts"],
  ] as const;
  const made = paths.map(([from, to]) => ({ from, to, isRelative: true }));
  assert.deepEqual(crossingIn(made, ["packages", "packages/store", "packages/store-2"]), made.slice(2));
});
