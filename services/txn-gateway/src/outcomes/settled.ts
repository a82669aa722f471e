// The meaning of a receipt for its transaction, and the answer to a client when it did not commit.
import { type EpochId, HighwaterError, type Offset, type TxnId } from "@highwater/protocol";
import { type ReceiptKey, type ReceiptsAsOf, type ReceiptState } from "@highwater/store";
import { RETRY_MS } from "../retry.ts";

export type Settled =
  | {
      readonly kind: "committed";
      /** The epoch that the receipt names. */
      readonly attempt: EpochId;
      /**
       * An upper bound, read after the receipt was; `epoch` differs from `attempt` after a
       * failover.
       */
      readonly epoch: EpochId;
      readonly offset: Offset;
      /**
       * No earlier position of it is known here: marks may have passed its commit for long, and not
       * this offset.
       */
      readonly isFirst: boolean;
      readonly digest: bigint;
    }
  | {
      /**
       * A tombstone says so. It is at or below the offset in the epoch, and as safe as what is
       * there.
       */
      readonly kind: "aborted" | "lost";
      readonly epoch: EpochId;
      readonly offset: Offset;
      /** Lost, and another transaction has brought it back. */
      readonly isRedone?: boolean;
    }
  | { readonly kind: "absent" | "held" | "expired" | "out_of_window" };

/** The answer to each of the keys that were asked for. */
export function settledOf(keys: readonly ReceiptKey[], found: ReceiptsAsOf): (key: ReceiptKey) => Settled {
  const states = new Map(keys.map((key, at) => [key, found.receipts[at]]));
  return (key) => settledAs(states.get(key), found);
}

function settledAs(receipt: ReceiptState | undefined, found: ReceiptsAsOf): Settled {
  if (receipt === undefined) return { kind: "absent" };
  if (receipt.kind === "aborted" || receipt.kind === "lost")
    return {
      kind: receipt.kind,
      epoch: found.epoch,
      offset: found.asOf,
      isRedone: receipt.isRedone === true,
    };
  if (receipt.kind !== "commit") return { kind: receipt.kind };
  const { epoch: attempt, digest } = receipt;
  return { kind: "committed", attempt, epoch: found.epoch, offset: found.asOf, isFirst: true, digest };
}

/** The answer to a request under an id that is settled, and not as committed. */
export function refusalOf(settled: Exclude<Settled, { kind: "committed" }>, id: TxnId): HighwaterError {
  switch (settled.kind) {
    case "aborted":
      return new HighwaterError("transaction_aborted", { transactionId: id });
    case "lost":
      return new HighwaterError("transaction_lost", {
        transactionId: id,
        redo: settled.isRedone === true ? "service" : undefined,
      });
    case "expired":
      return new HighwaterError("id_expired", { transactionId: id });
    case "out_of_window":
      return new HighwaterError("id_out_of_window", { transactionId: id });
    case "held":
      return new HighwaterError("transaction_in_progress", {
        transactionId: id,
        retryAfterMs: RETRY_MS.held,
      });
    case "absent":
      // The receipt that refused the request is gone: a failover took it back in between.
      return new HighwaterError("epoch_changed", { transactionId: id, retryAfterMs: RETRY_MS.atOnce });
  }
}
