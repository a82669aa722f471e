// Reads a replica's messages to its primary, and extracts how far it has flushed. Socket-free:
// bytes in, offsets out.

const NOTHING = Buffer.alloc(0);
/** Requests that come before the start packet, and are as long as this: TLS, GSSAPI. */
const PRELUDE_CODES = new Set([80_877_103, 80_877_104]);
const COPY_DATA = "d".charCodeAt(0);
const STATUS_UPDATE = "r".charCodeAt(0);
/** Of a status update: type, then the positions written, flushed and applied. */
const FLUSHED_AT = 1 + 8;
const STATUS_BYTES = 1 + 8 + 8 + 8 + 8 + 1;

export class StandbyReplies {
  /** The name that the replica reported; empty before that. */
  applicationName = "";
  #started = false;
  #rest: Buffer = NOTHING;

  /** Every flush position that these bytes complete, in order. */
  push(part: Buffer): number[] {
    const flushed: number[] = [];
    const bytes = this.#rest.length === 0 ? part : Buffer.concat([this.#rest, part]);
    let at = 0;
    for (;;) {
      const size = this.#sizeOf(bytes, at);
      if (size === null || at + size > bytes.length) break;
      this.#take(bytes.subarray(at, at + size), flushed);
      at += size;
    }
    this.#rest = at === bytes.length ? NOTHING : Buffer.from(bytes.subarray(at));
    return flushed;
  }

  /** The size of the message that begins there; null while it is unknown. */
  #sizeOf(bytes: Buffer, at: number): number | null {
    // Only the first message has no type before its length.
    const lengthAt = this.#started ? at + 1 : at;
    return bytes.length < lengthAt + 4 ? null : lengthAt - at + bytes.readInt32BE(lengthAt);
  }

  #take(message: Buffer, flushed: number[]): void {
    if (!this.#started) {
      if (PRELUDE_CODES.has(message.readInt32BE(4))) return;
      this.#started = true;
      const words = message.toString("utf8", 8).split("\0");
      this.applicationName = words[words.indexOf("application_name") + 1] ?? "";
      return;
    }
    const body = message.subarray(5);
    if (message[0] !== COPY_DATA || body[0] !== STATUS_UPDATE || body.length !== STATUS_BYTES) return;
    // Exact up to 2^53 bytes of log, which no benchmark writes.
    flushed.push(Number(body.readBigUInt64BE(FLUSHED_AT)));
  }
}
