// What the machine did while something was measured: the processor time of each process that takes
// part, that of everybody else, and what the host kept for itself. Unknown on other systems than
// Linux.
import { type Spent, spentBetween } from "./cpu.ts";
import { pids, readProc, statOf, TICK_MS } from "../proc.ts";

/** A measurement with more foreign load, in cores, or a greater share of steal is disturbed. */
export const FOREIGN_CORES_MAX = 0.1;
export const STEAL_MAX = 0.05;
/** The parent of the kernel's own threads, which work for all processes. */
const KTHREADD = 2;

/** The processes that take part, by what they are, and how each is read. */
export type ProcessorTimes = Readonly<Record<string, () => Spent>>;

export interface Reading {
  readonly atMs: number;
  readonly parts: Readonly<Record<string, Spent>>;
  readonly foreignMs: number;
  readonly stolenTicks: number;
  readonly allTicks: number;
}

export interface Machine {
  readonly seconds: number;
  /** Cores that each part kept busy. */
  readonly cores: Readonly<Record<string, number>>;
  /** Cores that processes kept busy that this process did not start. */
  readonly foreign_cores: number;
  /** Share of all processor time that the host gave to other machines. */
  readonly steal: number;
}

/** `root`: the process whose descendants, and which itself, are not foreign. */
export function readMachine(parts: ProcessorTimes, root = process.pid): Reading {
  const [stolenTicks, allTicks] = hostTicks();
  return {
    atMs: performance.now(),
    parts: Object.fromEntries(Object.entries(parts).map(([name, read]) => [name, read()])),
    foreignMs: foreignMs(root),
    stolenTicks,
    allTicks,
  };
}

export function machineBetween(before: Reading, after: Reading): Machine {
  const elapsedMs = after.atMs - before.atMs;
  const cores = Object.entries(after.parts).map(([name, spent]): [string, number] => [
    name,
    (spentBetween(before.parts[name] ?? new Map(), spent) ?? 0) / elapsedMs,
  ]);
  const ticks = after.allTicks - before.allTicks;
  return {
    seconds: elapsedMs / 1_000,
    cores: Object.fromEntries(cores),
    foreign_cores: Math.max(0, after.foreignMs - before.foreignMs) / elapsedMs,
    steal: ticks === 0 ? 0 : (after.stolenTicks - before.stolenTicks) / ticks,
  };
}

/** Runs it, and reads what the machine did meanwhile. */
export async function measured<T>(
  parts: ProcessorTimes,
  run: () => Promise<T>,
): Promise<{ readonly result: T; readonly machine: Machine }> {
  const before = readMachine(parts);
  const result = await run();
  return { result, machine: machineBetween(before, readMachine(parts)) };
}

export function isDisturbed({ foreign_cores, steal }: Machine): boolean {
  return foreign_cores > FOREIGN_CORES_MAX || steal > STEAL_MAX;
}

/**
 * Of all processes that do not descend from this one. The time of one that ends goes to the parent
 * that waits for it, and is counted there.
 */
function foreignMs(root: number): number {
  const parents = new Map<number, number>();
  const spent = new Map<number, number>();
  for (const pid of pids()) {
    const fields = statOf(pid);
    if (fields === null) continue;
    parents.set(pid, Number(fields[1]));
    spent.set(
      pid,
      fields.slice(11, 15).reduce((sum, ticks) => sum + TICK_MS * Number(ticks), 0),
    );
  }
  const isForeign = (pid: number): boolean => {
    for (let at = pid; at > 0; at = parents.get(at) ?? 0) if (at === root || at === KTHREADD) return false;
    return true;
  };
  return [...spent].reduce((sum, [pid, ms]) => (isForeign(pid) ? sum + ms : sum), 0);
}

/** Stolen, and in all. */
function hostTicks(): [number, number] {
  const first = readProc("stat")?.split("\n")[0] ?? "";
  // user, nice, system, idle, iowait, irq, softirq, steal; guests' time is in the first two.
  const ticks = first.split(/ +/).slice(1, 9).map(Number);
  return [ticks[7] ?? 0, ticks.reduce((sum, each) => sum + each, 0)];
}
