// The TypeScript SDK beside k6, which has none: bursts of fast commits, in turns with a request for
// each transaction and with shared requests (decision 0213). They are entries in k6's own table,
// and are compared with it like k6's.
import { setTimeout as pause } from "node:timers/promises";
import { Highwater, type HighwaterOptions, newTransactionId, sql } from "@highwater/sdk";
import type { ReportedVerdict } from "./reported.ts";

/** Transactions that begin together: only such share a request. */
const BURST = 4;
const PAUSE_MS = 250;
const DURABLE_LIMIT_MS = 30_000;
const WAYS = { unshared: { shareRequests: false }, shared: {} } as const;
type Way = keyof typeof WAYS;

/** What is written beside the summary of k6. */
export interface SharingFigures {
  readonly committed: number;
  readonly failed: number;
  readonly unshared_p50_ms: number | null;
  readonly unshared_p95_ms: number | null;
  readonly shared_p50_ms: number | null;
  readonly shared_p95_ms: number | null;
}

export class SharingLoad {
  readonly #stopping = new AbortController();
  readonly #working: Promise<void>;
  readonly #tookMs: Record<Way, number[]> = { unshared: [], shared: [] };
  readonly #reported: ReportedVerdict[] = [];
  #failed = 0;

  constructor(endpoints: NonNullable<HighwaterOptions["endpoints"]>) {
    this.#working = this.#work(endpoints);
  }

  async #work(endpoints: NonNullable<HighwaterOptions["endpoints"]>): Promise<void> {
    await using unshared = new Highwater({ endpoints, ...WAYS.unshared });
    await using shared = new Highwater({ endpoints, ...WAYS.shared });
    const clients = { unshared, shared };
    while (!this.#stopping.signal.aborted)
      for (const way of ["unshared", "shared"] as const) {
        await Promise.all(Array.from({ length: BURST }, () => this.#commit(clients[way], way)));
        await pause(PAUSE_MS);
      }
  }

  async #commit(client: Highwater, way: Way): Promise<void> {
    const id = newTransactionId();
    const startedMs = performance.now();
    try {
      const entry = sql`INSERT INTO load_entry (id, account, cents) VALUES (${id}, 1, 1)`;
      const transaction = await client.transaction([entry], { id });
      this.#tookMs[way].push(performance.now() - startedMs);
      await transaction.durable({ timeoutMs: DURABLE_LIMIT_MS });
      this.#reported.push({ id, verdict: "durable" });
    } catch (cause) {
      this.#failed++;
      console.error(`a commit of the SDK failed (${way}):`, cause);
    }
  }

  /** What was answered, for the comparison with the table. */
  async stop(): Promise<{
    readonly figures: SharingFigures;
    readonly reported: readonly ReportedVerdict[];
  }> {
    this.#stopping.abort();
    await this.#working;
    const of = (way: Way, share: number): number | null => {
      const sorted = this.#tookMs[way].toSorted((one, other) => one - other);
      return sorted[Math.floor(share * sorted.length)] ?? null;
    };
    const figures = {
      committed: this.#reported.length,
      failed: this.#failed,
      unshared_p50_ms: of("unshared", 0.5),
      unshared_p95_ms: of("unshared", 0.95),
      shared_p50_ms: of("shared", 0.5),
      shared_p95_ms: of("shared", 0.95),
    };
    return { figures, reported: this.#reported };
  }
}

/** Prints the row, and answers whether every commit became durable. Its latency has no limit. */
export function judgeSharing(figures: SharingFigures): boolean {
  const { committed, failed } = figures;
  const isGood = committed > 0 && failed === 0;
  const ms = (value: number | null): string => value?.toFixed(1) ?? "-";
  console.log(
    `sdk: ${String(committed)} fast commits, p50 ${ms(figures.unshared_p50_ms)}, p95 ${ms(figures.unshared_p95_ms)} ms with a request each, p50 ${ms(figures.shared_p50_ms)}, p95 ${ms(figures.shared_p95_ms)} ms with shared requests, ${String(failed)} failed: ${isGood ? "met" : "MISSED"}`,
  );
  return isGood;
}
