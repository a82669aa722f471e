// What a tracker takes while nothing is pending: it goes on looking at three nodes, now and then.
import { setTimeout as pause } from "node:timers/promises";
import { cpuOf, cpuOfBackends, spentBetween } from "../rounds/cpu.ts";
import type { BenchSystem } from "./bench-system.ts";

export interface Idle {
  readonly seconds: number;
  /** Shares of one core. */
  readonly tracker_cpu_core: number | null;
  /** The primary's backends that it asks. */
  readonly asked_backends_cpu_core: number | null;
}

export async function measureIdle(
  system: BenchSystem,
  tracker: { readonly name: string; readonly pid: number | undefined },
  durationMs: number,
): Promise<Idle> {
  const backends = await system.backendsOf(tracker.name);
  const read = { tracker: cpuOf(tracker.pid), backends: cpuOfBackends(backends) };
  await pause(durationMs);
  const core = (ms: number | null): number | null => (ms === null ? null : ms / durationMs);
  return {
    seconds: durationMs / 1_000,
    tracker_cpu_core: core(spentBetween(read.tracker, cpuOf(tracker.pid))),
    asked_backends_cpu_core: core(spentBetween(read.backends, cpuOfBackends(backends))),
  };
}
