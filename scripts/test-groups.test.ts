// Goal: unit tests that share a process all run, and files that would not all run get separate processes. Method: files of a made-up
// package, run by Node.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { after, test } from "node:test";
import { TemporaryFolder } from "@highwater/lab-tools/process";
import { groupUnitTests } from "./test-groups.ts";

const folder = await TemporaryFolder.make("highwater-test-groups-");
after(() => folder.remove());
const source = join(folder.path, "packages", "made-up", "src");
mkdirSync(source, { recursive: true });

function fileOf(name: string, text: string): string {
  const file = join(source, name);
  writeFileSync(file, `import { before, test } from "node:test";\n${text}`);
  return file;
}

const QUICK = fileOf("quick.test.mjs", 'test("quick", () => {});');
const LATE = fileOf(
  "late.test.mjs",
  'await new Promise((go) => setTimeout(go, 200));\ntest("late", () => {});',
);

function run(files: readonly string[]): { entries: string[]; output: string; status: number | null } {
  const entries = groupUnitTests(files, folder.path, folder.path);
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const args = ["--test", "--test-force-exit", "--test-reporter=spec", ...entries];
  const { stdout, status } = spawnSync(process.execPath, args, { env, encoding: "utf8" });
  return { entries, output: stdout, status };
}

test("tests that are known only after others have ended run as well", () => {
  const { entries, output, status } = run([QUICK, LATE]);
  assert.equal(entries.length, 1);
  assert.equal(status, 0, output);
  for (const name of ["quick", "late", "packages/made-up: all 2 files of unit tests are loaded"])
    assert.ok(output.includes(`✔ ${name} (`), output);
});

test("a file that cannot be loaded fails the group", () => {
  const { output, status } = run([QUICK, fileOf("broken.test.mjs", 'throw new Error("broken");')]);
  assert.equal(status, 1);
  assert.match(output, /broken/);
});

test("a file with a hook for all its tests runs alone, as what is no unit test does", () => {
  const hooked = fileOf("hooked.test.mjs", 'before(() => {});\ntest("hooked", () => {});');
  const slow = fileOf("much.slow.test.mjs", 'test("slow", () => {});');
  const grouped = groupUnitTests([hooked, slow, QUICK], folder.path, folder.path);
  assert.deepEqual(
    grouped.map((file) => basename(file)),
    ["hooked.test.mjs", "much.slow.test.mjs", "packages-made-up.mjs"],
  );
});
