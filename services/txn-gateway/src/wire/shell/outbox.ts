// Collects what sessions send to their sockets. When a turn of the event loop ends, each socket
// gets all its bytes in one write, one socket after the other: each write wakes a process that then
// competes with this one for a processor.
import { type Socket } from "node:net";

/** Up to this size, parts are copied into one buffer. */
const JOINED_BYTES_MAX = 32_768;

export class Outbox {
  #waiting: Outgoing[] = [];

  /** `onFull`: called when the socket takes no more until its `drain`. */
  to(socket: Socket, onFull: () => void): Outgoing {
    return new Outgoing(socket, onFull, (outgoing) => {
      if (this.#waiting.push(outgoing) === 1)
        setImmediate(() => {
          for (const each of this.#waiting.splice(0)) each.flush();
        });
    });
  }
}

/** The bytes for one socket. */
export class Outgoing {
  readonly #socket: Socket;
  readonly #onFull: () => void;
  readonly #onFirst: (outgoing: Outgoing) => void;
  #parts: Buffer[] = [];

  constructor(socket: Socket, onFull: () => void, onFirst: (outgoing: Outgoing) => void) {
    this.#socket = socket;
    this.#onFull = onFull;
    this.#onFirst = onFirst;
  }

  write(bytes: Buffer): void {
    if (this.#parts.push(bytes) === 1) this.#onFirst(this);
  }

  /** Writes at once, because the socket is about to be closed. */
  flush(): void {
    const parts = this.#parts;
    const [first] = parts;
    if (first === undefined) return;
    this.#parts = [];
    if (!this.#socket.writable) return;
    if (parts.length === 1) this.#socket.write(first);
    else if (parts.reduce((sum, { length }) => sum + length, 0) <= JOINED_BYTES_MAX)
      this.#socket.write(Buffer.concat(parts));
    else {
      this.#socket.cork();
      for (const part of parts) this.#socket.write(part);
      this.#socket.uncork();
    }
    if (this.#socket.writableNeedDrain) this.#onFull();
  }
}
