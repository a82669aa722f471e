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

export interface ReplayedRows {
  /** Replays from before it count as old. */
  readonly since: string;
  /** The `xmin` of each row. */
  readonly writers: readonly string[];
}

export interface ReplayTurn {
  readonly epoch: string;
  readonly gateway: string;
  readonly turnMs: number;
  /** A turn that has ended is left to others for so long. */
  readonly patienceMs: number;
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
  /** The lost transactions whose replays wrote the rows, and have committed. */
  rootsBehind(node: string, rows: ReplayedRows): Promise<readonly ReceiptKey[]>;
  /**
   * Takes the turn to bring lost transactions back before the epoch's writes, or keeps it, for so
   * long. Returns the epochs, the newest first, in which no write can have been admitted; null if
   * another gateway has the turn, or nothing is held any more.
   */
  takeTurn(node: string, turn: ReplayTurn): Promise<readonly string[] | null>;
  /** Gateways admit the writes of the epoch from now on. */
  endHold(node: string, epoch: string): Promise<void>;
  readErasures(node: string): Promise<readonly ContentsErasure[]>;
  close(): void;
}
