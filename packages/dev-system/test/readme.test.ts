// Goal: the README's example runs as it is printed.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { System } from "../src/index.ts";

const ROOT = new URL("../../../", import.meta.url).pathname;
const EAST = "us-east";

test("the README's example", async () => {
  await using system = await System.start();
  const readme = await readFile(join(ROOT, "README.md"), "utf8");
  const code = /```ts\n([\s\S]*?)```/.exec(readme)?.[1];
  assert.ok(code !== undefined);
  const [endpoint] = await system.endpoints(EAST);
  assert.ok(endpoint !== undefined);
  // Inside the package, so that the import resolves as it does for a user.
  const dir = await mkdtemp(join(ROOT, "packages/dev-system/.tmp-"));
  try {
    const file = join(dir, "example.ts");
    const text = code
      .replace("http://127.0.0.1:4600", endpoint.gateway)
      .replace("http://127.0.0.1:4601", endpoint.tracker);
    assert.notEqual(text, code);
    await writeFile(file, text);
    const { status, output } = await run(file);
    assert.equal(status, 0, output);
    assert.match(output, /committed: \{ balance: 90 \}/);
    assert.match(output, /durable: another region has it on disk/);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
});

function run(file: string): Promise<{ status: number | null; output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [file], { stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
    child.once("error", reject);
    child.once("close", (status) => {
      resolve({ status, output });
    });
  });
}
