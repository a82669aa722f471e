// An HTTP proxy in front of a tracker that can hold back what is announced, or the answer to it, so that a test can stop
// the world at a step. Everything else it passes on as it comes.
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import { type Announcement, type AnnouncementBatch } from "@highwater/protocol";

export type Stage = "request" | "answer";

interface Hold {
  readonly stage: Stage;
  readonly wants: (announcement: Announcement) => boolean;
  readonly reached: PromiseWithResolvers<undefined>;
  readonly released: PromiseWithResolvers<undefined>;
  readonly abandoned: PromiseWithResolvers<undefined>;
}

export interface Held {
  /** Resolves when such a batch has come that far. */
  readonly reached: Promise<undefined>;
  /** Resolves when the sender of such a batch has gone away meanwhile: the tracker does not get it any more. */
  readonly abandoned: Promise<undefined>;
  /** Lets it go on, and all that came after it. */
  release(): void;
}

export class HoldingProxy implements AsyncDisposable {
  readonly url: string;
  /** Where it leads; until then no service is there. */
  target: string | null = null;
  readonly #server: Server;
  readonly #holds: Hold[] = [];

  private constructor(server: Server, port: number) {
    this.#server = server;
    this.url = `http://127.0.0.1:${String(port)}`;
    server.on("request", (incoming: IncomingMessage, outgoing: ServerResponse) => {
      this.#pass(incoming, outgoing).catch(() => {
        outgoing.destroy();
      });
    });
  }

  static async start(): Promise<HoldingProxy> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new HoldingProxy(server, (server.address() as { port: number }).port);
  }

  /** The next batch with such an announcement stops there: before the tracker has it, or before the gateway gets the answer. */
  hold(stage: Stage, wants: (announcement: Announcement) => boolean): Held {
    const hold = {
      stage,
      wants,
      reached: Promise.withResolvers<undefined>(),
      released: Promise.withResolvers<undefined>(),
      abandoned: Promise.withResolvers<undefined>(),
    };
    this.#holds.push(hold);
    return {
      reached: hold.reached.promise,
      abandoned: hold.abandoned.promise,
      release: () => {
        this.#holds.splice(this.#holds.indexOf(hold), 1);
        hold.released.resolve(undefined);
      },
    };
  }

  async #pass(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    if (incoming.url !== "/internal/announcements") {
      this.#forward(incoming, null, outgoing, () => Promise.resolve());
      return;
    }
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const { announcements } = JSON.parse(body.toString()) as AnnouncementBatch;
    await this.#stopAt("request", announcements, outgoing);
    if (outgoing.destroyed) return;
    this.#forward(incoming, body, outgoing, () => this.#stopAt("answer", announcements, outgoing));
  }

  async #stopAt(
    stage: Stage,
    announcements: readonly Announcement[],
    outgoing: ServerResponse,
  ): Promise<void> {
    const hold = this.#holds.find((one) => one.stage === stage && announcements.some(one.wants));
    if (hold === undefined) return;
    outgoing.once("close", () => {
      hold.abandoned.resolve(undefined);
    });
    hold.reached.resolve(undefined);
    await hold.released.promise;
  }

  #forward(
    incoming: IncomingMessage,
    body: Buffer | null,
    outgoing: ServerResponse,
    beforeAnswer: () => Promise<void>,
  ): void {
    if (this.target === null) {
      outgoing.writeHead(502).end();
      return;
    }
    const { method, headers, url } = incoming;
    const on = request(`${this.target}${url ?? "/"}`, { method, headers }, (answer) => {
      answer.on("error", () => outgoing.destroy());
      void beforeAnswer().then(() => {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(outgoing);
      });
    });
    on.on("error", () => outgoing.destroy());
    outgoing.on("close", () => on.destroy());
    if (body === null) incoming.pipe(on);
    else on.end(body);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const hold of [...this.#holds]) hold.released.resolve(undefined);
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
