// Goal: the published adapters work in a project of their own, are small, and cost those nothing who do not use them. Method:
// build and pack the package, install it, and run, type-check and bundle there, with the published libraries beside it.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { build as buildPackage } from "../../scripts/build.ts";

const MODULES = fileURLToPath(new URL("../../../../node_modules", import.meta.url));
const GUIDE = new URL("../../../../docs/guide/", import.meta.url);
/** Bytes, minified and gzipped, beyond the library and the client. */
const SIZE_MAX = 3_072;
const LIBRARIES = { kysely: "kysely", drizzle: "drizzle-orm" } as const;

let project = "";
let directory: string | undefined;

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
  // Only what this test has made: without it there is no path that could mean anything else.
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

test("the pages about them type-check against it, and run in a project with the libraries", async () => {
  for (const [entry, library] of Object.entries(LIBRARIES)) {
    await symlink(await realpath(join(MODULES, library)), join(project, "node_modules", library));
    const text = await readFile(new URL(`${entry}.md`, GUIDE), "utf8");
    const blocks = [...text.matchAll(/```ts\n(.*?)```/gs)].map(([, code = ""]) => code);
    await writeFile(join(project, `${entry}.ts`), blocks.join("\n"));
    const script = `
      import { Highwater } from "@highwater/sdk";
      const adapter = await import("@highwater/sdk/${entry}");
      console.log(Object.keys(adapter).filter((name) => /^[a-z]/.test(name)).join());`;
    const output = execFileSync(process.execPath, ["--input-type=module", "-e", script], {
      ...({ cwd: project, encoding: "utf8" } as const),
    });
    const own = entry === "drizzle" ? "bind,committed,drizzle,migrate" : "bind,committed";
    assert.equal(output, `${own},transact,transactionOf\n`);
  }
  const compilerOptions = {
    ...{ noEmit: true, strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true },
    ...{ module: "nodenext", target: "es2023", lib: ["es2023", "dom", "dom.iterable", "esnext.disposable"] },
    types: [],
  };
  await writeFile(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.ts"] }));
  const compiler = createRequire(import.meta.url).resolve("typescript/bin/tsc");
  let output = "";
  try {
    execFileSync(process.execPath, [compiler, "-p", "."], { cwd: project, encoding: "utf8" });
  } catch (error) {
    output = (error as { stdout?: string }).stdout ?? String(error);
  }
  // The declarations of the libraries themselves are theirs: what they name and do not install is no fault here.
  const ours = output
    .split("\n")
    .filter((line) => line.includes(" error ") && !/^\S*drizzle-orm\//.test(line));
  assert.deepEqual(ours, []);
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
