// One stream of a tracker's marks, with the times at which they reached given offsets.
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { hostMs } from "./helper.ts";
import { eventsIn } from "./stream-events.ts";

export class MarkListener {
  readonly #socket: Socket;
  readonly #marks = new Map<string, number>();
  #received = Promise.withResolvers<undefined>();
  #rest = "";
  #atMs = Number.NaN;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (part) => {
      this.#take(part);
    });
    socket.on("error", () => undefined);
  }

  static async open(tracker: string): Promise<MarkListener> {
    const url = new URL(tracker);
    const socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true });
    await once(socket, "connect");
    socket.write(
      `GET /v1/durability/stream HTTP/1.1\r\nhost: ${url.host}\r\naccept: text/event-stream\r\n\r\n`,
    );
    return new MarkListener(socket);
  }

  /** The newest mark of the level; 0 before the first one. */
  mark(level: string): number {
    return this.#marks.get(level) ?? 0;
  }

  /** Resolves with the time at which the level's mark was at or above the offset. */
  async reached(level: string, offset: number, limitMs: number): Promise<number> {
    const limit = new AbortController();
    const timer = setTimeout(() => {
      limit.abort();
      this.#received.resolve(undefined);
    }, limitMs);
    try {
      while (this.mark(level) < offset) {
        if (limit.signal.aborted) throw new Error(`no mark of ${level} reached ${String(offset)}`);
        await this.#received.promise;
      }
      return this.#atMs;
    } finally {
      clearTimeout(timer);
    }
  }

  #take(part: Buffer): void {
    const { events, rest } = eventsIn(this.#rest + part.toString("latin1"));
    this.#rest = rest;
    if (events.length === 0) return;
    this.#atMs = hostMs();
    for (const { levels } of events)
      for (const [level, offset] of Object.entries(levels())) this.#marks.set(level, Number(offset));
    const received = this.#received;
    this.#received = Promise.withResolvers();
    received.resolve(undefined);
  }

  close(): void {
    this.#socket.destroy();
  }
}
