// Processor time of processes, as Linux counts it; unknown on other systems.
import { pids, readProc, statOf, TICK_MS } from "../proc.ts";

const NS_PER_MS = 1e6;

/** The time that processes have spent so far, by their ids; empty where it is unknown. */
export type Spent = ReadonlyMap<number, number>;

/** Of a process with all its threads, in whole ticks. */
export function cpuOf(pid: number | undefined): Spent {
  const fields = pid === undefined ? null : statOf(pid);
  if (pid === undefined || fields === null) return new Map();
  return new Map([[pid, TICK_MS * (Number(fields[11]) + Number(fields[12]))]]);
}

/**
 * Of a server and its backends, each a single thread. The unit is nanoseconds: in ticks, 64 young
 * backends that have spent less than a tick each would seem to have spent nothing.
 */
export function cpuOfServer(postmaster: number): Spent {
  return cpuOfBackends(pids().filter((pid) => pid === postmaster || Number(statOf(pid)?.[1]) === postmaster));
}

/** Of what a process has started, each with all its threads, in whole ticks. */
export function cpuOfChildren(parent: number): Spent {
  return new Map(pids().flatMap((pid) => (Number(statOf(pid)?.[1]) === parent ? [...cpuOf(pid)] : [])));
}

/** Of single-threaded processes, such as a server's backends, in nanoseconds as above. */
export function cpuOfBackends(pids: readonly number[]): Spent {
  const spent = new Map<number, number>();
  for (const pid of pids) {
    const text = readProc(`${String(pid)}/schedstat`);
    if (text !== null) spent.set(pid, Number(text.split(" ")[0]) / NS_PER_MS);
  }
  return spent;
}

/**
 * Milliseconds from one reading to the next; the time of a process that ended in between is
 * unknown.
 */
export function spentBetween(before: Spent, after: Spent): number | null {
  if (after.size === 0) return null;
  return [...after].reduce((sum, [pid, ms]) => sum + ms - (before.get(pid) ?? 0), 0);
}
