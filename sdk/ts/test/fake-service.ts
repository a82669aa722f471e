// A gateway and a tracker in one, scripted by the test: each call answers what the test says, or nothing, or dies.
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo } from "node:net";
import { ERRORS, type ErrorCode } from "@highwater/protocol";
import {
  type BeginRequest,
  type CommitRequest,
  type EpochRecord,
  type Marks,
  type MarksResponse,
  type OpenTransactionResponse,
  type RollbackResponse,
  type StatementsRequest,
  type TransactionRequest,
  type TransactionResponse,
  type TransactionStateResponse,
  type VerdictsRequest,
  type VerdictsResponse,
} from "../src/wire.ts";
import { E1, token } from "./support.ts";

/** `cut`: the connection dies after the request was read. `hang`: no answer, ever. */
export type Reply = "cut" | "hang" | FakeResponse;

export interface FakeResponse {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface InteractiveCall {
  readonly name: "begin" | "statements" | "commit" | "rollback";
  readonly id: string;
  readonly session: string | undefined;
  readonly body: BeginRequest & StatementsRequest & CommitRequest;
}

export interface Script {
  transaction?: (request: TransactionRequest, call: number) => Reply | Promise<Reply>;
  state?: (id: string, query: URLSearchParams, call: number) => Reply | Promise<Reply>;
  verdicts?: (request: VerdictsRequest, call: number) => Reply | Promise<Reply>;
  /** A call of an interactive transaction, begin included; what is not scripted succeeds. */
  interactive?: (call: InteractiveCall, number: number) => Reply | undefined | Promise<Reply | undefined>;
  marks?: (call: number) => Reply;
  /** No answer even to who asks whether anybody is there. */
  blackHole?: boolean;
  /** The status that refuses a stream, `held` for one that a proxy holds back, or undefined to accept it. */
  stream?: (call: number) => number | "held" | undefined;
}

type Body =
  | TransactionResponse
  | TransactionStateResponse
  | VerdictsResponse
  | OpenTransactionResponse
  | RollbackResponse
  | MarksResponse;

export const ok = (body: Body): FakeResponse => ({ status: 200, body });

/** The answer to a call that leaves the transaction open; each statement gives one row with its text. */
export function opened(
  call: InteractiveCall,
  overrides: Partial<OpenTransactionResponse> = {},
): FakeResponse {
  const results = (call.body.statements ?? []).map(({ sql }) => ({
    ...{ command: "SELECT", rowCount: 1, fields: [{ name: "sql", oid: 25 }], rows: [[sql]] },
  }));
  const seq = call.name === "begin" ? 0 : call.body.seq;
  return ok({
    ...{ id: call.id, state: "active", seq, results, expiresAt: "2030-01-01T00:00:00.000Z", marks: null },
    ...overrides,
  });
}

export function problem(code: ErrorCode, extra: Readonly<Record<string, unknown>> = {}): FakeResponse {
  const { status, title, outcome, retry } = ERRORS[code];
  const body = { type: `/errors/${code}`, title, status, code, outcome, retry, ...extra };
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
  /** Of every request but those for streams. */
  readonly requestHeaders: IncomingMessage["headers"][] = [];
  readonly states: string[] = [];
  readonly calls: InteractiveCall[] = [];
  /** Requests that were no calls, as a client sends them to see whether anybody is there. */
  probes = 0;
  polls = 0;
  /** Headers of every stream that was asked for. */
  readonly streamRequests: IncomingMessage["headers"][] = [];
  readonly streams = new Set<ServerResponse>();
  /** Requests that are held without an answer. */
  held = 0;
  /** The last of each kind, as they were told. */
  readonly #newest = new Map<string, string>();
  readonly #server: Server;
  #changed = Promise.withResolvers<void>();

  private constructor(server: Server, script: Script) {
    this.#server = server;
    this.script = script;
    this.url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
    server.on("request", (request, response) => {
      this.#serve(request, response).catch((cause: unknown) => {
        // A client that goes away in the middle of its request wants no answer.
        if (!request.socket.destroyed) throw cause;
      });
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
    const text = `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
    this.#newest.set(type, text);
    for (const stream of this.streams) stream.write(text);
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
    this.requestHeaders.push(request.headers);
    let text = "";
    for await (const chunk of request.setEncoding("utf8")) text += String(chunk);
    if (url.pathname === "/v1/durability/verdicts") this.questionHeaders.push(request.headers);
    const reply = await this.#reply(url, text, request.headers["highwater-session"]);
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

  async #reply(url: URL, text: string, session: string | string[] | undefined): Promise<Reply> {
    const named = /^\/v1\/transactions\/(?:([^/]+)\/)?(begin|statements|commit|rollback)$/.exec(url.pathname);
    if (named !== null) {
      const body = JSON.parse(text) as InteractiveCall["body"];
      const name = named[2] as InteractiveCall["name"];
      const call = { name, id: named[1] ?? body.id, session: session as string | undefined, body };
      this.calls.push(call);
      this.#notify();
      const reply = (await this.script.interactive?.(call, this.calls.length)) ?? this.#succeed(call);
      if (name !== "begin" || typeof reply === "string") return reply;
      return { ...reply, headers: { "highwater-session": `here.${call.id}.mac` } };
    }
    if (url.pathname === "/v1/durability/marks") {
      this.polls += 1;
      this.#notify();
      return this.script.marks?.(this.polls) ?? problem("not_found");
    }
    if (url.pathname === "/") {
      this.probes += 1;
      this.#notify();
      if (this.script.blackHole === true) return "hang";
    }
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

  #succeed(call: InteractiveCall): Reply {
    switch (call.name) {
      case "begin":
      case "statements":
        return opened(call);
      case "commit":
        return ok(committed(call));
      case "rollback":
        return ok({ id: call.id, state: "aborted" });
    }
  }

  #openStream(request: IncomingMessage, response: ServerResponse): void {
    this.streamRequests.push(request.headers);
    const status = this.script.stream?.(this.streamRequests.length);
    if (status === "held") response.on("close", () => this.#notify());
    else if (status !== undefined) {
      response.writeHead(status).end();
    } else {
      response.writeHead(200, { "content-type": "text/event-stream" });
      // As a tracker does: what was sent to a stream that the client was just closing is not lost.
      response.write(`: hello\n\n${[...this.#newest.values()].join("")}`);
      this.streams.add(response);
      response.on("close", () => {
        this.streams.delete(response);
        this.#notify();
      });
    }
    this.#notify();
  }
}
