// Loaded into each process that runs a test file: has it load TypeBox from a bundle. The package's
// 683 modules are more than half of all that such a process loads, and took a fifth of a second of
// processor or more in each of hundreds.
import { mkdirSync, readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const NAME = "typebox";
/** Where the run's bundle is. */
export const PACKAGES = "HIGHWATER_TEST_PACKAGES";

const manifest = JSON.parse(
  readFileSync(join(import.meta.dirname, "..", "node_modules", NAME, "package.json"), "utf8"),
) as { exports: Readonly<Record<string, unknown>> };
/**
 * Files of the bundle by what imports name: all entries, so that the package's state is there once.
 */
const entries = new Map(
  Object.keys(manifest.exports).map((entry) => [entry.replace(".", NAME), entry.slice(2) || "index"]),
);

const folder = process.env[PACKAGES];
if (folder !== undefined)
  registerHooks({
    resolve(specifier, context, nextResolve) {
      const file = entries.get(specifier);
      if (file === undefined) return nextResolve(specifier, context);
      return { url: pathToFileURL(join(folder, `${file}.mjs`)).href, format: "module", shortCircuit: true };
    },
  });

/** Writes the bundle below the folder, and returns where it is. */
export async function bundlePackages(below: string): Promise<string> {
  const { build } = await import("esbuild");
  // Tools that ask for the path take it for what it is.
  const outdir = join(below, "node_modules", NAME);
  mkdirSync(outdir, { recursive: true });
  await build({
    entryPoints: Object.fromEntries([...entries].map(([specifier, file]) => [file, specifier])),
    absWorkingDir: import.meta.dirname,
    outdir,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    splitting: true,
    keepNames: true,
    platform: "node",
    format: "esm",
    target: "node24",
    logLevel: "warning",
  });
  return outdir;
}
