// Measures the process itself: processor time, memory, and the delay of the event loop.
import { monitorEventLoopDelay, performance } from "node:perf_hooks";
import { certificateExpiresMs } from "../settings/tls.ts";
import { PROCESS } from "./catalogue/index.ts";
import { type MetricSet } from "./registry.ts";

export interface ServiceIdentity {
  readonly service: "txn-gateway" | "durability-tracker";
  readonly name: string;
  readonly region: string;
}

interface ProcessParts {
  readonly identity: ServiceIdentity;
  /** The certificate that it serves; null without TLS. */
  readonly certificate: string | null;
}

const DELAY_RESOLUTION_MS = 20;
const NANOSECONDS = 1e9;
const MICROSECONDS = 1e6;
const QUANTILES = { "0.5": 50, "0.99": 99, "1": 100 } as const;

export function registerProcess(metrics: MetricSet, { identity, certificate }: ProcessParts): void {
  metrics.read(PROCESS.info, () => [{ labels: { ...identity }, value: 1 }]);
  metrics.read(PROCESS.started, () => performance.timeOrigin / 1_000);
  metrics.read(PROCESS.cpu, () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / MICROSECONDS;
  });
  metrics.read(PROCESS.memory, () => process.memoryUsage.rss());
  metrics.read(PROCESS.heap, () => process.memoryUsage().heapUsed);
  metrics.read(PROCESS.loopActive, () => performance.eventLoopUtilization().active / 1_000);
  if (certificate !== null) {
    const expiresMs = certificateExpiresMs(certificate);
    metrics.read(PROCESS.certificateExpires, () => expiresMs / 1_000);
  }
  const delay = monitorEventLoopDelay({ resolution: DELAY_RESOLUTION_MS });
  delay.enable();
  metrics.read(PROCESS.loopDelay, () => {
    const samples = Object.entries(QUANTILES).map(([quantile, percentile]) => ({
      labels: { quantile },
      // The histogram measures the whole time between two of its timers.
      value: Math.max(0, delay.percentile(percentile) / NANOSECONDS - DELAY_RESOLUTION_MS / 1_000),
    }));
    delay.reset();
    return samples;
  });
}
