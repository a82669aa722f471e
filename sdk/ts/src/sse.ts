// Parses server-sent events. No I/O: lines in, events out. Owns the framing only.

export interface SseEvent {
  readonly type: string;
  readonly data: string;
  /** Last id on the stream so far, including this event's. */
  readonly lastEventId: string;
}

/** Longest accepted event. A longer one means that the other side is not a tracker. */
export const EVENT_CHARS_MAX = 16 * 1024 * 1024;

/**
 * Creates a parser, which takes the lines of a stream one by one and returns the event that a line
 * completes. It throws RangeError if an event exceeds the limit.
 */
export function sseParser(lastEventId = ""): (line: string) => SseEvent | undefined {
  let type = "";
  /** The lines of data so far, each with a line end. */
  let data = "";
  return (line) => {
    // Comments (an empty field name), `retry` and unknown fields are ignored.
    const [, field, value = ""] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
    if (field === "event") type = value;
    else if (field === "id" && !value.includes("\0")) lastEventId = value;
    else if (field === "data") data += `${value}\n`;
    if (data.length > EVENT_CHARS_MAX) throw new RangeError("line too long");
    if (line !== "") return undefined;
    const event = { type: type || "message", data: data.slice(0, -1), lastEventId };
    const isEvent = data !== "";
    type = data = "";
    return isEvent ? event : undefined;
  };
}
