// The time window of ids. Receipts are kept by the time inside the id, so an id outside of the
// window has no protection.
import { HighwaterError, type TxnId, txnTimestampMs } from "@highwater/protocol";

export interface IdWindow {
  /** The server's clock. Null: it is not known, and the store decides. */
  readonly nowMs: number | null;
  readonly retentionMs: number;
  readonly futureMs: number;
}

/** Throws `id_expired` or `id_out_of_window`. */
export function checkIdWindow(id: TxnId, { nowMs, retentionMs, futureMs }: IdWindow): void {
  if (nowMs === null) return;
  const at = txnTimestampMs(id);
  if (at < nowMs - retentionMs)
    throw new HighwaterError("id_expired", {
      detail:
        "The id is older than the time for which receipts are kept, so the service cannot know whether it was used.",
      transactionId: id,
    });
  if (at > nowMs + futureMs)
    throw new HighwaterError("id_out_of_window", {
      detail: `The time inside the id is ${String(Math.round((at - nowMs) / 1000))} s ahead of the server's clock; use a new id.`,
      transactionId: id,
    });
}
