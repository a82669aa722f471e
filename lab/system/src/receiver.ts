// A real receiver of webhooks: an HTTP server that follows a script and keeps all requests.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { once } from "node:events";

export interface Received {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly path: string;
}

export type Behaviour = (
  response: ServerResponse,
  received: Received,
  request: IncomingMessage,
) => void | Promise<void>;

export const ok: Behaviour = (response) => {
  response.writeHead(204).end();
};

export const answers =
  (status: number, headers: Record<string, string> = {}, body = ""): Behaviour =>
  (response) => {
    response.writeHead(status, headers).end(body);
  };

export class Receiver implements AsyncDisposable {
  readonly received: Received[] = [];
  /** By webhook-id: requests that are being answered now, and the highest such number so far. */
  readonly atOnce = new Map<string, { now: number; max: number }>();
  behaviour: Behaviour = ok;
  readonly url: string;
  readonly port: number;
  readonly #server;
  #waiting: (() => void)[] = [];

  private constructor(server: ReturnType<typeof createServer>, port: number) {
    this.#server = server;
    this.port = port;
    this.url = `http://127.0.0.1:${String(port)}/hook`;
  }

  static async start(): Promise<Receiver> {
    const server = createServer((request, response) => {
      void receiver.#take(request, response);
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const receiver: Receiver = new Receiver(server, (server.address() as AddressInfo).port);
    return receiver;
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let body = "";
    for await (const chunk of request.setEncoding("utf8")) body += chunk as string;
    const headers = request.headers as Record<string, string>;
    const received = { headers, body, path: request.url ?? "" };
    const id = headers["webhook-id"] ?? "";
    const count = this.atOnce.get(id) ?? { now: 0, max: 0 };
    this.atOnce.set(id, count);
    count.now++;
    count.max = Math.max(count.max, count.now);
    response.on("close", () => count.now--);
    this.received.push(received);
    for (const wake of this.#waiting.splice(0)) wake();
    await this.behaviour(response, received, request);
  }

  /** Waits for this many requests. */
  async count(many: number, limitMs = 60_000): Promise<readonly Received[]> {
    await this.until(() => this.received.length >= many, `${String(many)} requests`, limitMs);
    return this.received;
  }

  async until(isThere: () => boolean, what: string, limitMs = 60_000): Promise<void> {
    const deadline = performance.now() + limitMs;
    while (!isThere()) {
      const remainingMs = deadline - performance.now();
      if (remainingMs <= 0)
        throw new Error(`${what}: not within ${String(limitMs)} ms; ${String(this.received.length)} came`);
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve);
        timer = setTimeout(resolve, remainingMs);
      });
      clearTimeout(timer);
    }
  }

  ids(): string[] {
    return this.received.map(({ headers }) => headers["webhook-id"] ?? "");
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
