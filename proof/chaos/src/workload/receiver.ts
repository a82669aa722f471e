// A receiver of webhooks as they are in practice: from time to time it fails, hangs or is down, and
// its messages come again. It records every request with its answer; the checker judges them.
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { type Delivery, type EpochId, type Level, type TxnId } from "@highwater/checker";
import { verifyWebhook } from "@highwater/sdk/webhooks";
import { nowMs } from "../clock.ts";
import { type Journal } from "./journal.ts";
import { type Random } from "./random.ts";

const TROUBLES = [
  "answers_500",
  "asks_to_wait",
  "redirects",
  "hangs",
  "is_slow",
  "hangs_up",
  "is_away",
] as const;
type Trouble = (typeof TROUBLES)[number];

const CALM_MS = { least: 1_000, most: 5_000 } as const;
const TROUBLE_MS = { least: 500, most: 4_000 } as const;
const SLOW_MS = 1_200;
const TAKEN = 204;

export interface ReceiverOptions {
  readonly journal: Journal;
  readonly random: Random;
  /** The levels of the history. Others are not judged. */
  readonly levels: readonly Level[];
}

interface Endpoint {
  readonly id: string;
  readonly secret: string;
}

/** The parts of the body that are used here. */
interface Message {
  readonly type: string;
  readonly data: {
    readonly sequence?: Delivery["sequence"];
    readonly transactions?: readonly {
      readonly event: string;
      readonly id: TxnId;
      readonly attempt: EpochId;
      readonly verdicts: Delivery["transactions"][number]["verdicts"];
      readonly position?: { readonly epoch: EpochId; readonly offset: string };
    }[];
    readonly promises?: Delivery["promises"];
  };
}

export class Receiver {
  readonly #options: ReceiverOptions;
  readonly #server: Server;
  readonly #endpoints = new Map<string, Endpoint>();
  readonly #taken = new Set<string>();
  readonly #behaving = new AbortController();
  #trouble: Trouble | null = null;
  #misbehaving: Promise<void> = Promise.resolve();

  private constructor(options: ReceiverOptions) {
    this.#options = options;
    this.#server = createServer((request, response) => {
      // The sender broke off in the middle of its request.
      this.#receive(request, response).catch(() => response.destroy());
    });
    this.#server.on("connection", (socket) => {
      if (this.#trouble === "is_away") socket.destroy();
    });
  }

  static async start(options: ReceiverOptions): Promise<Receiver> {
    const receiver = new Receiver(options);
    receiver.#server.listen(0, "127.0.0.1");
    await once(receiver.#server, "listening");
    return receiver;
  }

  /** The URL of the endpoint with this name. */
  urlOf(name: string): string {
    return `http://127.0.0.1:${String((this.#server.address() as AddressInfo).port)}/${name}`;
  }

  /** Accepts messages for the endpoint from now on. */
  serve(name: string, endpoint: Endpoint): void {
    this.#endpoints.set(`/${name}`, endpoint);
  }

  misbehave(): void {
    this.#misbehaving = this.#misbehaveNowAndThen();
  }

  /** Accepts everything at once from now on. */
  async behave(): Promise<void> {
    this.#behaving.abort();
    await this.#misbehaving;
  }

  /** True when it accepted a delivery that reports the attempt as lost or broken. */
  hasTakenLoss(endpoint: string, txn: TxnId, attempt: EpochId): boolean {
    return this.#taken.has(`${endpoint} ${txn} ${attempt}`);
  }

  async close(): Promise<void> {
    await this.behave();
    const closed = once(this.#server, "close");
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  async #misbehaveNowAndThen(): Promise<void> {
    const { journal, random } = this.#options;
    const { signal } = this.#behaving;
    const forSomeTime = ({ least, most }: typeof CALM_MS | typeof TROUBLE_MS): Promise<unknown> =>
      pause(least + random.below(most - least), undefined, { signal }).catch(() => undefined);
    for (;;) {
      await forSomeTime(CALM_MS);
      if (signal.aborted) return;
      const trouble = random.pick(TROUBLES);
      const atMs = nowMs();
      this.#trouble = trouble;
      if (trouble === "is_away") this.#server.closeAllConnections();
      await forSomeTime(TROUBLE_MS);
      this.#trouble = null;
      journal.write({
        type: "fault",
        atMs,
        untilMs: nowMs(),
        kind: `receiver_${trouble}`,
        target: "webhooks",
        error: null,
      });
    }
  }

  async #receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const trouble = this.#trouble;
    const chunks: Buffer[] = [];
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
    const endpoint = this.#endpoints.get(request.url ?? "");
    if (endpoint === undefined) {
      response.writeHead(503).end();
      return;
    }
    const atMs = nowMs();
    const answered = answer(response, trouble);
    const delivery = await this.#read(request, Buffer.concat(chunks), endpoint);
    const status = await answered;
    this.#options.journal.write({ ...delivery, atMs, untilMs: nowMs(), answer: status });
    if (status === TAKEN)
      for (const { txn, attempt, verdicts } of delivery.transactions)
        if (Object.values(verdicts).some((verdict) => verdict === "lost" || verdict === "broken"))
          this.#taken.add(`${endpoint.id} ${txn} ${attempt}`);
  }

  async #read(
    { headers }: IncomingMessage,
    body: Buffer,
    { id, secret }: Endpoint,
  ): Promise<Omit<Delivery, "atMs" | "untilMs" | "answer">> {
    const { levels } = this.#options;
    // A tracker's clock may be wrong while its signature is right.
    const isSigned = await verifyWebhook({ body, headers, secret, toleranceMs: Infinity }).then(
      () => true,
      () => false,
    );
    const { type, data } = JSON.parse(body.toString("utf8")) as Message;
    const { sequence = null, transactions = [], promises = [] } = data;
    return {
      type: "delivery",
      endpoint: id,
      message: String(headers["webhook-id"]),
      isSigned,
      event: type,
      sequence,
      bytes: body.length,
      digest: createHash("sha256").update(body).digest("base64url").slice(0, 22),
      transactions: transactions.map(({ event, id: txn, attempt, verdicts, position = null }) => ({
        event,
        txn,
        attempt,
        position,
        verdicts: Object.fromEntries(
          Object.entries(verdicts).filter(
            ([level, verdict]) => levels.includes(level) && verdict !== "pending",
          ),
        ),
      })),
      promises: promises.filter(({ level }) => levels.includes(level)),
    };
  }
}

/** Resolves when the response has ended: with the status, or null if none was sent. */
async function answer(response: ServerResponse, trouble: Trouble | null): Promise<number | null> {
  const over = once(response, "close");
  switch (trouble) {
    case "answers_500":
      response.writeHead(500).end();
      break;
    case "asks_to_wait":
      response.writeHead(503, { "retry-after": "2" }).end();
      break;
    case "redirects":
      response.writeHead(302, { location: "/elsewhere" }).end();
      break;
    case "is_slow":
      await Promise.race([pause(SLOW_MS), over]);
      if (!response.closed) response.writeHead(TAKEN).end();
      break;
    case "hangs_up":
    case "is_away":
      response.destroy();
      break;
    case "hangs":
      break;
    case null:
      response.writeHead(TAKEN).end();
  }
  await over;
  return response.writableFinished ? response.statusCode : null;
}
