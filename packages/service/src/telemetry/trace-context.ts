// The ids of a span and its trace, and the `traceparent` header that carries them (W3C Trace
// Context, version 00).

export interface SpanContext {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** 16 hexadecimal digits. */
  readonly spanId: string;
  readonly isSampled: boolean;
}

/** A later version begins the same way and may have more fields after the flags. */
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$/;
const SAMPLED = 1;
const HEX = 16;

/**
 * Undefined if the text is not a trace context. The trace then begins here, and the request goes
 * on.
 */
export function parseTraceparent(text: unknown): SpanContext | undefined {
  if (typeof text !== "string") return undefined;
  const [, traceId = "", spanId = "", flags = ""] = TRACEPARENT.exec(text) ?? [];
  if (traceId === "" || /^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, isSampled: (parseInt(flags, HEX) & SAMPLED) !== 0 };
}

export function formatTraceparent({ traceId, spanId, isSampled }: SpanContext): string {
  return `00-${traceId}-${spanId}-${isSampled ? "01" : "00"}`;
}

const WORD_DIGITS = 8;
const WORD_VALUES = 2 ** 32;

/** `random`: evenly distributed in [0, 1). */
export function randomHex(digits: number, random: () => number): string {
  let text = "";
  while (text.length < digits)
    text += Math.floor(random() * WORD_VALUES)
      .toString(HEX)
      .padStart(WORD_DIGITS, "0");
  // An id of only zeros is invalid.
  return /[^0]/.test(text) ? text : `${text.slice(1)}1`;
}
