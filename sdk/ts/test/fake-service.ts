// A gateway and a tracker in one, scripted by the test: each call answers what the test says, or nothing, or dies.
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo } from "node:net";
import { ERRORS, type ErrorCode } from "@highwater/protocol";
import {
  type EpochRecord,
  type Marks,
  type TransactionRequest,
  type TransactionResponse,
  type TransactionStateResponse,
  type VerdictsRequest,
  type VerdictsResponse,
} from "../src/wire.ts";
import { E1, token } from "./support.ts";

/** `cut`: the connection dies after the request was read. `hang`: no answer, ever. */
export type Reply = "cut" | "hang" | Answer;

export interface Answer {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Script {
  transaction?: (request: TransactionRequest, call: number) => Reply | Promise<Reply>;
  state?: (id: string, query: URLSearchParams, call: number) => Reply | Promise<Reply>;
  verdicts?: (request: VerdictsRequest, call: number) => Reply | Promise<Reply>;
  /** The status that refuses a stream, or undefined to accept it. */
  stream?: (call: number) => number | undefined;
}

export const ok = (body: TransactionResponse | TransactionStateResponse | VerdictsResponse): Reply => ({
  status: 200,
  body,
});

export function problem(code: ErrorCode, extra: Readonly<Record<string, unknown>> = {}): Answer {
  const { status, title, outcome, retry } = ERRORS[code];
  const body = { type: `urn:highwater:error:${code}`, title, status, code, outcome, retry, ...extra };
  return { status, body };
}

/** The answer to a transaction that committed at the offset. */
export function committed(
  request: { id: string },
  options: Partial<TransactionResponse> & { epoch?: string; offset?: number } = {},
): TransactionResponse {
  const { epoch = E1, offset = 10, ...overrides } = options;
  return {
    id: request.id,
    state: "committed",
    token: token(epoch, offset, request.id),
    position: { epoch, offset: String(offset) },
    results: [],
    marks: null,
    announced: true,
    ...overrides,
  };
}

export class FakeService {
  readonly url: string;
  readonly script: Script;
  readonly transactions: TransactionRequest[] = [];
  readonly questions: VerdictsRequest[] = [];
  readonly questionHeaders: IncomingMessage["headers"][] = [];
  readonly states: string[] = [];
  /** Headers of every stream that was asked for. */
  readonly streamRequests: IncomingMessage["headers"][] = [];
  readonly streams = new Set<ServerResponse>();
  /** Requests that are held without an answer. */
  held = 0;
  readonly #server: Server;
  #changed = Promise.withResolvers<void>();

  private constructor(server: Server, script: Script) {
    this.#server = server;
    this.script = script;
    this.url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
    server.on("request", (request, response) => {
      void this.#serve(request, response);
    });
  }

  static async start(script: Script = {}): Promise<FakeService> {
    const server = createServer();
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return new FakeService(server, script);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close").catch(() => undefined);
  }

  /** Resolves as soon as the condition holds. Looks whenever something happened here. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) await this.#changed.promise;
  }

  send(type: string, data: unknown, id = "1.1"): void {
    for (const stream of this.streams)
      stream.write(`id: ${id}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  mark(value: Marks): void {
    this.send("mark", value);
  }

  epochs(...epochs: EpochRecord[]): void {
    this.send("epoch", { epochs });
  }

  cutStreams(): void {
    for (const stream of this.streams) stream.destroy();
  }

  #notify(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", this.url);
    if (url.pathname === "/v1/durability/stream") {
      this.#openStream(request, response);
      return;
    }
    let text = "";
    for await (const chunk of request.setEncoding("utf8")) text += String(chunk);
    if (url.pathname === "/v1/durability/verdicts") this.questionHeaders.push(request.headers);
    const reply = await this.#reply(url, text);
    if (reply === "cut") request.socket.destroy();
    else if (reply === "hang") {
      this.held += 1;
      response.on("close", () => {
        this.held -= 1;
        this.#notify();
      });
    } else {
      const type = reply.status < 400 ? "application/json" : "application/problem+json";
      response.writeHead(reply.status, { "content-type": type, ...reply.headers });
      response.end(typeof reply.body === "string" ? reply.body : JSON.stringify(reply.body));
    }
    this.#notify();
  }

  async #reply(url: URL, text: string): Promise<Reply> {
    if (url.pathname === "/v1/transactions") {
      const body = JSON.parse(text) as TransactionRequest;
      this.transactions.push(body);
      this.#notify();
      return (await this.script.transaction?.(body, this.transactions.length)) ?? ok(committed(body));
    }
    if (url.pathname.startsWith("/v1/transactions/")) {
      const id = url.pathname.split("/").at(-1) ?? "";
      this.states.push(id);
      this.#notify();
      const reply = await this.script.state?.(id, url.searchParams, this.states.length);
      return reply ?? ok({ id, state: "unknown", marks: null });
    }
    if (url.pathname === "/v1/durability/verdicts") {
      const body = JSON.parse(text) as VerdictsRequest;
      this.questions.push(body);
      this.#notify();
      return (await this.script.verdicts?.(body, this.questions.length)) ?? "hang";
    }
    return problem("not_found");
  }

  #openStream(request: IncomingMessage, response: ServerResponse): void {
    this.streamRequests.push(request.headers);
    const status = this.script.stream?.(this.streamRequests.length);
    if (status !== undefined) {
      response.writeHead(status).end();
    } else {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(": hello\n\n");
      this.streams.add(response);
      response.on("close", () => {
        this.streams.delete(response);
        this.#notify();
      });
    }
    this.#notify();
  }
}
