// One kept-alive HTTP connection with one request in flight, to one of our own services. It writes
// and reads HTTP by itself, for these servers' answers only: node:http's client would take more of
// the two cores than the measured services, and the generator's cost would lower every throughput.
import { once } from "node:events";
import { connect, type Socket } from "node:net";

export interface Response {
  readonly status: number;
  readonly text: string;
}

const HEAD_END = Buffer.from("\r\n\r\n");

export class HttpConnection {
  readonly #socket: Socket;
  readonly #host: string;
  #received: Buffer[] = [];
  #receivedBytes = 0;
  /** The length of the whole answer; 0 while its head is not complete. */
  #expectedBytes = 0;
  #headBytes = 0;
  #waiting: { resolve: (response: Response) => void; reject: (cause: Error) => void } | null = null;

  private constructor(socket: Socket, host: string) {
    this.#socket = socket;
    this.#host = host;
    socket.on("data", (part) => {
      this.#take(part);
    });
    socket.on("error", (cause) => this.#waiting?.reject(cause));
    socket.on("close", () => this.#waiting?.reject(new Error("the server closed the connection")));
  }

  static async open(address: string): Promise<HttpConnection> {
    const url = new URL(address);
    const socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true });
    await once(socket, "connect");
    return new HttpConnection(socket, url.host);
  }

  get(path: string): Promise<Response> {
    return this.#send(`GET ${path} HTTP/1.1\r\nhost: ${this.#host}\r\n\r\n`);
  }

  post(path: string, body: string): Promise<Response> {
    const length = String(Buffer.byteLength(body));
    const head = `POST ${path} HTTP/1.1\r\nhost: ${this.#host}\r\ncontent-type: application/json\r\ncontent-length: ${length}`;
    return this.#send(`${head}\r\n\r\n${body}`);
  }

  #send(text: string): Promise<Response> {
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#socket.write(text);
    });
  }

  #take(part: Buffer): void {
    this.#received.push(part);
    this.#receivedBytes += part.length;
    if (this.#expectedBytes === 0 && !this.#takeHead()) return;
    if (this.#receivedBytes < this.#expectedBytes) return;
    const waiting = this.#waiting;
    const answer = Buffer.concat(this.#received);
    const [isWhole, headBytes] = [answer.length === this.#expectedBytes, this.#headBytes];
    this.#waiting = null;
    this.#received = [];
    this.#receivedBytes = this.#expectedBytes = this.#headBytes = 0;
    // These servers never send more than one answer.
    if (!isWhole) waiting?.reject(new Error(`not an answer: ${answer.toString("latin1", 0, headBytes)}`));
    else
      waiting?.resolve({
        status: Number(answer.toString("latin1", 9, 12)),
        text: answer.toString("utf8", headBytes),
      });
  }

  #takeHead(): boolean {
    const bytes = this.#received.length === 1 ? this.#received[0] : Buffer.concat(this.#received);
    const headEnd = bytes?.indexOf(HEAD_END) ?? -1;
    if (bytes === undefined || headEnd < 0) return false;
    const head = bytes.toString("latin1", 0, headEnd + 2);
    const length = Number(/\r\ncontent-length: *([0-9]+)\r\n/i.exec(head)?.[1] ?? 0);
    this.#headBytes = headEnd + HEAD_END.length;
    this.#expectedBytes = this.#headBytes + length;
    return true;
  }

  close(): void {
    this.#socket.destroy();
  }
}
