// Removes what the image does not need from its `node_modules`. `npm ci --omit=dev` leaves packages
// that only tests use, if another workspace of the lock file uses them in production. So this keeps
// the packages that the named folders depend on, and removes all others. It also removes what only
// compilers and editors read: declarations of types and source maps.
import { existsSync, readdirSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { dirname, join, relative } from "node:path";

type Names = Readonly<Record<string, unknown>>;

interface Manifest {
  readonly dependencies?: Names;
  readonly optionalDependencies?: Names;
  readonly peerDependencies?: Names;
}

/**
 * The real paths of these folders, and of the installed packages that they need. Errors: one is
 * missing.
 */
export function neededFolders(root: string, folders: readonly string[]): Set<string> {
  const queue = new Set(folders.map((folder) => realpathSync(join(root, folder))));
  // A set that grows while it is read is read to its end.
  for (const folder of queue) {
    const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;
    const { dependencies = {}, optionalDependencies = {}, peerDependencies = {} } = manifest;
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies })) {
      const found = findPackage(name, folder, root);
      if (found !== null) queue.add(realpathSync(found));
      else if (name in dependencies && !(name in optionalDependencies))
        throw new Error(`${relative(root, folder)} needs ${name}, which is not installed`);
    }
  }
  return queue;
}

/** As Node finds a package: in the nearest `node_modules`. */
function findPackage(name: string, from: string, root: string): string | null {
  for (let folder = from; ; folder = dirname(folder)) {
    const path = join(folder, "node_modules", name);
    if (existsSync(path)) return path;
    if (folder === root) return null;
  }
}

function prune(root: string, folders: readonly string[]): void {
  const needed = neededFolders(root, folders);
  const lock = readFileSync(join(root, "node_modules/.package-lock.json"), "utf8");
  const { packages } = JSON.parse(lock) as { readonly packages: Names };
  for (const path of Object.keys(packages)) {
    const installed = join(root, path);
    if (!path.includes("node_modules/")) continue;
    if (!existsSync(installed) || !needed.has(realpathSync(installed)))
      rmSync(installed, { recursive: true, force: true });
  }
  for (const name of readdirSync(join(root, "node_modules")))
    if (name.startsWith("@") && readdirSync(join(root, "node_modules", name)).length === 0)
      rmSync(join(root, "node_modules", name), { recursive: true });
  for (const entry of readdirSync(join(root, "node_modules"), { recursive: true, withFileTypes: true }))
    if (entry.isFile() && /\.(?:d\.[cm]?ts|map)$/.test(entry.name))
      rmSync(join(entry.parentPath, entry.name));
}

if (import.meta.main) {
  const folders = process.argv.slice(2);
  if (folders.length === 0) throw new Error("usage: prune.ts FOLDER… (in the root of the installation)");
  prune(process.cwd(), folders);
}
