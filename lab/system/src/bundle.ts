// Bundles a program into one file. A service loads more than a thousand modules, which takes two
// thirds of the processor time of its start, and the tests start hundreds of services. `make demo`,
// `make up` and the image start services from their sources.
import { existsSync } from "node:fs";
import { mkdir, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const FOLDER = process.env["HIGHWATER_SERVICE_BUNDLES"];
/** CommonJS packages in the bundle load Node's modules by `require`. */
const REQUIRE =
  'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);';
const bundles = new Map<string, Promise<string>>();

/**
 * The file to start: the program's source, or its bundle if HIGHWATER_SERVICE_BUNDLES names a
 * folder for bundles.
 */
export function programFile(main: URL): Promise<string> {
  const source = fileURLToPath(main);
  if (FOLDER === undefined) return Promise.resolve(source);
  const bundle = bundles.get(source) ?? makeBundle(source, FOLDER);
  bundles.set(source, bundle);
  return bundle;
}

async function makeBundle(source: string, folder: string): Promise<string> {
  const file = join(folder, `${source.replaceAll(/[^a-zA-Z0-9]+/g, "-")}.mjs`);
  // Made in this run: sources do not change while tests run.
  if (existsSync(file)) return file;
  const { build } = await import("esbuild");
  await mkdir(folder, { recursive: true });
  const own = `${file}.${String(process.pid)}`;
  await build({
    entryPoints: [source],
    outfile: own,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node24",
    keepNames: true,
    banner: { js: REQUIRE },
    logLevel: "warning",
    plugins: [
      {
        name: "files beside a module",
        setup: (plugin) => {
          // Modules find workers and migrations relative to their own place.
          plugin.onLoad({ filter: /\.ts$/ }, async ({ path }) => ({
            contents: (await readFile(path, "utf8")).replaceAll(
              "import.meta.url",
              JSON.stringify(pathToFileURL(path).href),
            ),
            loader: "ts",
          }));
        },
      },
    ],
  });
  await rename(own, file);
  return file;
}
