// What the store keeps about contents of transactions: that they were read, and the marks of
// erasures. The contents themselves are with the trackers.
import { type Act } from "./audit.ts";
import { type ReceiptKey } from "./port.ts";

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

export interface RecordedReplay {
  readonly owner: bigint;
  readonly ids: readonly string[];
}

/** Each call rejects when the node cannot be asked in time. */
export interface ContentsStore {
  /** Enters the reading into the audit log. */
  recordRead(node: string, read: ReadContents, act: Act): Promise<void>;
  /** Keeps the mark, and enters it into the audit log. */
  erase(node: string, erasure: ContentsErasure, act: Act): Promise<void>;
  /** Enters into the audit log that these lost transactions are to be brought back. */
  recordReplay(node: string, replay: RecordedReplay, act: Act): Promise<void>;
  /** By place: the id of the transaction that has brought it back, or null. */
  redone(node: string, roots: readonly ReceiptKey[]): Promise<readonly (string | null)[]>;
  readErasures(node: string): Promise<readonly ContentsErasure[]>;
  close(): void;
}
