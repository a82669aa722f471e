// The processes of one PostgreSQL server, for faults that limit, stop or read them from outside.
import { readdir, readFile } from "node:fs/promises";
import { type World } from "./world.ts";

export interface ServerProcesses {
  readonly postmaster: number;
  readonly children: readonly number[];
}

export async function serverProcesses(world: World, node: string): Promise<ServerProcesses> {
  const { dataDir } = world.node(node);
  const postmaster = Number.parseInt(await readFile(`${dataDir}/postmaster.pid`, "utf8"), 10);
  return { postmaster, children: await childrenOf(postmaster) };
}

async function childrenOf(root: number): Promise<number[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    pids.map(async (pid) => {
      const status = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
      const parent = status.slice(status.lastIndexOf(")") + 2).split(" ")[1];
      return Number(parent) === root ? [Number(pid)] : [];
    }),
  );
  return found.flat();
}

/** A process that has ended in the meantime is no error. */
export function signalAll(pids: readonly number[], signal: "SIGSTOP" | "SIGCONT"): void {
  for (const pid of pids) {
    try {
      process.kill(pid, signal);
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code !== "ESRCH") throw cause;
    }
  }
}
