// Who redoes a lost transaction, and how trackers learn it. That travels among the metadata of the
// announcement, so every ledger keeps it with the transaction, and leaves as a field of its own.
import Type from "typebox";

export const OnLost = Type.Literal("replay", {
  description:
    "`replay`: if a failover loses the transaction, the gateways bring it back before they admit writes, and its client must not run it again. Implies `keep`. Has no effect with `ack: durable`, because such a client learns of the loss itself.",
});

export const Redo = Type.Literal("service", {
  description:
    "The service brings the lost transaction back, as its request or its API key asked with `onLost: replay`. Do not run it again.",
});

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
