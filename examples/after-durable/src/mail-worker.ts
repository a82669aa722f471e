// Sends each customer one letter: "it is on its way" when the order is durable, an apology when a failure took it. It may be
// stopped, or die, at any moment: what it owes is in the book, and verdicts can be asked for at any later time.
import { setTimeout as pause } from "node:timers/promises";
import { type Highwater } from "@highwater/sdk";
import { type DurabilityEvent, listen } from "./events.ts";
import { type OrderBook } from "./order-book.ts";

export interface Letter {
  readonly order: string;
  readonly customer: string;
  readonly text: string;
}

export interface MailWorkerOptions {
  readonly hw: Highwater;
  /** Nearest first. */
  readonly trackers: readonly string[];
  readonly book: OrderBook;
  readonly send: (letter: Letter) => Promise<void>;
  readonly signal: AbortSignal;
}

const LEVEL = "region";
const EVENTS = `/v1/durability/events?durable=true&level=${LEVEL}&metadata.kind=purchase`;
const ON_ITS_WAY = "your order is on its way";
const SORRY = "we are sorry: your order was lost, please order again";
const RECONNECT_MS = 200;
/** Events come at once; verdicts are asked for so often besides, for whatever no event was told of. */
const ASK_EVERY_MS = 2_000;

export class MailWorker {
  readonly #options: MailWorkerOptions;
  /** Orders whose letter is on its way out. */
  readonly #writing = new Set<string>();

  constructor(options: MailWorkerOptions) {
    this.#options = options;
  }

  /** Until the signal aborts. */
  async run(): Promise<void> {
    await Promise.all([this.#hearEvents(), this.#askNowAndThen()]);
  }

  /** When one tracker is gone, the next one tells the same. */
  async #hearEvents(): Promise<void> {
    const { trackers, signal } = this.#options;
    for (let at = 0; !signal.aborted; at++) {
      try {
        for await (const event of listen(`${trackers[at % trackers.length] ?? ""}${EVENTS}`, signal))
          await this.#hear(event);
      } catch {
        // The tracker has gone, or the worker is to stop.
      }
      await pause(RECONNECT_MS);
    }
  }

  async #hear({ type, data: { id = "" } }: DurabilityEvent): Promise<void> {
    if (type === "transaction.durable") await this.#settle(id, "durable");
    else if (type === "transaction.lost" || type === "transaction.broken") await this.#settle(id, "lost");
    // What happened before the stream began, or to the last epoch, the verdicts say.
    else if (type === "begin" || type === "epoch.started") await this.#ask();
  }

  async #askNowAndThen(): Promise<void> {
    const { signal } = this.#options;
    while (!signal.aborted) {
      await this.#ask().catch(() => undefined);
      await pause(ASK_EVERY_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  async #ask(): Promise<void> {
    const { hw, book, signal } = this.#options;
    for (const { id, token } of book.all()) if (token === null) await this.#findToken(id);
    const tokens = book.all().flatMap(({ token }) => token ?? []);
    if (tokens.length === 0) return;
    for (const judged of await hw.verdicts(tokens, { level: LEVEL, signal })) {
      if (!("id" in judged)) continue;
      if (judged.verdict === "durable") await this.#settle(judged.id, "durable");
      if (judged.verdict === "lost" || judged.verdict === "broken") await this.#settle(judged.id, "lost");
    }
  }

  /** The shop died, or its answer was lost, behind the commit or before it. */
  async #findToken(id: string): Promise<void> {
    const { hw, book, signal } = this.#options;
    const { state, token } = await hw.status(id, { signal });
    if (token !== undefined) book.setToken(id, token);
    else if (state === "lost" || state === "broken") await this.#settle(id, "lost");
    // It never was an order: whoever placed it was told so.
    else if (state === "aborted") book.remove(id);
  }

  /** Sent before it is crossed out: a crash in between sends it twice rather than never. */
  async #settle(id: string, end: "durable" | "lost"): Promise<void> {
    const { book, send } = this.#options;
    const order = this.#writing.has(id) ? undefined : book.find(id);
    if (order === undefined) return;
    this.#writing.add(id);
    try {
      await send({ order: id, customer: order.customer, text: end === "durable" ? ON_ITS_WAY : SORRY });
      book.remove(id);
    } finally {
      this.#writing.delete(id);
    }
  }
}
