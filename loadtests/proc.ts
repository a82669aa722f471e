// What Linux says of its processes in /proc; nothing on other systems.
import { readdirSync, readFileSync } from "node:fs";

/** Of USER_HZ, which is 100 on every Linux that Node runs on. */
export const TICK_MS = 10;

export function pids(): number[] {
  try {
    return readdirSync("/proc").map(Number).filter(Number.isInteger);
  } catch {
    return [];
  }
}

/** The fields of its `stat` behind the name, which may hold blanks: state, parent, ... */
export function statOf(pid: number): string[] | null {
  const text = readProc(`${String(pid)}/stat`);
  return text === null ? null : text.slice(text.lastIndexOf(")") + 2).split(" ");
}

/** Null where there is no such file, or none any more. */
export function readProc(path: string): string | null {
  try {
    return readFileSync(`/proc/${path}`, "latin1");
  } catch {
    return null;
  }
}
