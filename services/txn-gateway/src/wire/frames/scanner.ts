// Cuts a stream of bytes into frames. It reads only types and lengths, copies only the few bytes of
// a frame that is split between two reads, and never holds a large frame.

/** Receives the frames. Offsets are those of the pushed bytes. */
export interface FrameSink {
  /** A whole frame. `bytes[start..end)` is its type, length and body. */
  frame(type: number, bytes: Buffer, start: number, end: number): void;
  /**
   * A part of a frame that has not arrived whole; the first part contains the header. Only for
   * types that need not be whole, and for frames that are too large to join.
   */
  part(type: number, bytes: Buffer, range: PartRange): void;
  /** True when the next frame has to be whole, whatever its type. */
  wantsWhole?(): boolean;
}

export interface PartRange {
  readonly start: number;
  readonly end: number;
  readonly isFirst: boolean;
  readonly isLast: boolean;
}

/** A frame that breaks the protocol. The connection has to end. */
export class FrameError extends Error {
  /** The frame, and all bytes that arrived after it. */
  readonly rest: Buffer;

  constructor(message: string, rest: Buffer) {
    super(message);
    this.rest = rest;
  }
}

/** A frame begins with its type and its length. The length counts itself but not the type. */
const HEADER_BYTES = 5;
const LENGTH_BYTES_MIN = 4;
/** PostgreSQL's own limit: MaxAllocSize, plus the rest of a message. */
const FRAME_BYTES_MAX = 0x3fffffff + HEADER_BYTES;
/** A frame of a type that has to be whole is joined from its pieces up to this size. */
const WHOLE_BYTES_MAX = 16_384;

const NO_BYTES: Buffer = Buffer.alloc(0);

/** All sessions look the types of their frames up in the same few tables. */
const tables = new Map<string, Uint8Array>();

function tableOf(wholeTypes: string): Uint8Array {
  let table = tables.get(wholeTypes);
  if (table === undefined) {
    table = new Uint8Array(256);
    for (const type of wholeTypes) table[type.charCodeAt(0)] = 1;
    tables.set(wholeTypes, table);
  }
  return table;
}

export class FrameScanner {
  readonly #sink: FrameSink;
  /** Indexed by type: 1 where a frame has to be whole. */
  readonly #isWhole: Uint8Array;
  /** The beginning of a frame whose end has not arrived. */
  #carry: Buffer = NO_BYTES;
  /** Bytes that are still missing from the frame that is passed on in parts. */
  #left = 0;
  #type = 0;

  constructor(sink: FrameSink, wholeTypes: string) {
    this.#sink = sink;
    this.#isWhole = tableOf(wholeTypes);
  }

  /** True when no frame has been passed on in part. */
  get isBetweenFrames(): boolean {
    return this.#left === 0;
  }

  /** Errors: FrameError. */
  push(chunk: Buffer): void {
    const bytes = this.#carry.length === 0 ? chunk : Buffer.concat([this.#carry, chunk]);
    this.#carry = NO_BYTES;
    let at = this.#left > 0 ? this.#pushRest(bytes) : 0;
    const length = bytes.length;
    while (at + HEADER_BYTES <= length) {
      const type = bytes[at] ?? 0;
      const size = bytes.readInt32BE(at + 1);
      if (size < LENGTH_BYTES_MIN || size > FRAME_BYTES_MAX)
        throw new FrameError(`a message has the length ${String(size)}`, bytes.subarray(at));
      const end = at + 1 + size;
      if (end <= length) this.#sink.frame(type, bytes, at, end);
      else if (size < WHOLE_BYTES_MAX && (this.#isWhole[type] === 1 || this.#sink.wantsWhole?.() === true))
        break;
      else {
        this.#type = type;
        this.#left = end - length;
        this.#sink.part(type, bytes, { start: at, end: length, isFirst: true, isLast: false });
        at = length;
        break;
      }
      at = end;
    }
    // A copy, so that a few bytes do not keep the whole read in memory.
    if (at < length) this.#carry = at === 0 ? bytes : Buffer.from(bytes.subarray(at));
  }

  #pushRest(bytes: Buffer): number {
    const end = Math.min(this.#left, bytes.length);
    this.#left -= end;
    const isLast = this.#left === 0;
    this.#sink.part(this.#type, bytes, { start: 0, end, isFirst: false, isLast });
    return end;
  }
}
