// Limits the length of messages before node-postgres' parser, which buffers each message whole. SQL
// decides how long a row, a notice or an error is. This reads the length in each message's header.
// It keeps a large row only if the query that the row belongs to allows it, in a buffer of exactly
// its size. It cuts long errors and notices, and ends the connection at any other long message.

export interface MessageSink {
  /** Whole messages, or parts of small ones, in order. */
  parse(bytes: Buffer): void;
  /**
   * Asked when everything before the row has been parsed. False: the row is left out. `length`: its
   * body's.
   */
  mayTakeRow(length: number): boolean;
}

const HEADER_BYTES = 5;
/** The length in a header counts its own four bytes. */
const LENGTH_BYTES = 4;
const DATA_ROW = 0x44;
const ERROR = 0x45;
const NOTICE = 0x4e;

/** Up to here a message is left to the parser. */
export const SMALL_BYTES = 64 * 1_024;
/** The longest that is neither a row nor a text is the description of 1,664 columns. */
const OTHER_BYTES_MAX = 1_024 * 1_024;

/** What becomes of the rest of a large message. */
type Rest =
  /** Collected into a buffer up to `end`; when the message is complete, the buffer is parsed. */
  { readonly into: Buffer; readonly end: number; filled: number } | "pass" | "skip";

export class MessageLimits {
  readonly #sink: MessageSink;
  readonly #header = Buffer.alloc(HEADER_BYTES);
  /** Bytes of a header whose end is in the next chunk. */
  #headerFilled = 0;
  /** Of the message that has begun. */
  #left = 0;
  #rest: Rest = "pass";

  constructor(sink: MessageSink) {
    this.#sink = sink;
  }

  /** Throws RangeError for bytes that cannot be this protocol. */
  push(chunk: Buffer): void {
    let at = 0;
    let passedTo = 0;
    const pass = (end: number): void => {
      if (end > passedTo) this.#sink.parse(chunk.subarray(passedTo, end));
      passedTo = end;
    };
    while (at < chunk.length) {
      if (this.#left > 0) {
        const end = at + Math.min(this.#left, chunk.length - at);
        this.#left -= end - at;
        if (this.#rest !== "pass") {
          this.#consume(chunk.subarray(at, end));
          passedTo = end;
        }
        at = end;
        continue;
      }
      const header = this.#headerAt(chunk, at);
      if (header === null) {
        pass(at);
        return;
      }
      const { isSplit, end } = header;
      const { code, length } = isSplit ? readHeader(this.#header, 0) : readHeader(chunk, at);
      this.#left = length - LENGTH_BYTES;
      if (length <= SMALL_BYTES) {
        this.#rest = "pass";
        if (isSplit) {
          // The parser keeps what it is given until the message is complete.
          this.#sink.parse(Buffer.from(this.#header));
          passedTo = end;
        }
      } else {
        pass(at);
        passedTo = end;
        this.#rest = this.#restOf(code, length);
      }
      at = end;
    }
    pass(at);
  }

  /**
   * Null: the chunk ends within the header, which is kept. `end`: where the header ends in the
   * chunk.
   */
  #headerAt(chunk: Buffer, at: number): { readonly isSplit: boolean; readonly end: number } | null {
    if (this.#headerFilled === 0 && chunk.length - at >= HEADER_BYTES)
      return { isSplit: false, end: at + HEADER_BYTES };
    const copied = chunk.copy(this.#header, this.#headerFilled, at);
    this.#headerFilled += copied;
    if (this.#headerFilled < HEADER_BYTES) return null;
    this.#headerFilled = 0;
    return { isSplit: true, end: at + copied };
  }

  #restOf(code: number, length: number): Rest {
    if (code === DATA_ROW) {
      if (!this.#sink.mayTakeRow(length)) return "skip";
      return collecting(code, length);
    }
    // The severity and the SQLSTATE come first. Two zeros end the text that was cut, and the
    // message.
    if (code === ERROR || code === NOTICE) return collecting(code, SMALL_BYTES, 2);
    if (length > OTHER_BYTES_MAX)
      throw new RangeError(
        `a message of type ${JSON.stringify(String.fromCharCode(code))} and ${String(length)} bytes`,
      );
    return collecting(code, length);
  }

  #consume(bytes: Buffer): void {
    const rest = this.#rest;
    if (typeof rest === "string") return;
    const room = Math.min(bytes.length, rest.end - rest.filled);
    rest.filled += bytes.copy(rest.into, rest.filled, 0, room);
    if (this.#left > 0) return;
    this.#rest = "pass";
    this.#sink.parse(rest.into);
  }
}

function readHeader(bytes: Buffer, at: number): { readonly code: number; readonly length: number } {
  const length = bytes.readUInt32BE(at + 1);
  if (length < LENGTH_BYTES) throw new RangeError(`a message of ${String(length)} bytes`);
  return { code: bytes[at] ?? 0, length };
}

function collecting(code: number, length: number, zeros = 0): Rest {
  const into = Buffer.alloc(1 + length);
  into[0] = code;
  into.writeUInt32BE(length, 1);
  return { into, end: into.length - zeros, filled: HEADER_BYTES };
}
