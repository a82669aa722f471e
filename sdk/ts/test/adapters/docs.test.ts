// Goal: the pages about the adapters tell the truth. Method: the code of each page is one program, which runs as it is printed.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { System } from "@highwater/dev-system";
import { EAST } from "./support.ts";

const PACKAGE = fileURLToPath(new URL("../..", import.meta.url));
const ADDRESS = '{ url: "http://127.0.0.1:4600" }';

let system: System;
before(async () => {
  system = await System.start();
});
after(() => system.close());

for (const page of ["kysely", "drizzle"])
  test(`docs/guide/${page}.md`, async () => {
    const text = await readFile(join(PACKAGE, "..", "..", "docs", "guide", `${page}.md`), "utf8");
    const blocks = [...text.matchAll(/```ts\n(.*?)```/gs)].map(([, code = ""]) => code);
    assert.ok(blocks.length >= 6);
    const endpoints = await system.endpoints(EAST);
    const program = blocks.join("\n").replace(ADDRESS, JSON.stringify({ endpoints }));
    assert.ok(!program.includes(ADDRESS) && program.includes(JSON.stringify(endpoints)));
    // Inside the package, so that the imports resolve as they do for a user.
    const folder = await mkdtemp(join(PACKAGE, ".tmp-"));
    try {
      const file = join(folder, "page.ts");
      await writeFile(file, program);
      const { status, output } = await run(file);
      assert.equal(status, 0, output);
      const lines = output.trim().split("\n");
      assert.deepEqual(lines, [
        ...["committed: Ada", "durable", "now the letter can go out"],
        page === "kysely" ? "1n 1490" : "1 1490",
        ...["now: 1400n", "seen: 1"],
      ]);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
    const [primary] = system.cluster.nodes;
    await system.cluster.query(primary?.id ?? "", "DROP TABLE purchase");
  });

function run(file: string): Promise<{ status: number | null; output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ["--disable-warning=ExperimentalWarning", file], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
    child.once("error", reject);
    child.once("close", (status) => {
      resolve({ status, output });
    });
  });
}
