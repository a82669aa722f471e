// Server-sent events out of bytes, at any chunking. Socket-free: bytes in, events out. Owns the framing only.

export interface SseEvent {
  readonly type: string;
  readonly data: string;
  /** Last id seen on the stream so far, this event's included. */
  readonly lastEventId: string;
}

/** The longest event that is accepted; a longer one means that the other side is no tracker. */
const MAX_EVENT_CHARS = 16 * 1024 * 1024;

export class SseParser {
  readonly #decoder = new TextDecoder();
  /** A line that is not whole yet. */
  #rest = "";
  #isAfterCr = false;
  #type = "";
  /** Each line of data and what ends it. */
  #data = "";
  #lastEventId: string;

  constructor(lastEventId = "") {
    this.#lastEventId = lastEventId;
  }

  /** The events that these bytes complete. Throws RangeError when an event grows past every bound. */
  push(bytes: Uint8Array): SseEvent[] {
    const events: SseEvent[] = [];
    const text = this.#decoder.decode(bytes, { stream: true });
    if (text === "") return events;
    // A line ends at CR, LF or CRLF, and the pair may be cut in two: the LF of such a pair ends nothing.
    const lines = (this.#rest + (this.#isAfterCr ? text.replace(/^\n/, "") : text)).split(/\r\n|\r|\n/);
    this.#isAfterCr = text.endsWith("\r");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      // Comments (an empty field name), `retry` and fields of the future say nothing to this client.
      const [, field, value = ""] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
      if (field === "event") this.#type = value;
      else if (field === "id" && !value.includes("\0")) this.#lastEventId = value;
      else if (field === "data") this.#data += `${value}\n`;
      if (line !== "") continue;
      const data = this.#data.slice(0, -1);
      if (this.#data) events.push({ type: this.#type || "message", data, lastEventId: this.#lastEventId });
      this.#type = this.#data = "";
    }
    if (this.#rest.length + this.#data.length > MAX_EVENT_CHARS) throw new RangeError("event too long");
    return events;
  }
}
