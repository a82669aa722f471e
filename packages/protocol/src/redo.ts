// How trackers learn who redoes a lost transaction. It travels among the metadata of the
// announcement, so every ledger keeps it with the transaction, and leaves as a field of its own.
type Metadata = Readonly<Record<string, string>>;

/** Gateways refuse it in requests. */
export const REDO_NAME = "highwater.redo";
const SERVICE = "service";

export function withRedo(metadata: Metadata | undefined): Metadata {
  return { ...metadata, [REDO_NAME]: SERVICE };
}

/** The fields of an event for the metadata that a tracker keeps. */
export function withoutRedo(kept: Metadata | null): { metadata?: Record<string, string>; redo?: "service" } {
  if (kept === null) return {};
  const { [REDO_NAME]: redo, ...metadata } = kept;
  return {
    ...(redo === undefined || Object.keys(metadata).length > 0 ? { metadata } : {}),
    ...(redo === SERVICE && { redo: SERVICE }),
  };
}
