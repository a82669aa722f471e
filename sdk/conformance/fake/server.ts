// A gateway and a tracker in one. It does what a scenario's script says, dies where it says so, and
// records what it saw. It never retries and never judges: calls outside the script succeed.
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import {
  BeginRequest,
  CommitRequest,
  decodeToken,
  StatementsRequest,
  TicketEndsRequest,
  TicketsRequest,
  TransactionRequest,
  type TSchema,
  validate,
  VerdictsRequest,
} from "@highwater/protocol";
import { type Reply, type Script } from "../src/format.ts";
import {
  type FakeResponse,
  committed,
  endOf,
  epochsBody,
  marksAnswer,
  marksBody,
  opened,
  problem,
  rolledBack,
  stateOf,
  ticketOf,
  verdictsOf,
} from "./build.ts";

export { epochId, token } from "./build.ts";

type Fields = Readonly<Record<string, unknown>>;
type Headers = IncomingMessage["headers"];
type Route = Exclude<keyof Script, "streams" | "blackHole" | "down">;

export interface Call {
  readonly route: Route;
  readonly id: string;
  readonly body: Fields;
  readonly query: URLSearchParams;
  readonly headers: Headers;
}

/** A reply that depends on the request, or waits for something. Calls count from 1. */
export type ReplyTo = (call: Call, number: number) => Reply | undefined | Promise<Reply | undefined>;
/** A script for tests in TypeScript, which may compute replies. */
export type LiveScript = { [R in Route]?: Script[R] | ReplyTo } & Omit<Script, Route>;

const SCHEMAS: { readonly [R in Route]?: TSchema } = {
  transactions: TransactionRequest,
  verdicts: VerdictsRequest,
  begin: BeginRequest,
  statements: StatementsRequest,
  commit: CommitRequest,
  tickets: TicketsRequest,
  ends: TicketEndsRequest,
};
/** Routes that only the gateway of an open transaction can answer. */
const PINNED: readonly string[] = ["statements", "commit", "rollback"] satisfies Route[];

/** The record of what it saw, in the form of a scenario's question. */
export interface Seen {
  readonly transactions: number;
  /** The number of different ids among them. */
  readonly transactionIds: number;
  /** Requests with several transactions, each of which also counts among the transactions. */
  readonly batches: number;
  readonly states: number;
  /** The levels that look-ups of an id have named, empty for none. */
  readonly stateLevels: readonly string[];
  readonly verdicts: number;
  readonly begin: number;
  readonly statements: number;
  readonly commit: number;
  readonly rollback: number;
  readonly marks: number;
  readonly tickets: number;
  /** Requests for the ends of tickets. */
  readonly ends: number;
  /** Requests that only ask whether the gateway is alive. */
  readonly probes: number;
  /** Streams that were requested, and those that are open. */
  readonly streams: number;
  readonly openStreams: number;
  /** Requests that wait for an answer that never comes. */
  readonly held: number;
  readonly tokensAsked: number;
  readonly mostTokensInARequest: number;
  /** The numbers of the requests of one interactive transaction, in the order of arrival. */
  readonly sequence: readonly number[];
  /** One-shot transactions that ask to see everything up to a token. */
  readonly readsAfter: number;
  /** The offsets of those tokens. */
  readonly readOffsets: readonly string[];
  readonly lastEventId: string;
  /** Of the newest request or stream. */
  readonly authorization: string;
  /** All connections so far. */
  readonly connections: number;
  /** Requests that do not match their schema. */
  readonly invalid: readonly string[];
}

export class FakeServer implements AsyncDisposable {
  readonly url: string;
  #script: LiveScript;
  #offset = 0;
  readonly #server: Server;
  /** All requests but those for streams, as they came. */
  readonly calls: Call[] = [];
  readonly #streams = new Set<ServerResponse>();
  readonly #ids = new Set<string>();
  readonly #used = new Map<string, number>();
  readonly #invalid: string[] = [];
  #streamsAsked = 0;
  #held = 0;
  #connections = 0;
  #lastEventId = "";
  #authorization = "";
  #eventNumber = 0;
  /** The last event of each kind, as it was published. */
  readonly #newest = new Map<"blind" | "epoch" | "mark", string>();
  #changed = Promise.withResolvers<void>();

