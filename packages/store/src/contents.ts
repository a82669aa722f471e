// What the store keeps about contents of transactions: that they were read, and the marks of
// erasures. The contents themselves are with the trackers.
import { type Act } from "./audit.ts";

export interface ContentsErasure {
  readonly owner: bigint;
  /** Contents of transactions whose ids carry a time up to this are refused. */
  readonly throughMs: number;
}

export interface ReadContents {
  readonly owner: bigint;
  readonly id: string;
  readonly attempt: string;
}

/** Each call rejects when the node cannot be asked in time. */
export interface ContentsStore {
  /** Enters the reading into the audit log. */
  recordRead(node: string, read: ReadContents, act: Act): Promise<void>;
  /** Keeps the mark, and enters it into the audit log. */
  erase(node: string, erasure: ContentsErasure, act: Act): Promise<void>;
  readErasures(node: string): Promise<readonly ContentsErasure[]>;
  close(): void;
}
