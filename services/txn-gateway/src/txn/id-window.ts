// In which time window an id must lie: receipts are kept by the time inside the id, so an id outside has no protection.
import { HighwaterError, type TxnId, txnTimestampMs } from "@highwater/protocol";

export interface IdWindow {
  /** The server's clock. */
  readonly nowMs: number;
  readonly retentionMs: number;
  readonly futureMs: number;
}

/** Throws `id_expired` or `id_out_of_window`. */
export function checkIdWindow(id: TxnId, window: IdWindow): void {
  const at = txnTimestampMs(id);
  if (at < window.nowMs - window.retentionMs)
    throw new HighwaterError("id_expired", {
      detail: "The id is older than receipts are kept, so nobody can tell whether it has been used.",
      transactionId: id,
    });
  if (at > window.nowMs + window.futureMs)
    throw new HighwaterError("id_out_of_window", {
      detail: `The time inside the id is ${String(Math.round((at - window.nowMs) / 1000))} s ahead of the server's clock.`,
      transactionId: id,
    });
}
