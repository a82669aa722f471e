// Builds the package that is published: JavaScript with types beside it, and a manifest that names no source. What the repository
// itself imports is the source; so the published package has a directory, and a package.json, of its own.
// Usage: node scripts/build.ts [DIRECTORY]; then `npm pack` or `npm publish` there.
import { execFileSync } from "node:child_process";
import { copyFile, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly type: string;
  readonly engines: Readonly<Record<string, string>>;
  readonly exports: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta: Readonly<Record<string, { readonly optional: boolean }>>;
}

/** Removes what an earlier build has left, and nothing else: whoever names a folder of something else keeps it. */
async function clear(directory: string, name: string): Promise<void> {
  const names = await readdir(directory).catch(() => []);
  if (names.length === 0) return;
  const manifest = await readFile(join(directory, "package.json"), "utf8").catch(() => "{}");
  const found = JSON.parse(manifest) as { readonly name?: string; readonly private?: boolean };
  if (found.name !== name || found.private === true)
    throw new Error(`${directory} has something else than an earlier build: name an empty directory`);
  await rm(directory, { recursive: true });
}

export async function build(directory: string): Promise<void> {
  const out = resolve(directory);
  const source = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")) as Manifest;
  await clear(out, source.name);
  const compiler = createRequire(import.meta.url).resolve("typescript/bin/tsc");
  const config = join(ROOT, "tsconfig.build.json");
  execFileSync(process.execPath, [compiler, "-p", config, "--outDir", out], { stdio: "inherit" });
  const { name, version, type, engines, peerDependencies, peerDependenciesMeta } = source;
  const entries = Object.entries(source.exports).map(([entry, file]) => {
    const built = file.replace("./src/", "./").replace(/\.ts$/, "");
    return [entry, { types: `${built}.d.ts`, default: `${built}.js` }] as const;
  });
  const manifest = {
    ...{ name, version, type, engines, sideEffects: false },
    exports: Object.fromEntries(entries),
    // Of the adapters, and optional: who has neither library installs neither.
    ...{ peerDependencies, peerDependenciesMeta },
    description:
      "Client of Highwater: commits in milliseconds, and a promise of durability for each of them.",
  };
  await writeFile(join(out, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  await copyFile(join(ROOT, "README.md"), join(out, "README.md"));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await build(process.argv[2] ?? join(ROOT, "dist"));
