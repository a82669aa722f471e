// Goal: `make dist` builds packages that install. Method: run it, and install each in an empty folder without a registry.
// Tests beside each SDK check the contents of the packages.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { TemporaryFolder } from "@highwater/lab-tools/process";

const ROOT = join(import.meta.dirname, "..");
const PYTHON = join(ROOT, ".venv/bin/python");
const folder = await TemporaryFolder.make("highwater-dist-");
after(() => folder.remove());

function run(cwd: string, program: string, ...args: readonly string[]): string {
  return execFileSync(program, args, { cwd, encoding: "utf8" });
}

test("the packages are built, and each installs in an empty folder", () => {
  run(ROOT, "make", "-s", "dist");
  const dist = join(ROOT, "dist");
  const found = (end: string): string => {
    const names = readdirSync(dist).filter((name) => name.endsWith(end));
    assert.equal(names.length, 1, `${end}: ${names.join(", ")}`);
    return join(dist, names[0] ?? "");
  };
  assert.equal(readdirSync(dist).length, 3);

  const project = join(folder.path, "npm");
  mkdirSync(project);
  writeFileSync(join(project, "package.json"), '{ "private": true, "type": "module" }');
  run(project, "npm", "install", "--offline", "--no-audit", "--no-fund", "--silent", found(".tgz"));
  const script = 'import { Highwater } from "@highwater/sdk"; console.log(Highwater.name);';
  assert.equal(run(project, process.execPath, "--input-type=module", "-e", script), "Highwater\n");

  for (const end of [".whl", ".tar.gz"]) {
    const target = join(folder.path, end.slice(1));
    const install = [
      "install",
      "--quiet",
      "--no-index",
      "--no-deps",
      "--no-build-isolation",
      "--target",
      target,
    ];
    run(folder.path, PYTHON, "-m", "pip", "--disable-pip-version-check", ...install, found(end));
    const check = `import sys; sys.path.insert(0, ${JSON.stringify(target)}); import highwater; print(highwater.__file__)`;
    assert.ok(run(folder.path, PYTHON, "-P", "-c", check).startsWith(target));
  }
});
