// A service that a test scripts, and that remembers what reached it: only so can a test count attempts, and cut a
// connection between a request and its answer.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { type AddressInfo } from "node:net";
import { type Certified } from "@highwater/lab-tools/process/certificate";

export interface Reached {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

type Act = (request: Reached, response: ServerResponse) => void;

export class Upstream implements AsyncDisposable {
  readonly name: string;
  readonly reached: Reached[] = [];
  isReady = true;
  /** What it does with a request; answers with its own name by default. */
  act: Act = (_request, response) => {
    this.answer(response);
  };
  #port = 0;
  #server: Server | undefined;
  readonly #shown: Certified | undefined;

  private constructor(name: string, shown: Certified | undefined) {
    this.name = name;
    this.#shown = shown;
  }

  /** With a certificate to show it speaks TLS only. */
  static async start(name: string, shown?: Certified): Promise<Upstream> {
    const upstream = new Upstream(name, shown);
    await upstream.open();
    return upstream;
  }

  get node(): { readonly name: string; readonly address: string; readonly port: number } {
    return { name: this.name, address: "127.0.0.1", port: this.#port };
  }

  answer(response: ServerResponse, status = 200): void {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify({ from: this.name }));
  }

  /** Listens, at the address that it had before if it had one. */
  async open(): Promise<void> {
    const take = (request: IncomingMessage, response: ServerResponse): void => {
      if (request.url === "/healthz") return void response.writeHead(200).end();
      if (request.url === "/readyz") return void response.writeHead(this.isReady ? 200 : 503).end();
      let body = "";
      request.setEncoding("utf8");
      request.on("data", (piece: string) => (body += piece));
      request.on("end", () => {
        const { method = "", url = "", headers } = request;
        const reached = { method, url, headers, body };
        this.reached.push(reached);
        this.act(reached, response);
      });
    };
    const shown = this.#shown;
    const server =
      shown === undefined
        ? createServer(take)
        : createTlsServer({ cert: shown.certificate, key: shown.key }, take);
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(this.#port, "127.0.0.1", resolve);
    });
    this.#port = (server.address() as AddressInfo).port;
    this.#server = server;
  }

  /** As if it was killed: connections are cut, and new ones refused. */
  async kill(): Promise<void> {
    const server = this.#server;
    if (server === undefined) return;
    this.#server = undefined;
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }
}
