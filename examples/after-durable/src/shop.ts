// The shop: takes orders fast. Whoever orders is told at the commit that the order is in; the letter comes when it is safe.
import { type Highwater, newTransactionId, sql } from "@highwater/sdk";
import { type OrderBook } from "./order-book.ts";

export class Shop {
  readonly #hw: Highwater;
  readonly #book: OrderBook;

  constructor(hw: Highwater, book: OrderBook) {
    this.#hw = hw;
    this.#book = book;
  }

  async open(): Promise<void> {
    await this.#hw.transaction(
      [sql`CREATE TABLE purchase (id uuid PRIMARY KEY, customer text NOT NULL, item text NOT NULL)`],
      {
        ack: "durable",
        level: "global",
      },
    );
  }

  /** Resolves at the commit, after a few milliseconds. */
  async order(customer: string, item: string): Promise<string> {
    const id = newTransactionId();
    this.#book.add(id, customer);
    const { token } = await this.#hw.transaction(
      [sql`INSERT INTO purchase VALUES (${id}, ${customer}, ${item})`],
      {
        ...{ id, metadata: { kind: "purchase" } },
      },
    );
    this.#book.setToken(id, token);
    return id;
  }
}
