// Process trees. Each PostgreSQL backend leads its own group, so backends are found by their
// parents.

import { execFile } from "node:child_process";
import { readFile, readdir } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

interface ProcessEntry {
  pid: number;
  parent: number;
  isZombie: boolean;
}

/** Every process of the machine. Asynchronous, because the relays share this event loop. */
async function listProcesses(): Promise<ProcessEntry[]> {
  if (process.platform !== "linux") return listWithPs();
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const entries = await Promise.all(pids.map((pid) => readStat(Number(pid))));
  return entries.filter((entry) => entry !== undefined);
}

async function readStat(pid: number): Promise<ProcessEntry | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  // The second field is the command in parentheses, and may itself contain blanks and parentheses.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return { pid, parent: Number(fields[1]), isZombie: fields[0] === "Z" || fields[0] === "X" };
}

function listWithPs(): Promise<ProcessEntry[]> {
  return new Promise((resolve, reject) => {
    execFile("ps", ["-A", "-o", "pid=,ppid=,stat="], (error, stdout) => {
      if (error) return reject(new Error("ps failed", { cause: error }));
      const rows = stdout.trim().split("\n");
      resolve(
        rows.map((row) => {
          const [pid, parent, state] = row.trim().split(/\s+/);
          return { pid: Number(pid), parent: Number(parent), isZombie: state?.startsWith("Z") ?? false };
        }),
      );
    });
  });
}

/** The living descendants of a process, without itself. */
export async function descendants(root: number): Promise<number[]> {
  const entries = await listProcesses();
  const found: number[] = [];
  const parents = new Set([root]);
  for (let grew = true; grew;) {
    grew = false;
    for (const entry of entries) {
      if (entry.isZombie || parents.has(entry.pid) || !parents.has(entry.parent)) continue;
      parents.add(entry.pid);
      found.push(entry.pid);
      grew = true;
    }
  }
  return found;
}

/** True while the process exists and is not a zombie. */
export async function isAlive(pid: number): Promise<boolean> {
  if (process.platform === "linux") {
    const entry = await readStat(pid);
    return entry !== undefined && !entry.isZombie;
  }
  return (await listProcesses()).some((entry) => entry.pid === pid && !entry.isZombie);
}

/** Processes whose command line contains the text; none where there is no /proc. */
export async function processesNaming(text: string): Promise<number[]> {
  const pids = (await readdir("/proc").catch(() => [])).filter((name) => /^\d+$/.test(name)).map(Number);
  const lines = await Promise.all(
    pids.map((pid) => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")),
  );
  return pids.filter((pid, index) => pid !== process.pid && lines[index]?.includes(text));
}

export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/** Waits until all have ended; false if the limit was over first. */
export async function waitGone(pids: readonly number[], limitMs: number): Promise<boolean> {
  const deadline = performance.now() + limitMs;
  let left = [...pids];
  for (;;) {
    const alive = await Promise.all(left.map(isAlive));
    left = left.filter((_, index) => alive[index]);
    if (left.length === 0) return true;
    if (performance.now() > deadline) return false;
    await sleep(5);
  }
}

/**
 * Kills a process and all its descendants at once. The root is stopped first, so that it neither
 * starts another child nor notices the death of one.
 */
export async function killTree(root: number): Promise<number[]> {
  signal(root, "SIGSTOP");
  const pids = [root, ...(await descendants(root))];
  for (const pid of pids) signal(pid, "SIGKILL");
  return pids;
}

export async function signalTree(root: number, name: "SIGSTOP" | "SIGCONT"): Promise<void> {
  if (name === "SIGSTOP") {
    signal(root, name);
    for (const pid of await descendants(root)) signal(pid, name);
  } else {
    for (const pid of await descendants(root)) signal(pid, name);
    signal(root, name);
  }
}
