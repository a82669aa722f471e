// Cuts a stream of bytes into frames. It reads types and lengths only, copies nothing but the few
// bytes of a frame that is split between two reads, and never holds a large frame.

/** Where the frames go. Positions are those of the bytes that were pushed. */
export interface FrameSink {
  /** A whole frame: its type, length and body are `bytes[start..end)`. */
  frame(type: number, bytes: Buffer, start: number, end: number): void;
  /**
   * A part of a frame that is not whole in these bytes, its header included in the first part.
   * Only of types that need not be whole, or of frames that are too large for that.
   */
  part(type: number, bytes: Buffer, range: PartRange): void;
  /** The next frame has to be whole, whatever its type. */
  wantsWhole?(): boolean;
}

export interface PartRange {
  readonly start: number;
  readonly end: number;
  readonly isFirst: boolean;
  readonly isLast: boolean;
}

/** A frame that breaks the protocol: the connection cannot go on. */
export class FrameError extends Error {
  /** The frame, and what came with it. */
  readonly rest: Buffer;

  constructor(message: string, rest: Buffer) {
    super(message);
    this.rest = rest;
  }
}

/** A frame begins with its type and its length, which counts itself and not the type. */
const HEADER_BYTES = 5;
const LENGTH_BYTES_MIN = 4;
/** PostgreSQL's own limit: MaxAllocSize, and some for the rest of a message. */
const FRAME_BYTES_MAX = 0x3fffffff + HEADER_BYTES;
/** Frames up to here are joined when they come in pieces, if their type is to be whole. */
const WHOLE_BYTES_MAX = 16_384;

const NO_BYTES: Buffer = Buffer.alloc(0);

export class FrameScanner {
  readonly #sink: FrameSink;
  /** By type: it has to be whole. */
  readonly #isWhole: Uint8Array;
  /** The beginning of a frame whose end has not come. */
  #carry: Buffer = NO_BYTES;
  /** Of a frame that is passed on in parts: what has not come yet. */
  #left = 0;
  #type = 0;

  constructor(sink: FrameSink, wholeTypes: string) {
    this.#sink = sink;
    this.#isWhole = new Uint8Array(256);
    for (const type of wholeTypes) this.#isWhole[type.charCodeAt(0)] = 1;
  }

  /** No frame has been passed on in part. */
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
    // A copy: the rest of the read must not stay in memory for the sake of a few bytes.
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
