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
  #line = "";
  #afterCr = false;
  #type = "";
  #data: string[] = [];
  #dataChars = 0;
  #lastEventId: string;

  constructor(lastEventId = "") {
    this.#lastEventId = lastEventId;
  }

  /** The events that these bytes complete. Throws RangeError when an event grows past every bound. */
  push(bytes: Uint8Array): SseEvent[] {
    let text = this.#decoder.decode(bytes, { stream: true });
    const events: SseEvent[] = [];
    if (text === "") return events;
    // A line ends at CR, LF or CRLF, and the pair may be cut in two: the LF of such a pair ends nothing.
    if (this.#afterCr && text.startsWith("\n")) text = text.slice(1);
    this.#afterCr = text.endsWith("\r");
    const lines = text.split(/\r\n|\r|\n/);
    const rest = lines.pop() ?? "";
    for (const part of lines) {
      const event = this.#takeLine(this.#line + part);
      this.#line = "";
      if (event !== undefined) events.push(event);
    }
    this.#line += rest;
    if (this.#line.length + this.#dataChars > MAX_EVENT_CHARS) throw new RangeError("the event is too long");
    return events;
  }

  #takeLine(line: string): SseEvent | undefined {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "event") this.#type = value;
    else if (field === "id" && !value.includes("\0")) this.#lastEventId = value;
    else if (field === "data") {
      this.#data.push(value);
      this.#dataChars += value.length;
    }
    // Comments (an empty field name), `retry` and fields of the future say nothing to this client.
    return undefined;
  }

  #dispatch(): SseEvent | undefined {
    const data = this.#data;
    const type = this.#type;
    this.#data = [];
    this.#dataChars = 0;
    this.#type = "";
    if (data.length === 0) return undefined;
    return { type: type === "" ? "message" : type, data: data.join("\n"), lastEventId: this.#lastEventId };
  }
}
