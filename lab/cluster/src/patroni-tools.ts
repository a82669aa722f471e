// Finds what a Patroni cluster needs on this machine: Patroni with its Python, and a full
// PostgreSQL installation.

import { constants, existsSync } from "node:fs";
import { access, readdir } from "node:fs/promises";
import path from "node:path";
import { namedBinDir } from "./binaries.ts";
import { venvDir } from "./etcd.ts";
import type { MemberTools } from "./patroni-member.ts";
import { canReach, chooseIdentity, type Identity } from "./unprivileged.ts";

export interface Tools extends MemberTools {
  readonly binDir: string;
}

/** The tools, or a text that says what is missing. */
export async function findTools(): Promise<Tools | string> {
  const identity = await chooseIdentity(process.env["HIGHWATER_PG_USER"]);
  const lib = path.join(venvDir, "lib");
  const [version] = await readdir(lib).catch(() => []);
  const sitePackages = path.join(lib, version ?? "", "site-packages");
  const patroni = path.join(sitePackages, "patroni");
  if (version === undefined || !existsSync(patroni))
    return "there is no Patroni: run `make .venv/.installed`";
  if (!(await canReach(patroni, identity, constants.X_OK)))
    return `the servers' user cannot enter ${sitePackages}: clone to a folder that every user can enter`;
  // A virtual environment's Python is a link to its creator's Python, which the servers' user may
  // not reach.
  const pythons = [path.join(venvDir, "bin", version), `/usr/bin/${version}`, `/usr/local/bin/${version}`];
  const python = await firstReachable(pythons, identity);
  if (python === undefined) return `the servers' user cannot run ${version}`;
  const named = namedBinDir();
  // A named installation is the only one that counts: a report names its version.
  const binDirs = named === undefined ? await installedBinDirs() : [named];
  const tool = await firstReachable(
    binDirs.map((dir) => path.join(dir, "pg_basebackup")),
    identity,
  );
  if (tool === undefined)
    return `the servers' user can run no pg_basebackup in ${binDirs.join(", ") || "/usr/lib/postgresql"}: HIGHWATER_PG_BIN names the bin folder of a full PostgreSQL installation`;
  return { identity, python, sitePackages, binDir: path.dirname(tool) };
}

/** Those of the distribution, newest first. */
async function installedBinDirs(): Promise<string[]> {
  const majors = await readdir("/usr/lib/postgresql").catch(() => []);
  return majors.sort((a, b) => Number(b) - Number(a)).map((major) => `/usr/lib/postgresql/${major}/bin`);
}

async function firstReachable(
  files: readonly string[],
  identity: Identity | undefined,
): Promise<string | undefined> {
  for (const file of files) {
    const exists = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (exists && (await canReach(file, identity, constants.X_OK))) return file;
  }
  return undefined;
}