  private constructor(server: Server, script: LiveScript) {
    this.#server = server;
    this.#script = script;
    this.url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
    server.on("connection", () => (this.#connections += 1));
    server.on("request", (request, response) => {
      this.#serve(request, response).catch((cause: unknown) => {
        // A client that goes away in the middle of its request wants no answer.
        if (request.complete) this.#invalid.push(cause instanceof Error ? cause.message : String(cause));
        request.socket.destroy();
        this.#notify();
      });
    });
  }

  static async start(script: LiveScript = {}): Promise<FakeServer> {
    const server = createServer({ keepAlive: true }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const fake = new FakeServer(server, script);
    if (script.down === true) server.close();
    return fake;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    if (!this.#server.listening) return;
    const closed = once(this.#server, "close");
    this.#server.close();
    await closed;
  }

  /** Replaces the script of each given route, from its first reply on. */
  follow(script: LiveScript): void {
    for (const route of Object.keys(script)) this.#used.delete(route);
    this.#script = { ...this.#script, ...script };
  }

  of(route: Route): Call[] {
    return this.calls.filter((call) => call.route === route);
  }

  get seen(): Seen {
    const questions = this.of("verdicts").map(({ body }) => (body["tokens"] as string[]).length);
    const after = this.of("transactions").flatMap(({ body }) => (body["after"] as string | undefined) ?? []);
    const numbered = this.calls.filter(({ route }) => PINNED.includes(route));
    return {
      transactions: this.of("transactions").length,
      transactionIds: this.#ids.size,
      batches: this.of("batches").length,
      states: this.of("states").length,
      stateLevels: this.of("states").map(({ query }) => query.get("level") ?? ""),
      verdicts: this.of("verdicts").length,
      begin: this.of("begin").length,
      statements: this.of("statements").length,
      commit: this.of("commit").length,
      rollback: this.of("rollback").length,
      marks: this.of("marks").length,
      tickets: this.of("tickets").length,
      ends: this.of("ends").length,
      probes: this.of("probes").length,
      streams: this.#streamsAsked,
      openStreams: this.#streams.size,
      held: this.#held,
      tokensAsked: questions.reduce((sum, each) => sum + each, 0),
      mostTokensInARequest: Math.max(0, ...questions),
      sequence: numbered.map(({ body }) => Number(body["seq"])),
      readsAfter: after.length,
      readOffsets: after.map((each) => String(positionOf(each).offset)),
      lastEventId: this.#lastEventId,
      authorization: this.#authorization,
      connections: this.#connections,
      invalid: this.#invalid,
    };
  }

  /** Resolves as soon as the condition holds; checks it whenever something has happened here. */
  async until(condition: (seen: Seen) => boolean, signal?: AbortSignal): Promise<void> {
    const aborted = signal === undefined ? new Promise(() => undefined) : once(signal, "abort");
    while (!condition(this.seen)) {
      signal?.throwIfAborted();
      await Promise.race([this.#changed.promise, aborted]);
    }
  }

  mark(fields: Fields): void {
    this.#newest.set("mark", this.#event("mark", marksBody(fields)));
  }

  epochs(epochs: readonly Fields[]): void {
    this.#newest.set("epoch", this.#event("epoch", epochsBody(epochs)));
  }

  blind(isBlind: boolean): void {
    this.#newest.set("blind", this.#event("blind", JSON.stringify({ blind: isBlind })));
  }

  /** Sends bytes as they are, whole events or not. */
  rawEvents(text: string): void {
    for (const stream of this.#streams) stream.write(text);
  }

  /** Cuts in the middle of the answer, but not before what was written has left. */
  cutStreams(): void {
    for (const stream of this.#streams) stream.socket?.destroySoon();
  }

  #event(type: string, data: string): string {
    this.#eventNumber += 1;
    const text = `id: 1.${String(this.#eventNumber)}\nevent: ${type}\ndata: ${data}\n\n`;
    this.rawEvents(text);
    return text;
  }

  #notify(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", this.url);
    this.#authorization = request.headers.authorization ?? "";
    response.on("close", () => {
      this.#notify();
    });
    if (this.#script.blackHole === true) {
      this.#hold(response);
      return;
    }
    if (url.pathname === "/v1/durability/stream") {
      this.#openStream(request, response);
      return;
    }
    let text = "";
    for await (const chunk of request.setEncoding("utf8")) text += String(chunk);
    const call = readCall(url, text === "" ? {} : (JSON.parse(text) as Fields), request.headers);
    if (call === undefined) {
      await send(response, problem({ problem: "not_found" }));
      return;
    }
    const reply = await this.#take(call);
    if (reply === "cut") request.socket.destroy();
    else if (reply === "hang" || (reply === "ok" && call.route === "verdicts")) this.#hold(response);
    else if (typeof reply === "object" && "half" in reply) {
      response.writeHead(200, { "content-type": "application/json", "content-length": 10_000 });
      response.write(reply.half, () => request.socket.destroy());
    } else if (reply === "ok" && call.route === "batches") await this.#serveLines(request, response, call);
    else await send(response, this.#answer(call, reply));
    this.#notify();
  }

  /**
   * Writes a line for each transaction. One whose reply is `cut` or `hang` gets none, and with
   * `cut` the rest ends there.
   */
  async #serveLines(request: IncomingMessage, response: ServerResponse, batch: Call): Promise<void> {
    let isWhole = true;
    response.writeHead(200, { "content-type": "application/x-ndjson" });
    response.flushHeaders();
    for (const [index, body] of (batch.body["transactions"] as Fields[]).entries()) {
      const call = { ...batch, route: "transactions", id: String(body["id"]), body } as const;
      const reply = await this.#take(call);
      if (reply === "cut") {
        request.socket.destroySoon();
        return;
      }
      if (reply === "hang") isWhole = false;
      else if (typeof reply === "object" && "half" in reply) response.write(reply.half);
      else {
        const { status, text } = this.#answer(call, reply);
        response.write(`{"index":${String(index)},"status":${String(status)},"body":${text}}\n`);
      }
    }
    if (isWhole) response.end();
    else this.#hold(response);
  }

  /** Remembers the call. Its reply is the next of the route's list, or the one for every call. */
  async #take(call: Call): Promise<Reply> {
    const { route, id, body, headers } = call;
    this.calls.push(call);
    if (route === "transactions") this.#ids.add(id);
    const schema = SCHEMAS[route];
    const result = schema && validate(schema, body);
    if (result?.ok === false) this.#invalid.push(...result.faults);
    if (PINNED.includes(route) && headers["highwater-session"] !== sessionOf(id))
      this.#invalid.push(`${route} without the header of its session`);
    const replies = this.#script[route] ?? "ok";
    const used = this.#used.get(route) ?? 0;
    this.#used.set(route, used + 1);
    this.#notify();
    if (typeof replies === "function") return (await replies(call, used + 1)) ?? "ok";
    const next = Array.isArray(replies) ? (replies[used] ?? "ok") : replies;
    if (typeof next === "string" || !("reply" in next)) return next;
    await pause(next.afterMs);
    return next.reply;
  }

  #hold(response: ServerResponse): void {
    this.#held += 1;
    response.on("close", () => {
      this.#held -= 1;
      this.#notify();
    });
    this.#notify();
  }

  #answer(call: Call, reply: Exclude<Reply, string> | "ok"): FakeResponse {
    const { id, body } = call;
    if (reply !== "ok" && "problem" in reply)
      return call.route === "ends" ? endOf(problem(reply)) : problem(reply);
    if (reply !== "ok" && "status" in reply)
      return { status: reply.status, headers: reply.headers ?? {}, text: reply.text };
    const fields = reply !== "ok" && "ok" in reply ? reply.ok : {};
    const statements = (body["statements"] ?? []) as { sql: string }[];
    switch (call.route) {
      case "batches":
        throw new Error("a batch is answered line by line");
      case "transactions":
      case "commit":
        // Every commit is beyond the one before, unless the script names a position.
        return committed(id, { offset: (this.#offset += 10), ...fields });
      case "begin":
        return {
          ...opened({ id, seq: 0, statements }, fields),
          headers: { "content-type": "application/json", "highwater-session": sessionOf(id) },
        };
      case "statements":
        return opened({ id, seq: Number(body["seq"]), statements }, fields);
      case "rollback":
        return rolledBack(id);
      case "states":
        return stateOf(id, fields);
      case "marks":
        return marksAnswer(fields);
      case "tickets":
        return ticketOf(id);
      case "ends":
        // No receipt is found, so the id is settled.
        return endOf(problem({ problem: "transaction_aborted" }));
      case "probes":
        return problem({ problem: "not_found" });
      case "verdicts": {
        const level = String((body["level"] as string | undefined) ?? "region");
        return verdictsOf({ tokens: body["tokens"] as string[], level }, fields, positionOf);
      }
    }
  }

  #openStream(request: IncomingMessage, response: ServerResponse): void {
    const { streams = "ok" } = this.#script;
    const how = Array.isArray(streams) ? (streams[this.#used.get("streams") ?? 0] ?? "ok") : streams;
    this.#used.set("streams", (this.#used.get("streams") ?? 0) + 1);
    this.#streamsAsked += 1;
    this.#lastEventId = String(request.headers["last-event-id"] ?? "");
    if (how === "cut") request.socket.destroy();
    else if (how === "held" || how === "hang") this.#hold(response);
    else if (typeof how === "number") response.writeHead(how).end();
    else {
      response.writeHead(200, { "content-type": "text/event-stream" });
      // Like a tracker: a client that connects first receives the current state.
      response.write(`: hello\n\n${[...this.#newest.values()].join("")}`);
      this.#streams.add(response);
      response.on("close", () => {
        this.#streams.delete(response);
        this.#notify();
      });
    }
    this.#notify();
  }
}

const sessionOf = (id: string): string => `here.${id}.mac`;

function positionOf(text: string): { id: string; epoch: string; offset: bigint } {
  const content = decodeToken(text);
  if (content === undefined) throw new Error(`not a token: ${text}`);
  return content;
}

async function send(response: ServerResponse, answer: FakeResponse): Promise<void> {
  response.writeHead(answer.status, answer.headers).end(answer.text);
  if (!response.writableFinished) await Promise.race([once(response, "finish"), once(response, "close")]);
}

function readCall(url: URL, body: Fields, headers: Headers): Call | undefined {
  const { pathname, searchParams: query } = url;
  const call = (route: Route, id = ""): Call => ({ route, id, body, query, headers });
  if (pathname === "/") return call("probes");
  if (pathname === "/v1/transactions") return call("transactions", String(body["id"]));
  if (pathname === "/v1/transactions/batch") return call("batches");
  if (pathname === "/v1/durability/verdicts") return call("verdicts");
  if (pathname === "/v1/durability/marks") return call("marks");
  if (pathname === "/v1/tickets")
    return call("tickets", (body["transactions"] as { id: string }[] | undefined)?.[0]?.id);
  if (pathname === "/v1/tickets/ends") return call("ends");
  if (pathname === "/v1/transactions/begin") return call("begin", String(body["id"]));
  const named = /^\/v1\/transactions\/([^/]+)(?:\/(statements|commit|rollback))?$/.exec(pathname);
  if (named === null) return undefined;
  return call((named[2] ?? "states") as Route, named[1]);
}
