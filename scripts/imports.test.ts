// Goal: imports form no circle, types included; no relative path leads from one package into another; and a package declares all that
// it imports. Method: the rules read all TypeScript files; made-up files show that each rule can fail.
import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import ROOT_MANIFEST from "../package.json" with { type: "json" };
import { circlesIn, crossingIn, importsOf, type Manifest, undeclaredIn } from "./imports.ts";
import { readTree, ROOT } from "./tree.ts";
import { chosen, IDLE_IMPORTS, OWN_FOLDERS, type Stage, STAGES } from "./verify/stages.ts";

const imports = importsOf(new Map([...readTree()].filter(([path]) => /\.tsx?$/.test(path))));
const manifests = new Map<string, Manifest>(
  globSync(
    ROOT_MANIFEST.workspaces.map((folder) => `${folder}/package.json`),
    { cwd: ROOT },
  ).map((path) => [dirname(path), JSON.parse(readFileSync(join(ROOT, path), "utf8")) as Manifest]),
);
const shown = ({ from, name }: { from: string; name: string }): string => `${from} imports ${name}`;

test("no import lies on a circle", () => {
  assert.ok(imports.length > 1_000);
  assert.deepEqual(
    circlesIn(imports).map((files) => files.join(" -> ")),
    [],
  );
});

test("no relative import leads into another package", () => {
  assert.ok(manifests.size > 10);
  assert.deepEqual(crossingIn(imports, [...manifests.keys()]).map(shown), []);
});

test("a stage of make verify that runs a file runs what the file imports", () => {
  const folderOf = (path: string): string | undefined =>
    Object.keys(OWN_FOLDERS).find((folder) => path.startsWith(`${folder}/`));
  const stagesOf = (folder: string | undefined): Stage[] =>
    STAGES.filter(({ unread }) => folder === undefined || !unread.includes(folder));
  const isTest = (path: string): boolean => /\.test\.ts$|\/tests?\//.test(path);
  const faults = imports.flatMap(({ from, to = from }) => {
    const folder = folderOf(to);
    const isIdle = folder !== undefined && from.startsWith(IDLE_IMPORTS[folder] ?? "-");
    const stages = isTest(from) || isIdle ? [] : stagesOf(folderOf(from));
    const missing = stages.filter((stage) => !stagesOf(folder).includes(stage));
    return missing.map(({ name }) => `${name} runs ${from}, but not ${to}`);
  });
  assert.deepEqual(faults, []);
  for (const [folder, names] of Object.entries(OWN_FOLDERS)) {
    assert.ok(existsSync(join(ROOT, folder)), folder);
    for (const name of names) assert.ok(chosen(STAGES, name).length > 0, name);
  }
});

test("every package declares what it imports", () => {
  // It has a manifest of its own, and is no workspace.
  const isElsewhere = /^dashboards\/pictures\/page\//;
  const undeclared = undeclaredIn(imports, manifests).filter(({ from }) => !isElsewhere.test(from));
  assert.deepEqual(undeclared.map(shown), []);
});

test("every address from a module's own place leads into the tree, or to what is made there", () => {
  const isMade = /^(?:\.(?:tools|venv|tmp)|node_modules)\b|\/(?:node_modules|dist)(?:\/|$)/;
  const address = /new URL\(\s*["`](\.\.?\/[^"`$]*)(["`$])[^)]*?,\s*import\.meta\.url,?\s*\)/g;
  const leads = [...readTree()].flatMap(([file, text]) =>
    [...text.matchAll(address)].map(([, path = "", end]) => {
      // What a program fills in can only be checked as far as its folder.
      const known = end === "$" ? path.replace(/[^/]*$/, "") : path;
      return { file, to: join(dirname(file), known) };
    }),
  );
  assert.ok(leads.length > 50);
  assert.deepEqual(
    leads.filter(({ to }) => !isMade.test(to) && !existsSync(join(ROOT, to))),
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
      "scripts/here.ts": `import { suite } from "@highwater/store/conformance";`,
      "packages/store/src/conformance.ts": `import "./there.ts";`,
      "packages/store/src/there.ts": back,
    };
    const made = importsOf(new Map(Object.entries(files)));
    assert.equal(circlesIn(made).length, isFound ? 3 : 0);
    assert.deepEqual(
      crossingIn(made, ["packages/store"]).map(({ from }) => from),
      isFound ? ["packages/store/src/there.ts"] : [],
    );
  });

test("a path may stay in a package, or in folders that are in none", () => {
  const paths = [
    ["packages/store/src/a.ts", "packages/store/test/b.ts"],
    ["scripts/a.ts", "docs/test/b.ts"],
    ["scripts/a.ts", "packages/store/src/a.ts"],
    ["packages/store/src/a.ts", "packages/store-2/src/a.ts"],
  ] as const;
  const made = paths.map(([from, to]) => ({ from, to, name: "./b.ts" }));
  assert.deepEqual(crossingIn(made, ["packages", "packages/store", "packages/store-2"]), made.slice(2));
});

test("declared is what a manifest names, Node's own, and types; other packages of ours as well", () => {
  const text = `import "node:fs"; import "itself/part"; import "@of/one/part"; import "typed/part"; import "two"; import "@highwater/store";`;
  const made = importsOf(new Map([["packages/here/a.ts", text]]));
  const manifest = {
    name: "itself",
    dependencies: { "@of/one": "1.0.0" },
    devDependencies: { "@types/typed": "1.0.0" },
  };
  assert.deepEqual(
    undeclaredIn(made, new Map([["packages/here", manifest]])).map(({ name }) => name),
    ["two", "@highwater/store"],
  );
});
