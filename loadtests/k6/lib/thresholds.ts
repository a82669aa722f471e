// The limits as k6's thresholds: one that is crossed makes k6 end with exit code 99.
import { LIMITS } from "./settings.ts";

/** What no run may violate, however it is loaded. */
export function promises(): Record<string, string[]> {
  return {
    broken: ["count==0"],
    unsettled: ["count==0"],
    lost: [`count<=${String(LIMITS.lostMax)}`],
    failed: [`rate<=${String(LIMITS.errorRateMax)}`],
    // Without any commit all latencies would be within their limits.
    committed: ["count>0"],
  };
}

/** Where there is no limit, one that is always met. */
export function p95Within(limitMs: number | null): string[] {
  return [limitMs === null ? "max>=0" : `p(95)<${String(limitMs)}`];
}

/**
 * With the latencies of a service that is not overloaded. Of one scenario, if its name is given.
 */
export function healthy(scenario?: string): Record<string, string[]> {
  const of = scenario === undefined ? "" : `{scenario:${scenario}}`;
  return {
    ...promises(),
    [`commit_latency${of}`]: p95Within(LIMITS.commitP95Ms),
    [`durable_latency${of}`]: p95Within(LIMITS.durableP95Ms),
    [`safe_latency${of}`]: p95Within(LIMITS.durableP95Ms),
  };
}

/** A threshold that is always met: k6 keeps figures by scenario only for what has one. */
export function observed(scenario: string): Record<string, string[]> {
  const metrics = ["commit_latency", "durable_latency", "durability_gap", "safe_latency", "read_latency"];
  return {
    ...Object.fromEntries(metrics.map((metric) => [`${metric}{scenario:${scenario}}`, ["max>=0"]])),
    [`committed{scenario:${scenario}}`]: ["count>=0"],
    [`dropped_iterations{scenario:${scenario}}`]: ["count>=0"],
  };
}

/** All together; of two that are about the same figure the later one counts. */
export function merged(all: readonly Record<string, string[]>[]): Record<string, string[]> {
  return Object.fromEntries(all.flatMap((each) => Object.entries(each)));
}
