// CockroachDB's commit timestamps as offsets: nanoseconds since 1970 and a counter of ten digits,
// without the point between them.
import { type Offset } from "@highwater/protocol";

const COUNTER_DIGITS = 10;
const NANOS_PER_MICRO = "000";

const NANOS_PER_MS = 1_000_000n;
const COUNTS = 10n ** BigInt(COUNTER_DIGITS);

/** The offset of the beginning of that millisecond. */
export function offsetAtMs(wallMs: number): Offset {
  return (BigInt(Math.floor(wallMs)) * NANOS_PER_MS * COUNTS) as Offset;
}

export function wallMsOf(offset: Offset): number {
  return Number(offset / COUNTS / NANOS_PER_MS);
}

/** As the server writes it, and takes it in AS OF SYSTEM TIME. */
export function formatHlc(offset: Offset): string {
  return `${String(offset / COUNTS)}.${String(offset % COUNTS).padStart(COUNTER_DIGITS, "0")}`;
}

/** Throws for text that is not a timestamp: a wrong one would pass for a position. */
export function parseHlc(text: string): Offset {
  const [, wall, counter = ""] = /^(\d{1,20})(?:\.(\d{1,10}))?$/.exec(text) ?? [];
  if (wall === undefined) throw new Error(`not a commit timestamp: ${text}`);
  return BigInt(wall + counter.padEnd(COUNTER_DIGITS, "0")) as Offset;
}

/**
 * A time of day in UTC, with up to six digits of a second. The server has cut off the rest, so the
 * offset is a lower bound. It is read from the text, because a float would round it up.
 */
export function parseTime(text: string): Offset {
  const [, day, time, fraction = ""] =
    /^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?\+00(?::?00)?$/.exec(text) ?? [];
  const ms = Date.parse(`${String(day)}T${String(time)}Z`);
  if (Number.isNaN(ms)) throw new Error(`not a time in UTC: ${text}`);
  const micros = `${String(ms / 1_000)}${fraction.padEnd(6, "0")}`;
  return BigInt(micros + NANOS_PER_MICRO + "0".repeat(COUNTER_DIGITS)) as Offset;
}
