// A scripted wire peer in a tracker's place: it takes announcements, streams what the test scripts, and gives the verdicts that the test has prepared. It computes nothing; the real tracker is another service.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import {
  type AddressInfo,
  createServer as createListener,
  type Server as Listener,
  type Socket,
} from "node:net";
import {
  type Announcement,
  AnnouncementBatch,
  decodeToken,
  type EpochRecord,
  type Marks,
  type SealedLost,
  validate,
  type Verdict,
  VerdictsRequest,
} from "@highwater/protocol";

/** Well within the silence after which a gateway gives a stream up. */
const COMMENT_MS = 3_000;

export class TrackerPeer {
  readonly announcements: Announcement[] = [];
  readonly gateways = new Set<string>();
  readonly regions = new Set<string>();
  /** Asked for each token; `pending` is answered after a moment, so that no client spins. */
  verdict: (token: string, level: string) => Verdict = () => "pending";
  verdictQuestions = 0;
  /** What it lists as lost. */
  lost: SealedLost["lost"] = [];
  /** Ids of events that streams were resumed from. */
  readonly resumedFrom: string[] = [];
  /** It has the port for the whole life of the peer: while that is down, another process could take a port that is free. */
  #listener: Listener | null = null;
  /** Null: the peer is down, and every connection is cut. */
  #server: Server | null = null;
  readonly #sockets = new Set<Socket>();
  #streams = new Set<ServerResponse>();
  #greeting: string[] = [];
  /** Marks that no stream was there to take. */
  #unsent: string[] = [];
  #eventId = 0;
  #onChange: (() => void)[] = [];

  get url(): string {
    return `http://127.0.0.1:${String((this.#listener?.address() as AddressInfo).port)}`;
  }

  get streams(): number {
    return this.#streams.size;
  }

  /** On the same port as before when it was down in between. */
  async start(): Promise<this> {
    const server = createServer((request, response) => {
      this.#serve(request, response).catch((cause: unknown) => {
        // A gateway that goes away in the middle of its question wants no answer.
        if (!request.socket.destroyed) throw cause;
      });
    });
    // A gateway's question must not meet the end of a connection that was not used for long.
    server.keepAliveTimeout = 0;
    this.#server = server;
    this.#listener ??= await this.#listen();
    this.#listener.ref();
    return this;
  }

  async #listen(): Promise<Listener> {
    const listener = createListener((socket) => {
      if (this.#server === null) {
        socket.destroy();
        return;
      }
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
      this.#server.emit("connection", socket);
    });
    await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
    return listener;
  }

  /** Cuts every connection. The port stays taken, which holds up the end of no process. */
  stop(): void {
    this.#server = null;
    this.#listener?.unref();
    this.#streams.clear();
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Sent now to every stream, and first of all to those that are opened later. */
  sendEpochs(epochs: readonly EpochRecord[]): void {
    const text = this.#format("epoch", { epochs });
    this.#greeting = [text];
    this.#broadcast(text);
  }

  /** Sent now to every stream; when there is none, to the next that is opened. */
  sendMarks(marks: Marks): void {
    const text = this.#format("mark", marks);
    if (this.#streams.size === 0) this.#unsent.push(text);
    else this.#broadcast(text);
  }

  /** Resolves when the condition holds; it is looked at whenever the gateway has said something. */
  async until(condition: () => boolean, limitMs = 60_000): Promise<void> {
    const timer = setTimeout(() => {
      this.#changed();
    }, limitMs);
    const untilMs = performance.now() + limitMs;
    while (!condition()) {
      if (performance.now() >= untilMs)
        throw new Error(`not within ${String(limitMs)} ms: ${String(condition)}`);
      await new Promise<void>((resolve) => this.#onChange.push(resolve));
    }
    clearTimeout(timer);
  }

  kindsOf(id: string): string[] {
    return this.announcements.filter((one) => one.id === id).map(({ kind }) => kind);
  }

  positionOf(id: string): string | undefined {
    for (const one of this.announcements) if (one.kind === "position" && one.id === id) return one.offset;
    return undefined;
  }

  #format(event: string, data: unknown): string {
    return `id: ${String(++this.#eventId)}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
  }

  #broadcast(text: string): void {
    for (const stream of this.#streams) stream.write(text);
  }

  #changed(): void {
    for (const resolve of this.#onChange.splice(0)) resolve();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method === "GET" && request.url?.startsWith("/v1/durability/stream") === true) {
      const last = request.headers["last-event-id"];
      if (typeof last === "string") this.resumedFrom.push(last);
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(`: hello\n\n${[...this.#greeting, ...this.#unsent.splice(0)].join("")}`);
      this.#streams.add(response);
      const comments = setInterval(() => response.write(": nothing new\n\n"), COMMENT_MS).unref();
      response.on("close", () => {
        clearInterval(comments);
        this.#streams.delete(response);
        this.#changed();
      });
      this.#changed();
      return;
    }
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const body: unknown = JSON.parse(Buffer.concat(parts).toString("utf8"));
    if (request.url === "/internal/announcements") this.#takeAnnouncements(body, response);
    else if (request.url === "/v1/durability/verdicts") this.#giveVerdicts(body, response);
    else if (request.url === "/internal/lost") {
      const page: SealedLost = { lost: this.lost, next: null, isComplete: true };
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(page));
    } else response.writeHead(404).end();
    this.#changed();
  }

  #takeAnnouncements(body: unknown, response: ServerResponse): void {
    const batch = validate(AnnouncementBatch, body);
    if (!batch.ok) {
      response.writeHead(400).end(batch.faults.join());
      return;
    }
    this.gateways.add(batch.value.gateway);
    if (batch.value.region !== undefined) this.regions.add(batch.value.region);
    this.announcements.push(...batch.value.announcements);
    response.writeHead(204).end();
  }

  #giveVerdicts(body: unknown, response: ServerResponse): void {
    this.verdictQuestions++;
    const asked = validate(VerdictsRequest, body);
    if (!asked.ok) {
      response.writeHead(400).end(asked.faults.join());
      return;
    }
    const level = asked.value.level ?? "region";
    const verdicts = asked.value.tokens.map((token) => {
      const content = decodeToken(token);
      if (content === undefined) throw new Error("not a token");
      const position = { epoch: content.epoch, offset: content.offset.toString(10) };
      return {
        token,
        id: content.id,
        verdict: this.verdict(token, level),
        level,
        position,
        rule: "scripted",
      };
    });
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ verdicts, marks: null }));
  }
}
