// Goal: the published package works and is small. Method: build it, pack it, install it in an empty project, run it there,
// type-check the examples of the README against it with the strictest settings, and bundle it.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { checkPackage, createPackageFromTarballData } from "@arethetypeswrong/core";
import { blocksOf } from "@highwater/lab-tools/markdown";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { build } from "../scripts/build.ts";
import { sizesOf } from "../scripts/sizes.ts";

/** The bar of decision 0113, in bytes. The figures of scripts/ratchets.json may move, and this may not. */
const MAIN_MAX = 16 * 1_000;

let archive = "";
let project = "";
let directory: string | undefined;

before(async () => {
  directory = await mkdtemp(join(tmpdir(), "highwater-sdk-"));
  const dist = join(directory, "dist");
  await build(dist);
  const run = (cwd: string, ...args: string[]): string =>
    execFileSync("npm", [...args, "--no-audit", "--no-fund", "--offline"], { cwd, encoding: "utf8" });
  run(dist, "pack", "--pack-destination", directory, "--silent");
  archive = join(directory, (await readdir(directory)).find((name) => name.endsWith(".tgz")) ?? "");
  project = join(directory, "project");
  await mkdir(project);
  await writeFile(join(project, "package.json"), '{ "private": true, "type": "module" }');
  run(project, "install", archive, "--silent");
});

after(async () => {
  // Only what this test has made: without it there is no path that could mean anything else.
  if (directory !== undefined) await rm(directory, { recursive: true, force: true });
});

test("it has no dependencies, and no source that the installed files would miss", async () => {
  const installed = join(project, "node_modules", "@highwater", "sdk");
  assert.deepEqual(await readdir(join(project, "node_modules", "@highwater")), ["sdk"]);
  const manifest = JSON.parse(await readFile(join(installed, "package.json"), "utf8")) as object;
  assert.ok(!("dependencies" in manifest) && !("private" in manifest));
  assert.ok("license" in manifest && (await readdir(installed)).includes("LICENSE"));
  for (const name of await readdir(installed)) {
    if (!name.endsWith(".js")) continue;
    const text = await readFile(join(installed, name), "utf8");
    for (const [, from = ""] of text.matchAll(/(?:from|import)\s*\(?"([^"]+)"/g))
      assert.ok((await readdir(installed)).includes(from.replace("./", "")), `${name} imports ${from}`);
  }
});

test("publint finds nothing", async () => {
  const pkgDir = join(project, "node_modules", "@highwater", "sdk");
  const { messages, pkg } = await publint({ pkgDir, pack: false, strict: true });
  assert.deepEqual(
    messages.map((message) => formatMessage(message, pkg)),
    [],
  );
});

test("attw finds nothing, but that there are modules alone", async () => {
  const checked = await checkPackage(createPackageFromTarballData(await readFile(archive)));
  assert.ok(checked.types);
  // Node 20 and bundlers need neither.
  const older = ["node10", "node16-cjs"];
  const problems = checked.problems.filter(
    (problem) => !("resolutionKind" in problem && older.includes(problem.resolutionKind)),
  );
  assert.deepEqual(problems, []);
});

test("it runs in an empty project", () => {
  const script = `
    import { Highwater, sql } from "@highwater/sdk";
    import { verifyWebhook } from "@highwater/sdk/webhooks";
    const hw = new Highwater({ url: "http://127.0.0.1" });
    await hw.transaction(sql\`SELECT \${1}\`, { id: "1" }).catch((error) => console.log(error.code, error.outcome));
    await verifyWebhook({ body: "", headers: {}, secret: "" }).catch((error) => console.log(error.code));
    await hw.close();`;
  const output = execFileSync(process.execPath, ["--input-type=module", "-e", script], {
    ...({ cwd: project, encoding: "utf8" } as const),
  });
  assert.equal(output, "invalid_id not_applied\nmissing_headers\n");
});

test("the entry for pages and edge workers has the same classes, and no interactive transactions", () => {
  const script = `
    import * as main from "@highwater/sdk";
    import * as edge from "@highwater/sdk/edge";
    const differ = Object.keys(main).filter((name) => main[name] !== edge[name]);
    const hw = new edge.Highwater({ url: "http://127.0.0.1" });
    const given = [hw, hw.session()].map((each) => [each.begin, each.transact, typeof each.transaction]);
    console.log(JSON.stringify([differ, Object.keys(edge).length === Object.keys(main).length, given]));
    await hw.transaction("SELECT 1", { id: "1" }).catch((error) => console.log(error instanceof main.InvalidRequestError));
    await hw.close();`;
  const output = execFileSync(process.execPath, ["--input-type=module", "-e", script], {
    ...({ cwd: project, encoding: "utf8" } as const),
  });
  const none = [null, null, "function"];
  assert.deepEqual(output.split("\n"), [
    JSON.stringify([["Highwater", "Session"], true, [none, none]]),
    ...["true", ""],
  ]);
});

test("the examples of its README type-check against it", async () => {
  const readme = await readFile(new URL("../README.md", import.meta.url), "utf8");
  const blocks = blocksOf("ts", readme);
  assert.ok(blocks.length >= 4);
  await Promise.all(
    blocks.map((code, index) =>
      writeFile(join(project, `example-${String(index)}.ts`), `${code}\nexport {};\n`),
    ),
  );
  const compilerOptions = {
    ...{ noEmit: true, strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true },
    ...{ module: "nodenext", target: "es2022", lib: ["es2022", "dom", "dom.iterable", "esnext.disposable"] },
    types: [],
  };
  await writeFile(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.ts"] }));
  const compiler = createRequire(import.meta.url).resolve("typescript/bin/tsc6");
  try {
    execFileSync(process.execPath, [compiler, "-p", "."], {
      cwd: project,
      encoding: "utf8",
    });
  } catch (error) {
    assert.fail((error as { stdout?: string }).stdout);
  }
});

test("it is small", async () => {
  const { "@highwater/sdk": main } = await sizesOf(project, ["@highwater/sdk"]);
  assert.ok(
    main !== undefined && main.gzip <= MAIN_MAX,
    `${String(main?.gzip)} bytes of ${String(MAIN_MAX)}`,
  );
});
