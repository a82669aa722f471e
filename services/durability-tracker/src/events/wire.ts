// Events and the places between them as the wire carries them.
import { type DurabilityEvent, type DurabilityEventType } from "@highwater/protocol";
import { type EventPlace, type RecordedEvent } from "@highwater/store";

const PLACE = /^(0|[1-9][0-9]{0,15})\.(0|[1-9][0-9]{0,15})$/;

export function formatPlace({ seq, n }: EventPlace): string {
  return `${String(seq)}.${String(n)}`;
}

/** Null when the text is no place. */
export function parsePlace(text: string): EventPlace | null {
  const [, seq, n] = PLACE.exec(text) ?? [];
  if (seq === undefined || n === undefined) return null;
  const place = { seq: Number(seq), n: Number(n) };
  return Number.isSafeInteger(place.seq) && Number.isSafeInteger(place.n) ? place : null;
}

export type WireEvent = Omit<DurabilityEvent, "type"> & { readonly type: DurabilityEventType };

export function wireEvent(event: RecordedEvent): WireEvent {
  const at = new Date(event.atMs).toISOString();
  return { id: formatPlace(event), type: event.type, at, data: event.data as DurabilityEvent["data"] };
}
