// For several tests: finds what a cluster may have left behind.

import { mkdtemp, chmod, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

/** A folder for temporary files of other programs, in which every user may write. */
export async function makeTempParent(): Promise<AsyncDisposable & { dir: string }> {
  const dir = await mkdtemp(path.join(tmpdir(), "lab-cluster-test-"));
  await chmod(dir, 0o777);
  return { dir, [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }) };
}

/** Processes with the folder in the command line: supervisors, postmasters, initdb. Linux only. */
export async function processesUsing(dir: string): Promise<number[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
  const found = await Promise.all(
    pids.map(async (pid) => {
      const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
      return command.includes(dir) ? [pid] : [];
    }),
  );
  return found.flat();
}

export const packageDir = path.dirname(import.meta.dirname);
