// The lease as a process last read it, and the interface of its reader.
import { type Candidates } from "./candidates.ts";

/**
 * One uninterrupted hold of the lease by one node. Every new hold has a higher `revision`, even by
 * the same node.
 */
export interface LeaseTerm {
  readonly node: string;
  readonly revision: string;
}

/**
 * The newest reading. Times are on this process's clock, at the moment when the question was sent.
 */
export type LeaseView =
  | { readonly kind: "unread" }
  | { readonly kind: "free"; readonly askedAtMs: number }
  | {
      readonly kind: "held";
      readonly term: LeaseTerm;
      readonly askedAtMs: number;
      /**
       * Until then no other node can hold the lease, unless the holder gives it up or etcd revokes
       * it.
       */
      readonly validUntilMs: number;
    };

export interface LeaseSource {
  readonly view: LeaseView;
  /** Why the newest question has no answer; null when it has one. */
  readonly failure: string | null;
  /** Begins to read in a loop, and calls back whenever the view or the failure may have changed. */
  start(onChange: () => void): void;
  stop(): void;
  /** Reads at once. */
  wake(): void;
  /** True when the term still held at some moment after this call. Never rejects. */
  confirm(term: LeaseTerm): Promise<boolean>;
  /**
   * Like `confirm`, and returns the nodes that might have been promoted at that moment; null where
   * `confirm` returns false. Never rejects.
   */
  candidates(term: LeaseTerm): Promise<Candidates | null>;
}
