// Goal: what is published runs wherever the web's globals are. Method: one small program, the built package and a scripted
// service. It runs in this Node, and in a context with nothing but those globals, as an edge worker has. Also in other Nodes, Bun
// and Deno, where they are found: `make install-test` installs them.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test, type TestContext } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";
import vm from "node:vm";
import { type FakeServer } from "@highwater/conformance/fake";
import { nodeOf, programOf } from "@highwater/lab-tools/runtimes";
import { build as bundle } from "esbuild";
import { build } from "../scripts/build.ts";
import { service, streaming } from "./client-support.ts";

const PROGRAM = fileURLToPath(new URL("../smoke/program.mjs", import.meta.url));
let dist: string | undefined;

before(async () => {
  dist = await mkdtemp(join(tmpdir(), "highwater-sdk-"));
  await build(dist);
});

after(async () => {
  if (dist !== undefined) await rm(dist, { recursive: true, force: true });
});

const EXPECTED = [
  ...["bigint 9007199254740993", "[1,null]", "2026-01-02T03:04:05.678Z", "2", "a,b", "client:mark", "lost"],
  ...["true", "transaction_lost", "7", "durable", "2 runs", "durable", "true", "true"],
  "begin commit durable lost retry statements stream_closed stream_open timeout",
];

/** Its first transaction is durable with the first mark, its second is of an epoch that is gone. */
async function scripted(context: TestContext): Promise<FakeServer> {
  const names = { n: 20, list: 1007, at: 1184, bytes: 17 };
  const result = {
    ...{ command: "SELECT", rowCount: 1 },
    fields: Object.entries(names).map(([name, oid]) => ({ name, oid })),
    rows: [["9007199254740993", "{1,NULL}", "2026-01-02 03:04:05.678901+00", "\\x0102"]],
  };
  let conflicts = 0;
  const fake = await service(context, {
    transactions: [
      { ok: { results: [result] } },
      // A reason for another attempt.
      { problem: "overloaded" },
      { ok: { epoch: 2, offset: 20 } },
    ],
    commit: { ok: { offset: 10 } },
    begin: ({ body }) =>
      JSON.stringify(body["statements"]).includes("conflict once") && conflicts++ === 0
        ? { problem: "serialization_failure", open: false }
        : "ok",
    verdicts: ({ body }) =>
      body["level"] === "global" ? "hang" : { ok: { each: "durable", byOffset: { 20: "lost" } } },
  });
  void streaming(fake).then(() => {
    fake.mark({ epoch: 1, levels: { region: 10 } });
  });
  return fake;
}

async function runIn(context: TestContext, command: string, ...args: string[]): Promise<void> {
  const fake = await scripted(context);
  const address = pathToFileURL(join(dist ?? "", "index.js")).href;
  const options = { timeout: 120_000, killSignal: "SIGKILL" } as const;
  const { stdout } = await promisify(execFile)(command, [...args, PROGRAM, address, fake.url], options);
  assert.deepEqual(stdout.trim().split("\n"), EXPECTED);
}

for (const major of [20, 22, 24, 26])
  test(`Node ${String(major)}`, async (context) => {
    const node = nodeOf(major);
    if (node === null) context.skip("not here: make install-test has it");
    else await runIn(context, node);
  });

for (const [name, ...args] of [
  ["bun"],
  ["deno", "run", "--allow-net", "--allow-read", "--no-prompt"],
] as const)
  test(name, async (context) => {
    const command = programOf(name);
    if (command === null) context.skip("not here: make install-test has it");
    else await runIn(context, command, ...args);
  });

test("an edge worker: a single file, and nothing but the web's globals", async (context) => {
  const fake = await scripted(context);
  const contents = `import * as sdk from "./index.js"; import { run } from ${JSON.stringify(PROGRAM)};
                    globalThis.done = run(sdk, globalThis.url);`;
  const { outputFiles } = await bundle({
    stdin: { contents, resolveDir: dist ?? "" },
    ...({ bundle: true, format: "iife", platform: "neutral", write: false } as const),
  });
  const globals = {
    ...{
      fetch,
      Request,
      Response,
      Headers,
      URL,
      URLSearchParams,
      AbortController,
      AbortSignal,
      DOMException,
    },
    ...{ TextEncoder, TextDecoder, ReadableStream, crypto, performance, setTimeout, clearTimeout },
    ...{ queueMicrotask, atob, btoa, url: fake.url, done: Promise.resolve("") },
  };
  vm.runInNewContext(outputFiles[0]?.text ?? "", globals);
  assert.deepEqual((await globals.done).split("\n"), EXPECTED);
});
