// The transaction through a gateway: one POST on a connection that is kept open.
// HTTP is written and read by hand, for this one server's answers only: node:http's client would take more of the two
// cores than the gateway that is measured, and the generator's cost is nobody's throughput.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { type Client, ISOLATION, SELECT, UPDATE } from "./workload.ts";

interface Answer {
  readonly state?: string;
  readonly code?: string;
  readonly results?: readonly { readonly rows: readonly (readonly (string | null)[])[] }[];
}

interface Response {
  readonly status: number;
  readonly text: string;
}

const HEAD_END = Buffer.from("\r\n\r\n");
const NOTHING = Buffer.alloc(0);

export class HttpClient implements Client {
  readonly #socket: Socket;
  readonly #head: string;
  #received: Buffer = NOTHING;
  #waiting: { resolve: (response: Response) => void; reject: (cause: Error) => void } | null = null;

  private constructor(socket: Socket, url: URL) {
    this.#socket = socket;
    this.#head = `POST /v1/transactions HTTP/1.1\r\nhost: ${url.host}\r\ncontent-type: application/json\r\n`;
    socket.on("data", (part) => {
      this.#take(part);
    });
    socket.on("error", (cause) => this.#waiting?.reject(cause));
    socket.on("close", () => this.#waiting?.reject(new Error("the gateway closed the connection")));
  }

  static async open(address: string): Promise<HttpClient> {
    const url = new URL(address);
    const socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true });
    await once(socket, "connect");
    return new HttpClient(socket, url);
  }

  async transact(row: string): Promise<boolean> {
    const body = JSON.stringify({
      id: newId(),
      isolation: ISOLATION,
      statements: [
        { sql: UPDATE, params: [row] },
        { sql: SELECT, params: [row] },
      ],
    });
    const { status, text } = await this.#post(body);
    const answer = JSON.parse(text) as Answer;
    if (status === 409 && answer.code === "serialization_failure") return false;
    const found = answer.results?.[1]?.rows[0]?.[0];
    if (status !== 200 || answer.state !== "committed" || !(Number(found) >= 1))
      throw new Error(`the gateway answered ${String(status)} ${text}`);
    return true;
  }

  #post(body: string): Promise<Response> {
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#socket.write(`${this.#head}content-length: ${String(Buffer.byteLength(body))}\r\n\r\n${body}`);
    });
  }

  #take(part: Buffer): void {
    this.#received = this.#received.length === 0 ? part : Buffer.concat([this.#received, part]);
    const headEnd = this.#received.indexOf(HEAD_END);
    if (headEnd < 0) return;
    const head = this.#received.toString("latin1", 0, headEnd + 2);
    const length = Number(/\r\ncontent-length: *([0-9]+)\r\n/i.exec(head)?.[1]);
    const bodyAt = headEnd + HEAD_END.length;
    const { length: size } = this.#received;
    if (Number.isInteger(length) && size < bodyAt + length) return;
    const waiting = this.#waiting;
    this.#waiting = null;
    // More than one answer, or one of unknown length, is not what this server sends.
    if (size !== bodyAt + length) waiting?.reject(new Error(`not an answer: ${head}`));
    else
      waiting?.resolve({
        status: Number(head.slice(9, 12)),
        text: this.#received.toString("utf8", bodyAt),
      });
    this.#received = NOTHING;
  }

  close(): Promise<void> {
    this.#socket.destroy();
    return Promise.resolve();
  }
}

/** A UUID of version 7: a random one of version 4 with the time in its first 48 bits. */
function newId(): string {
  const time = Date.now().toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`;
}
