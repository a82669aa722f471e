// Builds the package that is published: JavaScript with types beside it, and a manifest that names
// no source. The repository itself imports the source; so the published package has a directory,
// and a package.json, of its own. The main entry shares a file with the one for pages and edge
// workers; source maps have the source.
// Usage: node scripts/build.ts [DIRECTORY]; then `npm pack` or `npm publish` there.
import { execFileSync } from "node:child_process";
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build as bundle, type BuildOptions, type BuildResult, type Plugin } from "esbuild";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly type: string;
  readonly engines: Readonly<Record<string, string>>;
  readonly exports: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta: Readonly<Record<string, { readonly optional: boolean }>>;
}

/**
 * Removes the files of an earlier build, and nothing else: a folder of something else that is named
 * by mistake is kept.
 */
async function clear(directory: string, name: string): Promise<void> {
  const names = await readdir(directory).catch(() => []);
  if (names.length === 0) return;
  const manifest = await readFile(join(directory, "package.json"), "utf8").catch(() => "{}");
  const found = JSON.parse(manifest) as { readonly name?: string; readonly private?: boolean };
  if (found.name !== name || found.private === true)
    throw new Error(`${directory} has something else than an earlier build: name an empty directory`);
  await rm(directory, { recursive: true });
}

/**
 * The main entry, and the same without interactive transactions. A third file has the common parts.
 */
const MAIN = "./src/index.ts";
const EDGE = "./src/edge.ts";

const COMMON = {
  ...({ bundle: true, format: "esm", platform: "neutral", target: "es2022", write: false } as const),
  ...({ packages: "external", sourcemap: "external", absWorkingDir: ROOT } as const),
} satisfies BuildOptions;

/** Readable: a stack trace names our functions. Applications minify what they bundle. */
async function buildMain(out: string): Promise<void> {
  await writeFiles(
    await bundle({
      ...COMMON,
      entryPoints: [MAIN, EDGE],
      outdir: out,
      splitting: true,
      chunkNames: "shared",
    }),
  );
}

/** With each file's source map named in it. */
async function writeFiles({ outputFiles }: BuildResult<typeof COMMON>): Promise<void> {
  for (const { path, text } of outputFiles) {
    await mkdir(dirname(path), { recursive: true });
    const isCode = path.endsWith(".js");
    await writeFile(path, isCode ? `${text}//# sourceMappingURL=${basename(path)}.map\n` : text);
  }
}

/** The main entry is not in the others: an error's class must be the same everywhere. */
async function buildEntry(file: string, out: string): Promise<void> {
  const outfile = join(out, file.replace("./src/", "").replace(/\.ts$/, ".js"));
  const toMain = relative(dirname(outfile), join(out, "index.js"));
  const main: Plugin = {
    name: "main",
    setup(setup) {
      setup.onResolve({ filter: /^(\.\.\/)*(\.\/)?index\.ts$/ }, ({ path, resolveDir }) =>
        resolve(resolveDir, path) === join(ROOT, MAIN)
          ? { path: toMain.startsWith(".") ? toMain : `./${toMain}`, external: true }
          : undefined,
      );
    },
  };
  await writeFiles(await bundle({ ...COMMON, entryPoints: [file], outfile, plugins: [main] }));
}

/**
 * The entries that users get, by their sources. The others are for this repository's tests and
 * tools.
 */
export function publishedEntries(exports: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(exports).filter(([, file]) => file.startsWith("./src/")));
}

export async function build(directory: string): Promise<void> {
  const out = resolve(directory);
  const source = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")) as Manifest;
  await clear(out, source.name);
  const compiler = join(ROOT, "../../node_modules/.bin/tsc");
  const config = join(ROOT, "tsconfig.build.json");
  const declarations = [compiler, "-p", config, "--outDir", out, "--emitDeclarationOnly"];
  execFileSync(process.execPath, declarations, { stdio: "inherit" });
  await buildMain(out);
  const { name, version, license, type, engines, peerDependencies, peerDependenciesMeta } = source;
  const published = publishedEntries(source.exports);
  const entries = Object.entries(published).map(([entry, file]) => {
    const built = file.replace("./src/", "./").replace(/\.ts$/, "");
    return [entry, { types: `${built}.d.ts`, default: `${built}.js` }] as const;
  });
  for (const file of Object.values(published))
    if (file !== MAIN && file !== EDGE) await buildEntry(file, out);
  const manifest = {
    name,
    version,
    license,
    type,
    engines,
    sideEffects: false,
    exports: Object.fromEntries(entries),
    // Of the adapters, and optional: who has neither library installs neither.
    peerDependencies,
    peerDependenciesMeta,
    description:
      "Client of Highwater: commits in milliseconds, and a promise of durability for each of them.",
    keywords: ["postgresql", "transactions", "durability", "replication", "failover", "database"],
  };
  await writeFile(join(out, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  await copyFile(join(ROOT, "README.md"), join(out, "README.md"));
  await copyFile(join(ROOT, "../../LICENSE"), join(out, "LICENSE"));
}

if (import.meta.main) await build(process.argv[2] ?? join(ROOT, "dist"));
