// Goal: when a program ends, by any signal, its child processes end and its temporary folder is
// removed. Method: a program whose child, a shell, writes file after file into the program's
// temporary folder.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { access, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { eventually } from "@highwater/lab-tools/process";
import { endGuarded, processesWith, spawnGuarded, TemporaryFolder } from "../src/process/index.ts";

const INDEX = new URL("../src/process/index.ts", import.meta.url).href;
const PROGRAM = `
  const { spawnGuarded, TemporaryFolder } = await import(process.argv[1]);
  const folder = await TemporaryFolder.make("highwater-ending é-");
  const script = 'n=0; while :; do mkdir -p "$1/d"; n=$((n + 1)); echo > "$1/d/$n"; done';
  spawnGuarded(["/bin/sh", "-c", script, "writer", folder.path], { detached: true });
  console.log(folder.path);
`;

async function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

for (const signal of ["SIGINT", "SIGTERM", "SIGKILL"] as const)
  test(`${signal} leaves neither process nor folder`, async () => {
    const child = spawn(process.execPath, ["--input-type=module", "-e", PROGRAM, INDEX], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [path] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
    await eventually("it is written to", () => isThere(join(path, "d")));
    const running = processesWith(path);
    child.kill(signal);
    assert.deepEqual(await once(child, "exit"), [null, signal]);
    assert.notDeepEqual(running, []);
    await eventually("the folder is gone", async () => !(await isThere(path)));
    await eventually("no process is left", async () => processesWith(path).length === 0);
    assert.ok(!(await isThere(path)), "no one makes it again");
  });

test("a folder is removed when that is asked for, or stays when that is", async () => {
  const removed = await TemporaryFolder.make("highwater-ending-");
  await removed.remove();
  assert.ok(!(await isThere(removed.path)));
  const kept = await mkdtemp(join(tmpdir(), "highwater-ending-"));
  await TemporaryFolder.of(kept).keep();
  assert.deepEqual(await readdir(kept), []);
  await rm(kept, { recursive: true });
  assert.deepEqual([...processesWith(removed.path), ...processesWith(kept)], []);
});

test("the exit code is the program's", async () => {
  const child = spawnGuarded(["/bin/sh", "-c", "exit 99"]);
  assert.deepEqual(await once(child, "exit"), [99, null]);
  await endGuarded(child);
});
