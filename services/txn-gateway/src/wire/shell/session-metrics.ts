// Counts and times one session's commits, its reads, and its waits for `highwater.after`.
import { type Metrics } from "../../metrics.ts";
import { type Gate } from "../model/hold-queue.ts";

export type WireMetrics = Pick<Metrics, "commit" | "reads" | "refusals" | "wireAfter" | "wireAnswers">;

export interface SessionMetricsOptions {
  readonly metrics: WireMetrics;
  readonly nowMs: () => number;
}

interface Commit {
  readonly sentMs: number;
  /** Answered at the commit point. */
  readonly isEarly: boolean;
  readonly hasReceipt: boolean;
  /** As the session asks for it. */
  readonly ack: "commit" | "durable";
}

export class SessionMetrics {
  readonly #options: SessionMetricsOptions;
  /** By the gate of the answer. */
  readonly #commits = new Map<Gate, Commit>();
  #awaitsSinceMs: number | null = null;

  constructor(options: SessionMetricsOptions) {
    this.#options = options;
  }

  /** A transaction has committed, and its answer waits. */
  committed(gate: Gate, commit: Commit): void {
    if (!gate.isCommit) return;
    this.#commits.set(gate, commit);
    const { isEarly, hasReceipt, ack } = commit;
    const without = ack === "commit" ? "unreceipted" : "held";
    this.#options.metrics.wireAnswers.add(isEarly ? "commit" : hasReceipt ? "receipted" : without);
  }

  /** An answer goes out before its commit is durable. */
  released(): void {
    this.#options.metrics.wireAnswers.add("released");
  }

  answered(gate: Gate): void {
    const commit = this.#commits.get(gate);
    if (commit === undefined) return;
    this.#commits.delete(gate);
    const { metrics, nowMs } = this.#options;
    const seconds = (nowMs() - commit.sentMs) / 1_000;
    metrics.commit.at(commit.isEarly ? "commit" : "durable", "unknown", "write", "wire").observe(seconds);
  }

  /** A transaction on the read port has ended. */
  read(served: "replica" | "primary"): void {
    this.#options.metrics.reads.add(served);
  }

  /** A wait begins, or goes on. */
  awaits(): void {
    this.#awaitsSinceMs ??= this.#options.nowMs();
  }

  arrived(isRefused: boolean): void {
    const { metrics, nowMs } = this.#options;
    const sinceMs = this.#awaitsSinceMs ?? nowMs();
    this.#awaitsSinceMs = null;
    metrics.wireAfter.at(isRefused ? "refused" : "arrived").observe((nowMs() - sinceMs) / 1_000);
  }
}
