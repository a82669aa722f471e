// The orders of the benchmark to its subjects, in either language: an order is a line of JSON on
// their standard input, and they answer with a line on their standard output.

/** The client that a subject uses: with defaults, or each transaction in a request of its own. */
export type Way = "bare" | "sdk" | "unshared";

export type Order =
  /** Runs transactions for so long, `concurrency` at a time. */
  | {
      readonly kind: "commit";
      readonly url: string;
      readonly seconds: number;
      readonly concurrency: number;
    }
  /**
   * Makes this many promises of the service's tokens, none of which is kept yet, and waits for each
   * of them.
   */
  | { readonly kind: "pend"; readonly url: string; readonly count: number }
  /** Makes the service send the mark that keeps them all. */
  | { readonly kind: "settle"; readonly url: string };

export interface Committed {
  readonly kind: "committed";
  readonly committed: number;
  /** Refused for a conflict with another transaction, and repeated. */
  readonly conflicts: number;
  readonly elapsedMs: number;
  /** Processor time of the whole process. */
  readonly cpuMs: number;
}

export interface Pending {
  readonly kind: "pending";
  /** Bytes of memory for each promise, after all garbage was collected. */
  readonly bytesEach: number;
}

export interface Settled {
  readonly kind: "settled";
  /** From the moment at which the service wrote the mark until the last promise was kept. */
  readonly elapsedMs: number;
  readonly cpuMs: number;
}

export type Reply = Committed | Pending | Settled | { readonly kind: "failed"; readonly fault: string };

/** The fixed service's report about itself. */
export interface ServiceState {
  /** Streams that are open. */
  readonly streams: number;
  /** Questions about single promises that it answered. */
  readonly questions: number;
  /** The time when the last mark was written, on the clock that all processes share. */
  readonly markedAtNs: string;
}

export const PATHS = {
  commit: "/v1/transactions",
  stream: "/v1/durability/stream",
  tokens: "/bench/tokens",
  mark: "/bench/mark",
  state: "/bench/state",
} as const;
