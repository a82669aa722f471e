// Goal: without Python, `make up` reports that it runs without an edge, and why, and runs. Method:
// the command runs with a PATH that has everything except Python, and with an empty folder for
// Envoy.
import assert from "node:assert/strict";
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readdir, symlink } from "node:fs/promises";
import { delimiter, join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { TemporaryFolder } from "@highwater/lab-tools/process";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
const LIMIT_MS = 300_000;

/** Links to every program that PATH has, except Python's. */
async function linkPrograms(folder: string): Promise<void> {
  await mkdir(folder);
  for (const place of (process.env["PATH"] ?? "").split(delimiter))
    for (const name of await readdir(place).catch((): string[] => []))
      if (!name.startsWith("python"))
        await symlink(join(place, name), join(folder, name)).catch(() => undefined);
}

test("make up works without Python, and says so", { timeout: LIMIT_MS }, async () => {
  await using temp = await TemporaryFolder.make("highwater-up-");
  const programs = join(temp.path, "programs");
  await linkPrograms(programs);
  const { MAKEFLAGS: _flags, MAKELEVEL: _level, MFLAGS: _more, ...others } = process.env;
  // Counts npm's packages as installed: this does not test npm.
  const args = ["-o", "node_modules/.installed", "up", `ENVOY=${join(temp.path, "envoy", ".installed")}`];
  const child: ChildProcessByStdio<Writable, Readable, Readable> = spawn("make", args, {
    cwd: ROOT,
    env: { ...others, PATH: programs, HIGHWATER_ENVOY: join(temp.path, "envoy", "envoy") },
    stdio: ["pipe", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => (output += text));
  const exit = once(child, "close") as Promise<[number | null]>;
  const isOver = exit.then(() => true);
  while (!output.includes("Ctrl-C stops everything") && !(await Promise.race([isOver, pause(100, false)])));
  child.stdin.on("error", () => undefined);
  child.stdin.end("quit\n");
  assert.deepEqual(await exit, [0, null], output);
  assert.match(output, /Envoy comes as a Python package: Python 3\.10 or newer with venv/);
  assert.match(output, /The system runs without an edge: no Envoy: /);
  assert.match(output, /^ {2}gateway +http:/m);
  assert.doesNotMatch(output, /^ {2}edge /m);
  assert.match(output, /Stopping\./);
});
