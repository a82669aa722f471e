// A PostgreSQL client on a bare socket: sends what a test asks for, and times each frame.
import { connect, type Socket } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";
import {
  bind,
  describePortal,
  execute,
  message,
  parse,
  query,
  reportField,
  rowTexts,
  SYNC,
} from "../../src/wire/frames/build.ts";
import { writeStartup } from "../../src/wire/startup/packet.ts";

export { bind, describePortal, execute, message, parse, query, SYNC };
export const FLUSH: Buffer = message("H");

export interface Frame {
  readonly type: string;
  readonly bytes: Buffer;
  /** When the frame arrived. */
  readonly atMs: number;
}

export interface WireOptions {
  readonly parameters?: Readonly<Record<string, string>>;
  readonly password?: string;
  /** Default 3.0. */
  readonly version?: number;
  readonly tls?: { readonly ca?: string; readonly direct?: boolean };
}

const VERSION_3_0 = 196_608;
/** Longer than any answer takes. */
const LIMIT_MS = 60_000;

export class WireClient {
  readonly socket: Socket;
  readonly frames: Frame[] = [];
  #bytes: Buffer = Buffer.alloc(0);
  #taken = 0;
  #isClosed = false;
  #wake: () => void = () => undefined;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on("data", (chunk: Buffer) => {
      this.#take(chunk);
    });
    socket.on("error", () => undefined);
    socket.on("close", () => {
      this.#isClosed = true;
      this.#wake();
    });
  }

  /** Resolves when the socket is connected; nothing is sent. */
  static async dial(url: string): Promise<WireClient> {
    const { hostname, port } = new URL(url);
    const socket = connect({ host: hostname, port: Number(port), noDelay: true });
    await new Promise<void>((resolve, reject) => {
      socket.once("connect", resolve);
      socket.once("error", reject);
    });
    return new WireClient(socket);
  }

  /** The socket is connected; what comes first is not read yet. */
  static over(socket: Socket): WireClient {
    return new WireClient(socket);
  }

  /** Resolves when the session is ready. Errors: with the server's message. */
  static async open(url: string, options: WireOptions = {}): Promise<WireClient> {
    const client =
      options.tls === undefined ? await WireClient.dial(url) : await WireClient.secured(url, options);
    await client.start(url, options);
    return client;
  }

  static async secured(url: string, { tls = {} }: WireOptions): Promise<WireClient> {
    const { hostname, port } = new URL(url);
    const plain = connect({ host: hostname, port: Number(port), noDelay: true });
    if (tls.direct !== true) {
      plain.write(Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]));
      await new Promise<void>((resolve, reject) => {
        plain.once("data", (answer) => {
          if (answer.toString() === "S") resolve();
          else reject(new Error(`the answer to SSLRequest is ${answer.toString()}`));
        });
        plain.once("error", reject);
      });
    }
    const secured: TLSSocket = connectTls({
      socket: plain,
      ALPNProtocols: ["postgresql"],
      host: "127.0.0.1",
      ...(tls.ca === undefined ? { rejectUnauthorized: false } : { ca: tls.ca }),
    });
    await new Promise<void>((resolve, reject) => {
      secured.once("secureConnect", resolve);
      secured.once("error", reject);
    });
    return new WireClient(secured);
  }

  async start(url: string, { parameters = {}, password, version = VERSION_3_0 }: WireOptions): Promise<void> {
    const { username, pathname } = new URL(url);
    const all = { user: username, database: pathname.slice(1), ...parameters };
    this.socket.write(writeStartup(version, new Map(Object.entries(all))));
    for (;;) {
      const frame = await this.next();
      if (frame.type === "R" && frame.bytes.readInt32BE(5) === 3)
        this.send(message("p", `${password ?? ""}\0`));
      if (frame.type === "E") throw new WireError(frame);
      if (frame.type === "Z") return;
    }
  }

  #take(chunk: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, chunk]);
    const atMs = performance.now();
    while (this.#bytes.length >= 5) {
      const end = 1 + this.#bytes.readInt32BE(1);
      if (this.#bytes.length < end) break;
      const bytes = this.#bytes.subarray(0, end);
      this.frames.push({ type: String.fromCharCode(bytes[0] ?? 0), bytes, atMs });
      this.#bytes = this.#bytes.subarray(end);
    }
    this.#wake();
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Bytes that do not form a whole frame yet. */
  get rest(): Buffer {
    return this.#bytes;
  }

  /** Frames that have arrived and were not taken. */
  get untaken(): readonly Frame[] {
    return this.frames.slice(this.#taken);
  }

  send(...messages: readonly Buffer[]): void {
    this.socket.write(Buffer.concat(messages));
  }

  async next(limitMs = LIMIT_MS): Promise<Frame> {
    const untilMs = performance.now() + limitMs;
    for (;;) {
      const frame = this.frames[this.#taken];
      if (frame !== undefined) {
        this.#taken++;
        return frame;
      }
      const leftMs = untilMs - performance.now();
      if (this.#isClosed || leftMs <= 0)
        throw new Error(this.#isClosed ? "the connection was closed" : "no frame came");
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, leftMs);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  /** All frames up to and including one of the type. */
  async until(type: string): Promise<Frame[]> {
    const frames: Frame[] = [];
    for (;;) {
      const frame = await this.next();
      frames.push(frame);
      if (frame.type === type) return frames;
    }
  }

  async closed(): Promise<void> {
    while (!this.#isClosed)
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
  }

  /** A simple Query and its answer. */
  async query(text: string): Promise<ServerAnswer> {
    this.send(query(text));
    return new ServerAnswer(await this.until("Z"));
  }

  /** The same statement in the extended protocol. */
  async extended(text: string): Promise<ServerAnswer> {
    this.send(parse("", text), bind("", ""), describePortal(""), execute(""), SYNC);
    return new ServerAnswer(await this.until("Z"));
  }

  /** Process and secret for a CancelRequest. */
  get key(): Buffer {
    const frame = this.frames.find(({ type }) => type === "K");
    if (frame === undefined) throw new Error("there is no key");
    return frame.bytes.subarray(5);
  }

  end(): void {
    this.socket.destroy();
  }
}

export class WireError extends Error {
  readonly code: string;
  constructor({ bytes }: Frame) {
    super(reportField(bytes, 0, bytes.length, "M"));
    this.code = reportField(bytes, 0, bytes.length, "C");
  }
}

/** All frames up to a ReadyForQuery. */
export class ServerAnswer {
  readonly frames: readonly Frame[];
  constructor(frames: readonly Frame[]) {
    this.frames = frames;
  }

  /** The frames' types, one character each. */
  get types(): string {
    return this.frames.map(({ type }) => type).join("");
  }

  get status(): string {
    return String.fromCharCode(this.frames.at(-1)?.bytes[5] ?? 0);
  }

  get tags(): string[] {
    return this.frames
      .filter(({ type }) => type === "C")
      .map(({ bytes }) => bytes.toString("latin1", 5, bytes.length - 1));
  }

  get rows(): (string | null)[][] {
    return this.frames.filter(({ type }) => type === "D").map(({ bytes }) => rowTexts(bytes, 0));
  }

  /** SQLSTATE of the error; empty without an error. */
  get code(): string {
    return this.#report("E", "C");
  }

  get error(): string {
    return this.#report("E", "M");
  }

  get notice(): string {
    return this.#report("N", "M");
  }

  #report(wanted: string, field: string): string {
    const frame = this.frames.find(({ type }) => type === wanted);
    return frame === undefined ? "" : reportField(frame.bytes, 0, frame.bytes.length, field);
  }

  /** The parameter's last value; null if it was not sent. */
  parameter(name: string): string | null {
    let value: string | null = null;
    for (const { type, bytes } of this.frames) {
      if (type !== "S") continue;
      const [key, text] = bytes.toString("utf8", 5).split("\0");
      if (key === name) value = text ?? "";
    }
    return value;
  }

  get token(): string | null {
    return this.parameter("highwater.token");
  }
}
