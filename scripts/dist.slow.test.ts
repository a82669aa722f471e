// Goal: `make dist` builds packages that install. Method: run it, and install each in an empty folder: the SDKs without a registry,
// the command with what npm's cache has. Tests beside each SDK check the contents of the packages.
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
  const found = (part: string): string => {
    const names = readdirSync(dist).filter((name) => name.includes(part));
    assert.equal(names.length, 1, `${part}: ${names.join(", ")}`);
    return join(dist, names[0] ?? "");
  };
  assert.equal(readdirSync(dist).length, 4);

  const project = join(folder.path, "npm");
  mkdirSync(project);
  writeFileSync(join(project, "package.json"), '{ "private": true, "type": "module" }');
  run(project, "npm", "install", "--offline", "--no-audit", "--no-fund", "--silent", found("-sdk-0.1.0.tgz"));
  const script = 'import { Highwater } from "@highwater/sdk"; console.log(Highwater.name);';
  assert.equal(run(project, process.execPath, "--input-type=module", "-e", script), "Highwater\n");

  const empty = join(folder.path, "command");
  mkdirSync(empty);
  writeFileSync(join(empty, "package.json"), '{ "private": true }');
  // Other packages, and the command's own Node, come from npm's cache where it has them.
  run(empty, "npm", "install", "--prefer-offline", "--no-audit", "--no-fund", "--silent", found("-cli-"));
  const highwater = join(empty, "node_modules/.bin/highwater");
  assert.match(run(empty, highwater, "--version"), /^highwater \d+\.\d+\.\d+\n$/);
  assert.match(run(empty, highwater, "init", "--help"), /^Usage: highwater init /);
  // Another program of ours, and files beside its modules.
  assert.match(run(empty, highwater, "keys", "generate"), /^hwk_/);
  assert.match(run(empty, highwater, "roles"), /CREATE TABLE highwater_audit\.entry/);

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
