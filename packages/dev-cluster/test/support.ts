// What several tests need: waiting for a condition, and finding what a cluster might have left behind.

import { mkdtemp, chmod, readdir, readFile, rm } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const limitMsDefault = 30_000;

/** Polls until the condition holds (answers neither false nor undefined); its last error is the cause. */
export async function eventually<T>(
  what: string,
  condition: () => Promise<T | false | undefined> | T | false | undefined,
  limitMs = limitMsDefault,
): Promise<T> {
  const deadline = performance.now() + limitMs;
  for (;;) {
    let cause: unknown;
    try {
      const value = await condition();
      if (value !== false && value !== undefined) return value;
    } catch (error) {
      cause = error;
    }
    if (performance.now() > deadline) throw new Error(`not within ${limitMs} ms: ${what}`, { cause });
    await sleep(20);
  }
}

/** A folder for other programs' temporary files that every user may enter and write. */
export async function makeTempParent(): Promise<AsyncDisposable & { dir: string }> {
  const dir = await mkdtemp("/tmp/dev-cluster-test-");
  await chmod(dir, 0o777);
  return { dir, [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }) };
}

/** Processes that name the folder in their command line: supervisors, postmasters, initdb. Linux only. */
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
