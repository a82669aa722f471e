// A scripted wire peer in a tracker's place: it takes announcements, streams what the test tells it to, and gives the
// verdicts that the test has prepared. It computes nothing; the real tracker is another service.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo } from "node:net";
import {
  type Announcement,
  AnnouncementBatch,
  decodeToken,
  type EpochRecord,
  type Marks,
  validate,
  type Verdict,
  VerdictsRequest,
} from "@highwater/protocol";

export class TrackerPeer {
  readonly announcements: Announcement[] = [];
  readonly gateways = new Set<string>();
  readonly regions = new Set<string>();
  /** Asked for each token; `pending` is answered after a moment, so that nobody spins. */
  verdict: (token: string, level: string) => Verdict = () => "pending";
  verdictQuestions = 0;
  /** Ids of events that streams were resumed from. */
  readonly resumedFrom: string[] = [];
  #server: Server | null = null;
  #port = 0;
  #streams = new Set<ServerResponse>();
  #greeting: string[] = [];
  #eventId = 0;
  #onChange: (() => void)[] = [];

  get url(): string {
    return `http://127.0.0.1:${String(this.#port)}`;
  }

  get streams(): number {
    return this.#streams.size;
  }

  /** Listens; on the same port as before when it was down in between. */
  async start(): Promise<this> {
    const server = createServer((request, response) => void this.#serve(request, response));
    this.#server = server;
    await new Promise<void>((resolve) => server.listen(this.#port, "127.0.0.1", resolve));
    this.#port = (server.address() as AddressInfo).port;
    return this;
  }

  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = null;
    this.#streams.clear();
    if (server === null) return;
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    await closed;
  }

  /** Sent now to every stream, and first of all to those that are opened later. */
  sendEpochs(epochs: readonly EpochRecord[]): void {
    const text = this.#format("epoch", { epochs });
    this.#greeting = [text];
    this.#broadcast(text);
  }

  sendMarks(marks: Marks): void {
    this.#broadcast(this.#format("mark", marks));
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
      response.write(`: hello\n\n${this.#greeting.join("")}`);
      this.#streams.add(response);
      response.on("close", () => this.#streams.delete(response));
      this.#changed();
      return;
    }
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const body: unknown = JSON.parse(Buffer.concat(parts).toString("utf8"));
    if (request.url === "/internal/announcements") this.#takeAnnouncements(body, response);
    else if (request.url === "/v1/durability/verdicts") this.#giveVerdicts(body, response);
    else response.writeHead(404).end();
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
