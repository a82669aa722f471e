// Keeps the position of each receipt as this gateway first learned it: when it committed the
// transaction, or when it first looked the receipt up. A receipt does not contain its position. A
// position that is read again for each question rises with the log, so that no mark reaches it
// while the log is busy. Tombstones are receipts, too. Owns no verdict.
import { type EpochId, type Offset } from "@highwater/protocol";
import { type ReceiptKey } from "@highwater/store";
import { type Settled } from "./settled.ts";

interface Known {
  /**
   * The epoch that the receipt names, or what a tombstone says: that one can give way to a commit.
   */
  readonly attempt: EpochId | "aborted" | "lost";
  /** Of the offset, an upper bound of the receipt's position. */
  readonly epoch: EpochId;
  readonly offset: Offset;
}

/**
 * Some 200 bytes each, and at most twice as many. Of older ones the position is read again, once.
 */
const KEPT_MIN = 50_000;

export class KnownPositions {
  /** By tag, which only one owner's id has. */
  #newer = new Map<string, Known>();
  /** Dropped as a whole: to find and delete the oldest entry of one large Map takes 35 µs. */
  #older: ReadonlyMap<string, Known> = new Map();

  note({ tag }: Pick<ReceiptKey, "tag">, known: Known): void {
    if (this.#newer.size >= KEPT_MIN) {
      this.#older = this.#newer;
      this.#newer = new Map();
    }
    this.#newer.set(tag, known);
  }

  /** What was found, at the lowest position that is known of the same receipt in the same epoch. */
  lowest(key: Pick<ReceiptKey, "tag">, found: Settled): Settled {
    if (!("epoch" in found)) return found;
    const { epoch } = found;
    const attempt = found.kind === "committed" ? found.attempt : found.kind;
    const known = this.#newer.get(key.tag) ?? this.#older.get(key.tag);
    if (known?.attempt === attempt && known.epoch === epoch)
      return { ...found, offset: known.offset, ...(found.kind === "committed" && { isFirst: false }) };
    this.note(key, { attempt, epoch, offset: found.offset });
    return found;
  }
}
