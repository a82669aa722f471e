// The lease as a process last read it, and the interface of its reader.
import { type Candidates } from "./candidates.ts";

/**
 * One holder's uninterrupted hold of the lease; `revision` grows with every new hold, the same
 * holder's included.
 */
export interface LeaseTerm {
  readonly node: string;
  readonly revision: string;
}

/**
 * The newest answer. Times are this process's own, of the moment at which the question was sent.
 */
export type LeaseView =
  | { readonly kind: "unread" }
  | { readonly kind: "free"; readonly askedAtMs: number }
  | {
      readonly kind: "held";
      readonly term: LeaseTerm;
      readonly askedAtMs: number;
      /** Until then no other node can hold it, unless it is given up or taken away. */
      readonly validUntilMs: number;
    };

export interface LeaseSource {
  readonly view: LeaseView;
  /** Why the newest question has no answer; null when it has one. */
  readonly failure: string | null;
  /**
   * Reads again and again from now on, and calls back whenever the view or the failure may have
   * changed.
   */
  start(onChange: () => void): void;
  stop(): void;
  /** Reads now. */
  wake(): void;
  /** True when the term still held at some moment after this call. Never rejects. */
  confirm(term: LeaseTerm): Promise<boolean>;
  /**
   * The same, and who might have been promoted at that moment; null where `confirm` says false.
   * Never rejects.
   */
  candidates(term: LeaseTerm): Promise<Candidates | null>;
}
