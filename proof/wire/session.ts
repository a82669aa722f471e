// A client that knows only PostgreSQL's frames. It sends given bytes and keeps each received frame
// with its time of arrival.
import { connect, type Socket } from "node:net";
import { fieldsOf, type Frame, FrameReader, message, show, startup, text } from "./frames.ts";

/** A server's address and the log-in for it. */
export interface Place {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly database: string;
  readonly password?: string;
}

/** Reads a `postgresql://` URL. */
export function placeOf(url: string): Place {
  const { hostname, port, username, password, pathname } = new URL(url);
  return {
    host: hostname,
    port: Number(port),
    user: decodeURIComponent(username),
    database: decodeURIComponent(pathname.slice(1)),
    ...(password !== "" && { password: decodeURIComponent(password) }),
  };
}

export interface Arrived extends Frame {
  readonly atMs: number;
}

/** Generous, because the machine has other work. */
const LIMIT_MS = 60_000;

export class RawSession {
  readonly frames: Arrived[] = [];
  /** How the connection ended; null while it is open. */
  end: "closed" | "reset" | null = null;
  readonly #socket: Socket;
  readonly #reader = new FrameReader();
  #waiting: (() => void)[] = [];

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.on("data", (chunk) => {
      const atMs = performance.now();
      for (const frame of this.#reader.read(chunk)) this.frames.push({ ...frame, atMs });
      this.#wake();
    });
    socket.on("error", () => {
      this.end = "reset";
    });
    socket.on("close", () => {
      this.end ??= "closed";
      this.#wake();
    });
  }

  /** Connects and sends nothing. */
  static async connect({ host, port }: Pick<Place, "host" | "port">): Promise<RawSession> {
    const socket = connect({ host, port });
    await new Promise<void>((resolve, reject) => {
      socket.once("connect", resolve);
      socket.once("error", reject);
    });
    return new RawSession(socket);
  }

  /** Resolves when the server is ready, or has refused the log-in. */
  static async logIn(place: Place, parameters: Readonly<Record<string, string>> = {}): Promise<RawSession> {
    const session = await RawSession.connect(place);
    const { user, database, password } = place;
    session.send(startup({ user, database, client_encoding: "UTF8", ...parameters }));
    const [first] = await session.until((frames) => (frames.length > 0 ? frames : null));
    if (first?.type === "R" && first.body.readInt32BE(0) === 3 && password !== undefined)
      session.send(message("p", text(password)));
    await session.until((frames) => frames.find(({ type }) => type === "Z" || type === "E") ?? null);
    return session;
  }

  /** Logs in; resolves at the first ReadyForQuery. Errors: the server's. */
  static async open(place: Place, parameters: Readonly<Record<string, string>> = {}): Promise<RawSession> {
    const session = await RawSession.logIn(place, parameters);
    const error = session.frames.find(({ type }) => type === "E");
    if (error === undefined) return session;
    session.destroy();
    throw new Error(`${fieldsOf(error.body).get("C") ?? ""} ${fieldsOf(error.body).get("M") ?? ""}`);
  }

  /** Bytes of an incomplete frame. */
  get rest(): Buffer {
    return this.#reader.rest;
  }

  send(bytes: Buffer): void {
    this.#socket.write(bytes);
  }

  /** Reads nothing until `resume`. */
  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  /**
   * Resolves when `found` returns a result. Errors: if the connection ends first or the limit is
   * over; the message has the last frames.
   */
  async until<T>(found: (frames: readonly Arrived[]) => T | null, limitMs = LIMIT_MS): Promise<T> {
    const untilMs = performance.now() + limitMs;
    for (;;) {
      const result = found(this.frames);
      if (result !== null) return result;
      if (this.end !== null || performance.now() > untilMs) {
        const got = this.frames.slice(-12).map(show).join("\n  ");
        throw new Error(`${this.end ?? "no answer within the limit"}; the last frames:\n  ${got}`);
      }
      await this.#change(untilMs);
    }
  }

  /** Resolves when the connection has ended. */
  async untilEnd(limitMs = LIMIT_MS): Promise<void> {
    const untilMs = performance.now() + limitMs;
    while (this.end === null) {
      if (performance.now() > untilMs) throw new Error("the connection does not end");
      await this.#change(untilMs);
    }
  }

  /** Sends the bytes; resolves with the frames up to the next ReadyForQuery. */
  async ask(bytes: Buffer): Promise<readonly Arrived[]> {
    const from = this.frames.length;
    this.send(bytes);
    const to = await this.until((frames) => {
      const at = frames.findIndex(({ type }, index) => index >= from && type === "Z");
      return at < 0 ? null : at;
    });
    return this.frames.slice(from, to + 1);
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #change(untilMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, Math.max(1, untilMs - performance.now()));
      this.#waiting.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const wake of waiting) wake();
  }
}
