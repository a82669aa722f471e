// Takes orders fast, and writes one e-mail about each as soon as it is known what became of it. It
// may be stopped, or die, at any moment: what it owes is in the book, and a token can be judged at
// any later time.
import {
  type Highwater,
  HighwaterError,
  newTransactionId,
  sql,
  StatementError,
  TransactionAbortedError,
  TransactionLostError,
} from "@highwater/sdk";
import { type OrderBook, type OrderRecord, type Order, type OrderState } from "./book.ts";
import { type Send } from "./mailer.ts";

export interface OrdersOptions {
  readonly hw: Highwater;
  readonly book: OrderBook;
  readonly send: Send;
  readonly warn: (error: unknown, what: string) => void;
}

/** It never was an order, or is none any more. */
const OVER = [TransactionLostError, TransactionAbortedError, StatementError];
/** How soon it is tried again to send what the database or the mail server did not take. */
const RETRY_MS = 1_000;

export class Orders {
  readonly #options: OrdersOptions;
  /** Orders that are being placed or written about. */
  readonly #busy = new Map<string, Promise<void>>();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: OrdersOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    const { hw, book } = this.#options;
    // No customer has to wait for this to be durable: an order that is durable has a durable table.
    await hw.transaction(
      sql`CREATE TABLE IF NOT EXISTS purchase (id uuid PRIMARY KEY, customer text NOT NULL, item text NOT NULL)`,
    );
    // These get the commits from now on, and the promises that the last process left.
    hw.onDurable(({ id }) => {
      this.#settle(id, "confirmed");
    });
    hw.onLost(({ id }) => {
      this.#settle(id, "lost");
    });
    for (const { token } of book.pending()) if (token !== null) hw.promise(token);
    this.#retry();
    this.#timer = setInterval(() => {
      this.#retry();
    }, RETRY_MS);
  }

  /**
   * Resolves at the commit, after a few milliseconds: anybody can see the order, and a failure may
   * still take it. Where it is unknown whether it was committed, `isCommitted` is false: it is in
   * the book, and is placed again until that is known.
   */
  async place(order: Order): Promise<{ id: string; isCommitted: boolean }> {
    const id = newTransactionId();
    this.#options.book.add(id, order);
    try {
      await this.#whileBusy(id, () => this.#commit(id, order));
      return { id, isCommitted: true };
    } catch (error) {
      if (error instanceof HighwaterError && error.outcome === "unknown") return { id, isCommitted: false };
      this.#options.book.remove(id);
      throw error;
    }
  }

  find(id: string): OrderRecord | undefined {
    return this.#options.book.find(id);
  }

  /** Resolves when no e-mail is on its way out any more; closes client and book. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#options.hw.close();
    await Promise.allSettled(this.#busy.values());
    this.#options.book.close();
  }

  async #commit(id: string, { customer, item }: Order): Promise<void> {
    const { hw, book } = this.#options;
    const { token } = await hw.transaction(sql`INSERT INTO purchase VALUES (${id}, ${customer}, ${item})`, {
      id,
    });
    book.setToken(id, token);
  }

  #settle(id: string, state: OrderState): void {
    this.#options.book.settle(id, state);
    this.#write(id);
  }

  #retry(): void {
    const { book } = this.#options;
    for (const order of book.unanswered()) this.#submitAgain(order);
    for (const { id } of book.unmailed()) this.#write(id);
  }

  /**
   * The same id never runs twice: either this commits it now, or it finds what the first attempt
   * came to.
   */
  #submitAgain(order: OrderRecord): void {
    const { id } = order;
    if (this.#busy.has(id)) return;
    void this.#whileBusy(id, () => this.#commit(id, order)).catch((error: unknown) => {
      if (OVER.some((kind) => error instanceof kind)) this.#settle(id, "lost");
      else this.#options.warn(error, `order ${id} could not be placed again`);
    });
  }

  /** Crossed out after it was sent: a crash in between sends it twice rather than never. */
  #write(id: string): void {
    const { book, send, warn } = this.#options;
    const order = this.#busy.has(id) ? undefined : book.find(id);
    if (order === undefined || order.state === "pending" || order.mailed) return;
    void this.#whileBusy(id, async () => {
      await send(order);
      book.setMailed(id);
    }).catch((error: unknown) => {
      warn(error, `the e-mail about order ${id} was not taken`);
    });
  }

  async #whileBusy(id: string, work: () => Promise<void>): Promise<void> {
    const done = work();
    this.#busy.set(id, done);
    try {
      await done;
    } finally {
      this.#busy.delete(id);
    }
  }
}
