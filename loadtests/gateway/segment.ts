// One measured segment: clients that each run one transaction after the other for a while, and what
// came of it.
import { quantile } from "../rounds/figures.ts";
import { chooseRow, type Client } from "./workload.ts";

export interface Segment {
  readonly committed: number;
  /**
   * Attempts that were refused for a conflict and repeated; their time counts into the
   * transaction's.
   */
  readonly conflicts: number;
  readonly elapsedMs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** On 10,000 rows a transaction that conflicts so often has another fault. */
const MAX_ATTEMPTS = 50;

export async function runSegment(clients: readonly Client[], durationMs: number): Promise<Segment> {
  const latencies: number[] = [];
  let conflicts = 0;
  const startedMs = performance.now();
  const untilMs = startedMs + durationMs;
  const loop = async (client: Client): Promise<void> => {
    for (let beganMs = performance.now(); beganMs < untilMs; beganMs = performance.now()) {
      const row = chooseRow();
      for (let attempts = 1; !(await client.transact(row)); attempts++) {
        conflicts++;
        if (attempts >= MAX_ATTEMPTS) throw new Error("a transaction conflicts again and again");
      }
      latencies.push(performance.now() - beganMs);
    }
  };
  await Promise.all(clients.map(loop));
  const elapsedMs = performance.now() - startedMs;
  latencies.sort((a, b) => a - b);
  return {
    committed: latencies.length,
    conflicts,
    elapsedMs,
    p50Ms: quantile(latencies, 0.5),
    p99Ms: quantile(latencies, 0.99),
  };
}
