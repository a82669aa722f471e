// What an entry of the published package adds to an application that uses all that it exports, and
// nothing else: the bytes of one minified file, and of the same file packed by gzip. The only place
// that measures them (decision 0043).
import assert from "node:assert/strict";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

export type Size = Readonly<Record<"minified" | "gzip", number>>;

/** The project is a folder in whose node_modules the package is. */
export async function sizesOf(
  project: string,
  entries: readonly string[],
): Promise<Readonly<Record<string, Size>>> {
  const sizes = entries.map(async (entry) => [entry, await sizeOf(project, entry)] as const);
  return Object.fromEntries(await Promise.all(sizes));
}

/** One file: what a bundler would split off is counted as well. */
async function sizeOf(project: string, entry: string): Promise<Size> {
  const { outputFiles } = await build({
    stdin: { contents: `export * from ${JSON.stringify(entry)}`, resolveDir: project },
    ...({ bundle: true, minify: true, format: "esm", target: "es2022", write: false } as const),
    absWorkingDir: project,
  });
  const [file, ...others] = outputFiles;
  assert.deepEqual(others, []);
  const contents = file?.contents ?? new Uint8Array();
  const gzip = gzipSync(contents, { level: 9 }).length;
  assert.ok(gzip > 300, `${entry}: ${String(gzip)} bytes are too few to be the entry`);
  return { minified: contents.length, gzip };
}
