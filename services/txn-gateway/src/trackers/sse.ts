// Reads server-sent events from bytes in any chunks. The library owns the format; we own UTF-8
// across chunks and the size limit.
import { createParser } from "eventsource-parser";

export interface SseEvent {
  /** `message` when the stream did not name it. */
  readonly event: string;
  readonly data: string;
  /** The last id that the stream has given, if any. */
  readonly id: string | undefined;
}

/** An epoch event lists the whole ancestry; nothing a tracker sends is larger. */
const MAX_EVENT_CHARS = 16 * 1_048_576;

/** Throws when the stream is not server-sent events or an event is too large. */
export async function* readSse(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<SseEvent, void, undefined> {
  let events: SseEvent[] = [];
  let fault: Error | undefined;
  let lastId: string | undefined;
  const decoder = new TextDecoder("utf-8");
  const parser = createParser({
    maxBufferSize: MAX_EVENT_CHARS,
    onId: (id) => {
      lastId = id;
    },
    onEvent: ({ event, data, id }) => {
      lastId = id ?? lastId;
      events.push({ event: event ?? "message", data, id: lastId });
    },
    onError: (error) => {
      // Unknown fields are to be ignored, says the standard; only the bound ends the stream.
      if (error.type === "max-buffer-size-exceeded") fault = error;
    },
  });
  for await (const chunk of chunks) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    if (fault !== undefined) throw fault;
    const ready = events;
    events = [];
    yield* ready;
  }
}
