// Reads a socket step by step while a connection begins, when messages are few and small.
import { type Socket } from "node:net";

export class ConnectionLost extends Error {}

const NO_BYTES: Buffer = Buffer.alloc(0);

export class Inbox {
  readonly #socket: Socket;
  readonly #bytesMax: number;
  #bytes: Buffer = NO_BYTES;
  #wake: (() => void) | null = null;
  #failure: Error | null = null;

  constructor(socket: Socket, bytesMax: number) {
    this.#socket = socket;
    this.#bytesMax = bytesMax;
    socket.on("data", this.#onData);
    socket.on("error", this.#onError);
    socket.on("close", this.#onClose);
  }

  get bytes(): Buffer {
    return this.#bytes;
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#bytes = this.#bytes.length === 0 ? chunk : Buffer.concat([this.#bytes, chunk]);
    if (this.#bytes.length > this.#bytesMax) this.#fail(new ConnectionLost("too much was sent"));
    this.#wake?.();
  };

  readonly #onError = (cause: Error): void => {
    this.#fail(cause);
  };

  readonly #onClose = (): void => {
    this.#fail(new ConnectionLost("the connection was closed"));
  };

  #fail(cause: Error): void {
    this.#failure ??= cause;
    this.#wake?.();
  }

  /** Waits until `read` finds a value at the beginning, and takes it out of the bytes. */
  async next<T>(read: (bytes: Buffer) => { readonly value: T; readonly end: number } | null): Promise<T> {
    for (;;) {
      const found = this.#bytes.length === 0 ? null : read(this.#bytes);
      if (found !== null) {
        this.#bytes = this.#bytes.subarray(found.end);
        return found.value;
      }
      if (this.#failure !== null) throw this.#failure;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = null;
    }
  }

  /** The next whole message of the protocol. */
  frame(): Promise<Buffer> {
    return this.next((bytes) => {
      if (bytes.length < 5) return null;
      const end = 1 + bytes.readInt32BE(1);
      if (end < 5) throw new ConnectionLost("a message has a wrong length");
      return bytes.length < end ? null : { value: bytes.subarray(0, end), end };
    });
  }

  /** Stops reading the socket. Returns the bytes that no one has taken, and keeps none. */
  release(): Buffer {
    const left = this.#bytes;
    this.#bytes = NO_BYTES;
    this.#socket.off("data", this.#onData);
    this.#socket.off("error", this.#onError);
    this.#socket.off("close", this.#onClose);
    return left;
  }
}
