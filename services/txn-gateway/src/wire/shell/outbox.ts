// What sessions send to their sockets. All that one turn of the event loop has for a socket leaves
// in one write when the turn is over, and one socket after the other: each write wakes a process,
// which then takes a processor from this one.
import { type Socket } from "node:net";

/** Copied into one buffer up to here. */
const JOINED_BYTES_MAX = 32_768;

export class Outbox {
  #waiting: Outgoing[] = [];

  /** `onFull`: the socket takes no more until its `drain`. */
  to(socket: Socket, onFull: () => void): Outgoing {
    return new Outgoing(socket, onFull, (outgoing) => {
      if (this.#waiting.push(outgoing) === 1)
        setImmediate(() => {
          for (const each of this.#waiting.splice(0)) each.flush();
        });
    });
  }
}

/** One socket's. */
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

  /** Now, because the socket is to be closed behind it. */
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
