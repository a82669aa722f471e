// Copies data directories: cold from a stopped server, hot from a running one.

import { execFile } from "node:child_process";
import { constants } from "node:fs";
import { chown, copyFile, lstat, mkdir, readdir, readlink, rm, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { type SqlTarget, withClient } from "./sql.ts";
import type { Identity } from "./unprivileged.ts";

const run = promisify(execFile);
const parallelCopies = 8;

/** Folders whose content belongs to the running server. A copy must have them, but empty. */
const contentLeftOut = new Set([
  "pg_dynshmem",
  "pg_notify",
  "pg_replslot",
  "pg_serial",
  "pg_snapshots",
  "pg_stat_tmp",
  "pg_subtrans",
]);
const filesLeftOut = new Set([
  "backup_label",
  "backup_label.old",
  "backup_manifest",
  "postmaster.opts",
  "postmaster.pid",
  "tablespace_map",
]);
const controlFile = path.join("global", "pg_control");

/** `needed`: with the log, so that the copy can start alone. `none`: streaming brings the log. */
export type WalInCopy = "none" | "needed";

/**
 * Copies a stopped server's directory, with its owner; the target must not exist. Uses `cp`, which
 * takes a fifth of the processor time that Node needs for the thousand files of an empty server.
 */
export async function coldCopy(from: string, to: string): Promise<void> {
  await run("cp", ["-a", from, to], { cwd: "/" });
  for (const name of ["postmaster.pid", "postmaster.opts"]) await rm(path.join(to, name), { force: true });
}

/**
 * Copies a running server's directory between pg_backup_start and pg_backup_stop. The target must
 * not exist.
 */
export async function hotCopy(
  source: SqlTarget & { dataDir: string },
  to: string,
  identity: Identity | undefined,
  wal: WalInCopy,
): Promise<void> {
  await withClient(source, {}, async (client) => {
    await client.query("SELECT pg_backup_start('lab-cluster', fast => true)");
    await copyTree(source.dataDir, to, identity, (name) => {
      const base = path.basename(name);
      if (base.startsWith("pgsql_tmp") || base.startsWith("pg_internal.init")) return false;
      return !(
        filesLeftOut.has(name) ||
        contentLeftOut.has(path.dirname(name)) ||
        name.startsWith(`pg_wal${path.sep}`) ||
        name === controlFile
      );
    });
    // Last, as in pg_basebackup: in a copy of a replica it shows how far recovery must go to be
    // consistent.
    await copyOne(path.join(source.dataDir, controlFile), path.join(to, controlFile), identity);
    const { rows } = await client.query<{ labelfile: string; spcmapfile: string }>(
      "SELECT labelfile, spcmapfile FROM pg_backup_stop(wait_for_archive => false)",
    );
    await writeOwned(path.join(to, "backup_label"), rows[0]?.labelfile ?? "", identity);
    const tablespaces = rows[0]?.spcmapfile ?? "";
    if (tablespaces !== "") await writeOwned(path.join(to, "tablespace_map"), tablespaces, identity);
  });
  if (wal === "needed") {
    await copyTree(path.join(source.dataDir, "pg_wal"), path.join(to, "pg_wal"), identity, () => true);
  } else {
    await mkdirOwned(path.join(to, "pg_wal", "archive_status"), identity);
  }
}

/** Files may vanish during the copy: replaying the log corrects that. */
async function copyTree(
  from: string,
  to: string,
  identity: Identity | undefined,
  includes: (relativeName: string) => boolean,
): Promise<void> {
  const files: string[] = [];
  const walk = async (folder: string): Promise<void> => {
    await mkdirOwned(path.join(to, folder), identity);
    const entries = await orIfGone(readdir(path.join(from, folder), { withFileTypes: true }), []);
    const folders: string[] = [];
    for (const entry of entries) {
      const name = path.join(folder, entry.name);
      if (!includes(name)) continue;
      if (entry.isDirectory()) folders.push(name);
      else files.push(name);
    }
    for (const name of folders) await walk(name);
  };
  await walk("");
  const copyRest = async (): Promise<void> => {
    for (let name = files.pop(); name !== undefined; name = files.pop())
      await copyOne(path.join(from, name), path.join(to, name), identity);
  };
  await Promise.all(Array.from({ length: parallelCopies }, copyRest));
}

async function copyOne(from: string, to: string, identity: Identity | undefined): Promise<void> {
  await orIfGone(
    (async () => {
      const stats = await lstat(from);
      if (stats.isSymbolicLink()) {
        await symlink(await readlink(from), to);
      } else if (stats.isFile()) {
        await copyFile(from, to, constants.COPYFILE_FICLONE);
        await chownIfNeeded(to, identity);
      }
    })(),
    undefined,
  );
}

async function orIfGone<T>(work: Promise<T>, otherwise: T): Promise<T> {
  return work.catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return otherwise;
    throw error;
  });
}

async function mkdirOwned(folder: string, identity: Identity | undefined): Promise<void> {
  const first = await mkdir(folder, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  // `first` is the topmost new folder; those below it are new as well.
  for (let made = folder; ; made = path.dirname(made)) {
    await chownIfNeeded(made, identity);
    if (made === first) return;
  }
}

async function writeOwned(file: string, text: string, identity: Identity | undefined): Promise<void> {
  await writeFile(file, text, { mode: 0o600 });
  await chownIfNeeded(file, identity);
}

export async function chownIfNeeded(file: string, identity: Identity | undefined): Promise<void> {
  if (identity) await chown(file, identity.uid, identity.gid);
}
