// The end of a session at the server. PostgreSQL does not look at the connection while a statement
// runs: the statement goes on, and a procedure commits again and again. So a session of a client
// that has left counts until the server has ended it, and one that may not go on is ended there.
import { type Socket } from "node:net";

/**
 * `left`: by the client, and what it has sent may still run. `cut`: nothing of it may go on.
 * `lost`: the server is no longer the one that it was, or the gateway stops.
 */
export type SessionEnd = "left" | "cut" | "lost";

export interface ServerEndOptions {
  readonly server: Socket;
  /** Ends the session at the server, whatever it runs. */
  readonly terminate: () => Promise<void>;
  readonly after: (ms: number, callback: () => void) => () => void;
  /** Called once: the session counts no more. */
  readonly onOver: () => void;
  /** The server could not be asked. */
  readonly onFailed: (cause: unknown) => void;
}

/** Results that a client has not waited for. Above that no one needs the rest. */
const UNREAD_BYTES_MAX = 1_048_576;
const TRIES = 5;
const PAUSE_MS = 1_000;

export class ServerEnd {
  readonly #options: ServerEndOptions;
  #isCut = false;
  #isOver = false;

  constructor(options: ServerEndOptions) {
    this.#options = options;
  }

  /** The session has ended here. */
  ended(how: SessionEnd): void {
    if (how === "left") this.#wait();
    else if (how === "cut") this.cut();
    else this.lose();
  }

  #wait(): void {
    const { server } = this.#options;
    let unread = 0;
    server.on("data", (chunk: Buffer) => {
      unread += chunk.length;
      if (unread > UNREAD_BYTES_MAX) this.cut();
    });
    server.once("close", () => {
      if (!this.#isCut) this.#finish();
    });
    server.end();
    server.resume();
    if (server.destroyed && !this.#isCut) this.#finish();
  }

  /** Also of a session that its client has left. */
  cut(): void {
    if (this.#isCut || this.#isOver) return;
    this.#isCut = true;
    this.#options.server.destroy();
    void this.#terminate().finally(() => {
      this.#finish();
    });
  }

  async #terminate(): Promise<void> {
    const { terminate, after, onFailed } = this.#options;
    for (let tries = 1; ; tries++) {
      try {
        await terminate();
        return;
      } catch (cause) {
        if (tries === TRIES || this.#isOver) {
          onFailed(cause);
          return;
        }
      }
      await new Promise<void>((resolve) => {
        after(PAUSE_MS, resolve);
      });
    }
  }

  lose(): void {
    this.#options.server.destroy();
    this.#finish();
  }

  #finish(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#options.onOver();
  }
}
