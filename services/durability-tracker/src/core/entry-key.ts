import { type EpochId, type OwnedId } from "@highwater/protocol";

/** Identifies an attempt in the ledger. */
export function entryKey({ id, owner }: OwnedId, attempt: EpochId): string {
  return owner === 0n ? `${id}/${attempt}` : `${id}/${attempt}/${owner.toString(10)}`;
}
