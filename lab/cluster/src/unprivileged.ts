// PostgreSQL refuses to run as root. Chooses the user as which it runs, and a folder that the user
// can reach.

import { execFile } from "node:child_process";
import { constants, type Stats } from "node:fs";
import { chmod, chown, mkdtemp, readFile, realpath, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { DevClusterError } from "./errors.ts";

export interface Identity {
  uid: number;
  gid: number;
}

/**
 * The servers' user; `undefined`: the current one. For root it is `nobody`, or the one in
 * HIGHWATER_PG_USER: a user name, `uid` or `uid:gid`.
 */
export async function chooseIdentity(wanted: string | undefined): Promise<Identity | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const name = wanted ?? "nobody";
  const numeric = /^(\d+)(?::(\d+))?$/.exec(name);
  if (numeric) {
    const uid = Number(numeric[1]);
    return refuseRoot({ uid, gid: numeric[2] === undefined ? uid : Number(numeric[2]) });
  }
  const found = await lookUpUser(name);
  if (found) return refuseRoot(found);
  if (wanted === undefined) return { uid: 65534, gid: 65534 };
  throw new DevClusterError("BAD_OPTION", `HIGHWATER_PG_USER names an unknown user: ${name}`);
}

function refuseRoot(identity: Identity): Identity {
  if (identity.uid !== 0) return identity;
  throw new DevClusterError("BAD_OPTION", "PostgreSQL cannot run as root: name another user");
}

async function lookUpUser(name: string): Promise<Identity | undefined> {
  const lines = (await readFile("/etc/passwd", "utf8").catch(() => "")).split("\n");
  const fields = lines.map((line) => line.split(":")).find((line) => line[0] === name);
  if (fields) return { uid: Number(fields[2]), gid: Number(fields[3]) };
  // `id` also knows users that are not in /etc/passwd, and macOS's `nobody`, which is -2.
  const ask = (flag: string): Promise<string> =>
    new Promise((resolve) => execFile("id", [flag, name], (_error, stdout) => resolve(stdout.trim())));
  const [uid, gid] = await Promise.all([ask("-u"), ask("-g")]);
  return /^\d+$/.test(uid) && /^\d+$/.test(gid) ? { uid: Number(uid), gid: Number(gid) } : undefined;
}

/**
 * True if the identity may enter every folder on the way and has the right (R_OK, X_OK) at the end.
 */
export async function canReach(
  file: string,
  identity: Identity | undefined,
  right: number,
): Promise<boolean> {
  if (identity === undefined) return true;
  let current: string;
  try {
    current = await realpath(file);
    if (!hasRight(await stat(current), identity, right)) return false;
    while (path.dirname(current) !== current) {
      current = path.dirname(current);
      if (!hasRight(await stat(current), identity, constants.X_OK)) return false;
    }
    return true;
  } catch {
    return false;
  }
}

function hasRight(stats: Stats, identity: Identity, right: number): boolean {
  const shift = stats.uid === identity.uid ? 6 : stats.gid === identity.gid ? 3 : 0;
  return ((stats.mode >> shift) & right) === right;
}

/** Makes the cluster's folder where the identity can use it, and makes the identity its owner. */
export async function makeClusterDir(identity: Identity | undefined): Promise<string> {
  const candidates = [tmpdir(), "/tmp", "/var/tmp"];
  for (const parent of candidates) {
    if (!(await canReach(parent, identity, constants.X_OK))) continue;
    const dir = await realpath(await mkdtemp(path.join(parent, "highwater-cluster-")));
    await chmod(dir, 0o700);
    if (identity) await chown(dir, identity.uid, identity.gid);
    return dir;
  }
  throw new DevClusterError(
    "BAD_STATE",
    `no temporary folder that uid ${identity?.uid} can enter: tried ${candidates.join(", ")}`,
  );
}
