// Load on the PostgreSQL wire beside k6, which does not speak its protocol: safe commits, as
// entries in k6's own table. They are compared with it like k6's.
import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";
import type { ReportedVerdict } from "./reported.ts";

const CLIENTS = 4;
const PAUSE_MS = 200;
const SAFE_P95_MS = 250;
const ENTRY = "INSERT INTO load_entry (id, account, cents) VALUES ($1, 1, 1)";

/** What is written beside the summary of k6. */
export interface WireFigures {
  readonly committed: number;
  readonly failed: number;
  readonly safe_p50_ms: number | null;
  readonly safe_p95_ms: number | null;
}

export class WireLoad {
  readonly #stopping = new AbortController();
  readonly #workers: Promise<void>[];
  readonly #tookMs: number[] = [];
  readonly #reported: ReportedVerdict[] = [];
  #failed = 0;

  constructor(url: string) {
    this.#workers = Array.from({ length: CLIENTS }, () => this.#work(url));
  }

  async #work(url: string): Promise<void> {
    const client = new pg.Client({ connectionString: url });
    client.on("error", () => undefined);
    try {
      await client.connect();
      while (!this.#stopping.signal.aborted) {
        const id = randomUUID();
        const startedMs = performance.now();
        await client.query(ENTRY, [id]);
        this.#tookMs.push(performance.now() - startedMs);
        this.#reported.push({ id, verdict: "durable" });
        await pause(PAUSE_MS);
      }
    } catch (cause) {
      this.#failed++;
      console.error("a client of the PostgreSQL wire failed:", cause);
    } finally {
      await client.end().catch(() => undefined);
    }
  }

  /** What was answered, for the comparison with the table. */
  async stop(): Promise<{ readonly figures: WireFigures; readonly reported: readonly ReportedVerdict[] }> {
    this.#stopping.abort();
    await Promise.all(this.#workers);
    const sorted = this.#tookMs.toSorted((a, b) => a - b);
    const of = (share: number): number | null => sorted[Math.floor(share * sorted.length)] ?? null;
    const figures = {
      committed: sorted.length,
      failed: this.#failed,
      safe_p50_ms: of(0.5),
      safe_p95_ms: of(0.95),
    };
    return { figures, reported: this.#reported };
  }
}

/** Prints the row, and answers whether it is as it should be. `limit`: of its p95, or `none`. */
export function judgeWire(figures: WireFigures, limit: string | undefined): boolean {
  const limitMs = limit === "none" ? null : Number(limit ?? SAFE_P95_MS);
  const { committed, failed, safe_p50_ms: p50, safe_p95_ms: p95 } = figures;
  const isGood = committed > 0 && failed === 0 && (limitMs === null || (p95 !== null && p95 < limitMs));
  const ms = (value: number | null): string => value?.toFixed(1) ?? "-";
  console.log(
    `wire: ${String(committed)} safe commits, p50 ${ms(p50)}, p95 ${ms(p95)} ms, ${String(failed)} clients failed: ${isGood ? "met" : "MISSED"}`,
  );
  return isGood;
}
