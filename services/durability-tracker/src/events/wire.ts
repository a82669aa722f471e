// Events and cursors on the wire. Owns cursors, which name their history.
import { type DurabilityEvent, type DurabilityEventType } from "@highwater/protocol";
import {
  type EventPosition,
  FIRST_POSITION,
  type HistoryPosition,
  type RecordedEvent,
} from "@highwater/store";

/** A place as a client names it. */
export interface Cursor extends EventPosition {
  /**
   * The id of the epoch with this number, or how it begins: a client names no more of it. Empty:
   * below every event.
   */
  readonly epoch: string;
}

export const FIRST_CURSOR: Cursor = Object.freeze({ ...FIRST_POSITION, epoch: "" });

const FIRST_TEXT = "0.0";
/**
 * Siblings have equal numbers and random ids: these digits of two of them are equal once in four
 * thousand million times.
 */
const EPOCH_CHARS = 8;
const CURSOR = /^([1-9][0-9]{0,15})\.(0|[1-9][0-9]{0,15})\.([0-9a-f]{8})$/;

export function cursorAt({ epoch, seq, n }: HistoryPosition): Cursor {
  return { epoch: epoch ?? "", seq, n };
}

export function formatCursor({ epoch, seq, n }: Cursor): string {
  return seq === 0 ? FIRST_TEXT : `${String(seq)}.${String(n)}.${epoch.slice(0, EPOCH_CHARS)}`;
}

/** Null when the text is no cursor. */
export function parseCursor(text: string): Cursor | null {
  if (text === FIRST_TEXT) return FIRST_CURSOR;
  const [, seq, n, epoch] = CURSOR.exec(text) ?? [];
  if (seq === undefined || n === undefined || epoch === undefined) return null;
  const cursor = { epoch, seq: Number(seq), n: Number(n) };
  return Number.isSafeInteger(cursor.seq) && Number.isSafeInteger(cursor.n) ? cursor : null;
}

export function eventId(event: HistoryPosition): string {
  return formatCursor(cursorAt(event));
}

export type WireEvent = Omit<DurabilityEvent, "type"> & { readonly type: DurabilityEventType };

export function wireEvent(event: RecordedEvent): WireEvent {
  const at = new Date(event.atMs).toISOString();
  return { id: eventId(event), type: event.type, at, data: event.data as DurabilityEvent["data"] };
}
