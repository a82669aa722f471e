// PostgreSQL's log sequence numbers as offsets.
import { type Offset } from "@highwater/protocol";

const PAGE = 8192n;
const SHORT_HEADER = 24n;
const LONG_HEADER = 40n;

/** `16/B374D848` as an offset in bytes. */
export function parseLsn(text: string): Offset {
  const [high, low] = text.split("/");
  if (high === undefined || low === undefined) throw new Error(`not an LSN: ${text}`);
  return ((BigInt(`0x${high}`) << 32n) | BigInt(`0x${low}`)) as Offset;
}

/**
 * As PostgreSQL 15 to 18 print it, without zeros before the halves. PostgreSQL 19 pads the second
 * half to eight digits; every version reads both forms.
 */
export function formatLsn(offset: Offset): string {
  return `${(offset >> 32n).toString(16).toUpperCase()}/${(offset & 0xffffffffn).toString(16).toUpperCase()}`;
}

/**
 * The end of the log that an insert position stands for.
 * When the log ends exactly at a page's end, PostgreSQL reports the insert position after the next
 * page's header, which no flush reaches until something more is written. A token there waited 13.7
 * s on an idle server, and a read-only one was called lost after a clean switchover. A record that
 * continues on a page fills at least 8 bytes after the header, so a position right after it can
 * only mean the boundary. (xlog.c, XLogBytePosToRecPtr)
 */
export function endOfLog(insertPosition: Offset, segmentBytes: bigint): Offset {
  const inSegment = insertPosition % segmentBytes;
  if (inSegment === LONG_HEADER) return (insertPosition - LONG_HEADER) as Offset;
  if (inSegment > PAGE && insertPosition % PAGE === SHORT_HEADER)
    return (insertPosition - SHORT_HEADER) as Offset;
  return insertPosition;
}
