// Processor time of processes, as Linux counts it; elsewhere it stays unknown.
import { readdirSync, readFileSync } from "node:fs";

/** Of USER_HZ, which is 100 on every Linux that Node runs on. */
const TICK_MS = 10;

interface Stat {
  readonly parent: number;
  readonly ownMs: number;
  /** Of children that have ended and were waited for. */
  readonly childrenMs: number;
}

function readStat(pid: number): Stat | null {
  try {
    const text = readFileSync(`/proc/${String(pid)}/stat`, "latin1");
    // The name before it may hold blanks.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    const at = (index: number): number => Number(fields[index]);
    return { parent: at(1), ownMs: TICK_MS * (at(11) + at(12)), childrenMs: TICK_MS * (at(13) + at(14)) };
  } catch {
    return null;
  }
}

/** Null where it cannot be told. */
export function cpuOf(pid: number | undefined): number | null {
  return pid === undefined ? null : (readStat(pid)?.ownMs ?? null);
}

/** A server and its backends, those that have ended included. */
export function cpuOfServer(postmaster: number): number | null {
  const server = readStat(postmaster);
  if (server === null) return null;
  return readdirSync("/proc")
    .filter((name) => /^[0-9]+$/.test(name))
    .map((name) => readStat(Number(name)))
    .filter((stat) => stat?.parent === postmaster)
    .reduce((sum, stat) => sum + (stat?.ownMs ?? 0), server.ownMs + server.childrenMs);
}
