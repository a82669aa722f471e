// Goal: the published adapters work in a project of their own, as the pages about them say, are small, and cost those nothing
// who do not use them. Method: build and pack the package, install it, and run, type-check and bundle there, with the published
// libraries beside it. The code of each page is one program, which runs on the whole system as it is printed.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { System } from "@highwater/lab-system";
import { build } from "esbuild";
import { blocksOf } from "@highwater/lab-tools/markdown";
import { build as buildPackage } from "../../scripts/build.ts";
import { EAST } from "./support.ts";

const MODULES = fileURLToPath(new URL("../../../../node_modules", import.meta.url));
const GUIDE = new URL("../../../../docs/guide/", import.meta.url);
const ADDRESS = `{
  endpoints: [{ gateway: "http://127.0.0.1:4600", tracker: "http://127.0.0.1:4601" }],
}`;
/** Bytes, minified and gzipped, beyond the library and the client. */
const SIZE_MAX = 3_200;
const LIBRARIES = { kysely: "kysely", drizzle: "drizzle-orm" } as const;

/** What `after` removes: only what `before` has made, also where it failed half-way. */
let directory: string | undefined;
let project = "";

before(async () => {
  directory = await mkdtemp(join(tmpdir(), "highwater-adapters-"));
  const dist = join(directory, "dist");
  await buildPackage(dist);
  const run = (cwd: string, ...args: string[]): string =>
    execFileSync("npm", [...args, "--no-audit", "--no-fund", "--offline"], { cwd, encoding: "utf8" });
  run(dist, "pack", "--pack-destination", directory, "--silent");
  const archive = (await readdir(directory)).find((name) => name.endsWith(".tgz")) ?? "";
  project = join(directory, "project");
  await mkdir(project);
  await writeFile(join(project, "package.json"), '{ "private": true, "type": "module" }');
  run(project, "install", join(directory, archive), "--silent");
});

after(async () => {
  if (directory !== undefined) await rm(directory, { recursive: true, force: true });
});

test("neither library is installed along, and what they need stays out of the client", async () => {
  assert.deepEqual(
    await readdir(join(project, "node_modules")).then((names) =>
      names.filter((name) => !name.startsWith(".")),
    ),
    ["@highwater"],
  );
  execFileSync(process.execPath, ["--input-type=module", "-e", 'await import("@highwater/sdk");'], {
    cwd: project,
  });
});

test("with the libraries beside it, the pages about the adapters type-check", async () => {
  for (const [entry, library] of Object.entries(LIBRARIES)) {
    await symlink(await realpath(join(MODULES, library)), join(project, "node_modules", library));
    await writeFile(join(project, `${entry}.ts`), await programOf(entry));
  }
  const compilerOptions = {
    ...{ noEmit: true, strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true },
    ...{ module: "nodenext", target: "es2023", lib: ["es2023", "dom", "dom.iterable", "esnext.disposable"] },
    types: [],
  };
  await writeFile(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.ts"] }));
  const { output } = await run(createRequire(import.meta.url).resolve("typescript/bin/tsc6"), "-p", ".");
  // The declarations of the libraries themselves are theirs: what they name and do not install is no fault here.
  const ours = output
    .split("\n")
    .filter((line) => line.includes(" error ") && !/^[^(]*drizzle-orm\//.test(line));
  assert.deepEqual(ours, []);
});

test("the pages about the adapters run", async () => {
  await using system = await System.start();
  const endpoints = await system.endpoints(EAST);
  for (const entry of Object.keys(LIBRARIES)) {
    const page = await programOf(entry);
    const program = page.replace(ADDRESS, JSON.stringify({ endpoints }));
    assert.notEqual(program, page);
    await writeFile(join(project, `${entry}.ts`), program);
    const { status, output } = await run("--disable-warning=ExperimentalWarning", `${entry}.ts`);
    assert.equal(status, 0, output);
    assert.deepEqual(output.trim().split("\n"), [
      ...["committed: Ada", "durable", "now the e-mail can go out"],
      entry === "kysely" ? "1n 1490" : "1 1490",
      ...["now: 1400n", "seen: 1"],
    ]);
    await system.cluster.query(system.cluster.nodes[0]?.id ?? "", "DROP TABLE purchase");
  }
});

test("they are small", async () => {
  for (const entry of Object.keys(LIBRARIES)) {
    const { outputFiles } = await build({
      ...{ stdin: { contents: `export * from "@highwater/sdk/${entry}"`, resolveDir: project } },
      ...({ bundle: true, minify: true, format: "esm", target: "es2022", write: false } as const),
      external: ["kysely", "drizzle-orm", "drizzle-orm/*"],
      plugins: [
        {
          name: "the client is not counted",
          setup: (bundler) => {
            bundler.onResolve({ filter: /^\.\.\/(\.\.\/)?index\.js$/ }, () => ({
              path: "@highwater/sdk",
              external: true,
            }));
          },
        },
      ],
    });
    const bytes = gzipSync(outputFiles[0]?.contents ?? "", { level: 9 }).length;
    assert.ok(bytes > 1_000 && bytes <= SIZE_MAX, `${entry}: ${String(bytes)} bytes of ${String(SIZE_MAX)}`);
  }
});

async function programOf(entry: string): Promise<string> {
  const text = await readFile(new URL(`${entry}.md`, GUIDE), "utf8");
  const blocks = blocksOf("ts", text);
  assert.ok(blocks.length >= 6);
  return blocks.join("\n");
}

function run(...args: readonly string[]): Promise<{ status: number | null; output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { cwd: project, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
    child.once("error", reject);
    child.once("close", (status) => {
      resolve({ status, output });
    });
  });
}
