// What the benchmark says to its subjects, in either language: an order is a line of JSON on their standard input, and is
// answered by one on their standard output.

/** How a subject does what all of them do. */
export type Way = "bare" | "sdk" | "batched";

export type Order =
  /** So many transactions, of which so many are under way at a time. */
  | {
      readonly kind: "commit";
      readonly url: string;
      readonly count: number;
      readonly concurrency: number;
    }
  /** Makes that many promises of the service's tokens, of which none is kept yet, and has each of them waited for. */
  | { readonly kind: "pend"; readonly url: string; readonly count: number }
  /** Has the service send the mark that keeps them all. */
  | { readonly kind: "settle"; readonly url: string };

export interface Committed {
  readonly kind: "committed";
  /** Refused for a conflict with another transaction, and repeated. */
  readonly conflicts: number;
  readonly elapsedMs: number;
  /** Processor time of the whole process. */
  readonly cpuMs: number;
}

export interface Pending {
  readonly kind: "pending";
  /** Of memory, for each promise, once all garbage was collected. */
  readonly bytesEach: number;
}

export interface Settled {
  readonly kind: "settled";
  /** From the moment at which the service wrote the mark until the last promise was kept. */
  readonly elapsedMs: number;
  readonly cpuMs: number;
}

export type Reply = Committed | Pending | Settled | { readonly kind: "failed"; readonly fault: string };

/** What the fixed service says of itself. */
export interface ServiceState {
  /** Streams that are open. */
  readonly streams: number;
  /** Questions about single promises that it had to answer. */
  readonly questions: number;
  /** On the clock that all processes share, when the last mark was written. */
  readonly markedAtNs: string;
}

export const PATHS = {
  commit: "/v1/transactions",
  stream: "/v1/durability/stream",
  tokens: "/bench/tokens",
  mark: "/bench/mark",
  state: "/bench/state",
} as const;
