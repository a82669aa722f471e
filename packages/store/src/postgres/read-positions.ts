// Finds the position of a read-only transaction: not above the log's end at the first look at an
// equal snapshot.
import { type EpochId, type Offset } from "@highwater/protocol";

interface Seen {
  readonly epoch: EpochId;
  readonly snapshot: string;
  readonly offset: Offset;
}

/**
 * The end of the log bounds what a snapshot shows, but much that lies below is nothing that it
 * shows: an open bulk load, a vacuum, a checkpoint. Two equal snapshots (the same transactions
 * finished, the same still running) show the same, so the lowest end that was read behind one of
 * them bounds them all. A committed and visible transaction has its commit record below that end,
 * because the record is written before the transaction leaves the list of those that run.
 */
export class ReadPositions {
  #seen: Seen | null = null;

  /** `offset`: the end of the log, read behind the snapshot on a server in `epoch`. */
  tighten(read: Seen): Offset {
    const seen = this.#seen;
    if (seen?.epoch === read.epoch && seen.snapshot === read.snapshot && seen.offset <= read.offset)
      return seen.offset;
    this.#seen = read;
    return read.offset;
  }
}
