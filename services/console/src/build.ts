// Bundles the console's page into a folder: what a tracker serves at /console.
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { build } from "esbuild";

const PAGE = fileURLToPath(new URL("./page", import.meta.url));
const CONSOLE_FOLDER = fileURLToPath(new URL("../dist", import.meta.url));
const pack = promisify(gzip);

/** Each is there at once or not at all: a tracker may read while they are written. */
export async function buildConsole(folder = CONSOLE_FOLDER): Promise<void> {
  await mkdir(folder, { recursive: true });
  const { outputFiles } = await build({
    entryPoints: { app: join(PAGE, "main.tsx") },
    outdir: folder,
    write: false,
    bundle: true,
    minify: true,
    format: "esm",
    target: ["chrome120", "firefox121", "safari17.4"],
    jsx: "automatic",
    jsxImportSource: "preact",
    logLevel: "warning",
  });
  for (const { path, contents } of outputFiles) await place(path, contents);
  for (const name of ["index.html", "icon.svg"])
    await place(join(folder, name), await readFile(join(PAGE, name)));
}

async function place(path: string, contents: Uint8Array): Promise<void> {
  for (const [name, bytes] of [
    [path, contents],
    [`${path}.gz`, await pack(contents, { level: 9 })],
  ] as const) {
    const unfinished = `${name}.${String(process.pid)}`;
    await writeFile(unfinished, bytes);
    await rename(unfinished, name);
  }
}
