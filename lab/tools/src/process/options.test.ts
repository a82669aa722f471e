// Goal: a command prints the options that it accepts, and reports wrong options in one line.
// Method: a small command runs as a process.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { TemporaryFolder } from "./index.ts";

const folder = await TemporaryFolder.make("highwater-options-");
after(() => folder.remove());
const command = join(folder.path, "command.ts");
writeFileSync(
  command,
  `#!/usr/bin/env node
// Greets.
// Options: --name NAME.
import { readOptions } from ${JSON.stringify(new URL("index.ts", import.meta.url).href)};

// No part of the help.
const { values } = readOptions(import.meta.filename, { options: { name: { type: "string", default: "you" } } });
console.log(\`hello \${values.name}\`);
`,
);

function run(...args: readonly string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [command, ...args], { encoding: "utf8" });
  return { status, stdout, stderr };
}

test("options are read", () => {
  assert.deepEqual(run("--name", "all"), { status: 0, stdout: "hello all\n", stderr: "" });
});

test("--help prints the comment that the file begins with", () => {
  for (const option of ["--help", "-h"])
    assert.deepEqual(run(option), { status: 0, stdout: "Greets.\nOptions: --name NAME.\n", stderr: "" });
});

test("unreadable options are reported in one line", () => {
  const { status, stdout, stderr } = run("--nam=all");
  assert.deepEqual([status, stdout], [2, ""]);
  assert.match(stderr, /^Unknown option '--nam'.* \(--help lists the options\)\n$/);
});
