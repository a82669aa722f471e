// Builds the package that is published: JavaScript of the command and of every program that it
// calls, as a tree like the repository's, because Node strips no types below node_modules. Modules
// find migrations and workers beside them as they do in the sources, so nothing is bundled. The
// package depends on its own Node: a shell script starts it, so the user's Node does not matter.
// Usage: node scripts/build.ts DIRECTORY; then `npm pack` there.
import { chmod, cp, mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createRequire, isBuiltin } from "node:module";
import { basename, dirname, extname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { buildConsole } from "@highwater/console/build";
import { transform } from "esbuild";
import ROOT_MANIFEST from "../../package.json" with { type: "json" };
import { COMMANDS } from "../src/commands.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const CLI = fileURLToPath(new URL("..", import.meta.url));
/** Folders that modules read at run time. */
const ASSETS = ["packages/store/migrations", "dashboards/grafana"];
/** Where a tracker looks for what it serves at /console. */
const CONSOLE = "services/console/dist";
/** In the code that esbuild writes: of our files and packages, and of all packages. */
const OURS = /"(?<path>\.{1,2}\/[^"\n]*\.(?:ts|json)|@highwater\/[^"\n]+)"/g;
const IMPORTED = /(?:\bfrom|\bimport)\s*\(?\s*"(?<name>@?[a-z][a-z0-9./_-]*)"/g;

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const require = createRequire(join(CLI, "package.json"));

export async function build(directory: string): Promise<void> {
  const out = resolve(directory);
  await rm(out, { recursive: true, force: true });
  const files = await collect(programs());
  const dependencies: Record<string, string> = {};
  const optionalDependencies: Record<string, string> = {};
  for (const { path, text, packages } of files) {
    await write(join(out, "app", path), text);
    const manifest = await manifestOf(path);
    Object.assign(optionalDependencies, manifest.optionalDependencies);
    for (const name of packages) {
      const version = manifest.dependencies?.[name];
      if (version !== undefined) dependencies[name] = version;
      // What is imported on demand may be for the repository alone.
      else if (text.includes(` from "${name}`) && !(name in (manifest.optionalDependencies ?? {})))
        throw new Error(`${path} imports ${name}, which is no dependency of its package`);
    }
  }
  for (const folder of ASSETS) await cp(join(ROOT, folder), join(out, "app", folder), { recursive: true });
  await buildConsole(join(out, "app", CONSOLE));
  const { name, version, license } = await readManifest(join(CLI, "package.json"));
  const published = {
    name,
    version,
    license,
    type: "module",
    description: "The command of Highwater: checks PostgreSQL servers, and runs gateways and trackers.",
    keywords: KEYWORDS,
    bin: { highwater: "bin/highwater" },
    os: ["linux", "darwin"],
    dependencies: sorted({ ...dependencies, node: ROOT_MANIFEST.devDependencies.node }),
    optionalDependencies: sorted(optionalDependencies),
  };
  await write(join(out, "package.json"), `${JSON.stringify(published, null, 2)}\n`);
  await cp(join(CLI, "bin/highwater"), join(out, "bin/highwater"));
  await chmod(join(out, "bin/highwater"), EXECUTABLE);
  await cp(join(ROOT, "LICENSE"), join(out, "LICENSE"));
  await cp(join(CLI, "README.md"), join(out, "README.md"));
}
const EXECUTABLE = 0o755;
const KEYWORDS = ["postgresql", "replication", "durability", "failover", "transactions", "operations"];

/** The files that are started, as paths from the root. */
function programs(): string[] {
  const files = COMMANDS.flatMap(({ run }) => (run.kind === "program" ? [fileURLToPath(run.file())] : []));
  return ["cli/src/main.ts", ...new Set(files.map((file) => relative(ROOT, file)))];
}

interface Built {
  /** From the root. */
  readonly path: string;
  readonly text: string;
  /** Packages that it imports, without ours and Node's. */
  readonly packages: readonly string[];
}

/** These files, and all that they name. */
async function collect(entries: readonly string[]): Promise<Built[]> {
  const queue = new Set(entries);
  const built: Built[] = [];
  // A set that grows while it is read is read to its end.
  for (const path of queue) {
    const source = await readFile(join(ROOT, path), "utf8");
    if (extname(path) !== ".ts") {
      const text = basename(path) === "package.json" ? identityIn(source) : source;
      built.push({ path, text, packages: [] });
      continue;
    }
    const { code } = await transform(source, {
      loader: "ts",
      format: "esm",
      target: "node24",
      sourcefile: path,
    });
    const named: string[] = [];
    const text = code.replaceAll(OURS, (literal, name: string) => {
      const to = name.startsWith(".") ? join(dirname(path), name) : ourFile(name);
      if (to === null) return literal;
      named.push(to);
      return JSON.stringify(asRelative(relative(dirname(path), to)).replace(/\.ts$/, ".js"));
    });
    for (const to of named) if (await isFile(join(ROOT, to))) queue.add(to);
    built.push({ path: path.replace(/\.ts$/, ".js"), text, packages: packagesIn(code) });
  }
  return built;
}

/** What modules read of a manifest. The rest is about sources that the package does not have. */
function identityIn(manifest: string): string {
  const { name, version } = JSON.parse(manifest) as Manifest;
  return `${JSON.stringify({ name, version, type: "module" }, null, 2)}\n`;
}

/** Null: there is no such export, so it is another text. */
function ourFile(name: string): string | null {
  try {
    return relative(ROOT, require.resolve(name));
  } catch {
    return null;
  }
}

function asRelative(path: string): string {
  return path.startsWith(".") ? path : `./${path}`;
}

function packagesIn(code: string): string[] {
  const names = Array.from(code.matchAll(IMPORTED), ({ groups }) => groups?.["name"] ?? "");
  return names
    .filter((name) => !isBuiltin(name) && !name.startsWith("@highwater/"))
    .map((name) => /^(?:@[^/]+\/)?[^/]+/.exec(name)?.[0] ?? name);
}

async function isFile(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isFile(),
    () => false,
  );
}

/** Of the package that a file belongs to. */
async function manifestOf(path: string): Promise<Manifest> {
  for (let folder = dirname(path); folder !== "."; folder = dirname(folder)) {
    const file = join(ROOT, folder, "package.json");
    if (await isFile(file)) return readManifest(file);
  }
  throw new Error(`${path} belongs to no package`);
}

async function readManifest(file: string): Promise<Manifest> {
  return JSON.parse(await readFile(file, "utf8")) as Manifest;
}

async function write(file: string, text: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, text);
}

function sorted(versions: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(versions).sort(([a], [b]) => (a < b ? -1 : 1)));
}

if (import.meta.main) {
  const [directory] = process.argv.slice(2);
  if (directory === undefined) throw new Error("name the directory to build into");
  await build(directory);
}
