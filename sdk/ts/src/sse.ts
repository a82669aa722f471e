// Parses server-sent events from bytes, in chunks of any size. No I/O: bytes in, events out. Owns
// the framing only.
import { LineSplitter } from "./lines.ts";

export interface SseEvent {
  readonly type: string;
  readonly data: string;
  /** Last id on the stream so far, including this event's. */
  readonly lastEventId: string;
}

/** Longest accepted event. A longer one means that the other side is not a tracker. */
const MAX_EVENT_CHARS = 16 * 1024 * 1024;

export class SseParser {
  readonly #lines = new LineSplitter();
  #type = "";
  /** The lines of data so far, each with a line end. */
  #data = "";
  #lastEventId: string;

  constructor(lastEventId = "") {
    this.#lastEventId = lastEventId;
  }

  /**
   * Returns the events that these bytes complete. Throws RangeError if an event exceeds the limit.
   */
  push(bytes: Uint8Array): SseEvent[] {
    const events: SseEvent[] = [];
    for (const line of this.#lines.push(bytes)) {
      // Comments (an empty field name), `retry` and unknown fields are ignored.
      const [, field, value = ""] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
      if (field === "event") this.#type = value;
      else if (field === "id" && !value.includes("\0")) this.#lastEventId = value;
      else if (field === "data") this.#data += `${value}\n`;
      if (line !== "") continue;
      const data = this.#data.slice(0, -1);
      if (this.#data) events.push({ type: this.#type || "message", data, lastEventId: this.#lastEventId });
      this.#type = this.#data = "";
    }
    if (this.#lines.rest.length + this.#data.length > MAX_EVENT_CHARS) throw new RangeError("event too long");
    return events;
  }
}
