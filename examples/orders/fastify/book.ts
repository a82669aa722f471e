// What the shop owes its customers an answer about, in a file of its own: it must not be lost
// together with the orders.
import { DatabaseSync } from "node:sqlite";

export interface Order {
  readonly customer: string;
  readonly item: string;
}

/**
 * `pending`: the customer knows that it was taken, and it is unknown yet whether it will survive.
 */
export type OrderState = "pending" | "confirmed" | "lost";

export interface OrderRecord extends Order {
  /** The transaction's, too. */
  readonly id: string;
  /** Null until the commit was answered. */
  readonly token: string | null;
  readonly state: OrderState;
  readonly mailed: boolean;
}

export class OrderBook {
  readonly #file: DatabaseSync;

  constructor(path: string) {
    this.#file = new DatabaseSync(path);
    this.#file.exec(`CREATE TABLE IF NOT EXISTS entry (
      id TEXT PRIMARY KEY, customer TEXT NOT NULL, item TEXT NOT NULL, token TEXT,
      state TEXT NOT NULL DEFAULT 'pending', mailed INTEGER NOT NULL DEFAULT 0)`);
  }

  /** Before the commit is sent: a crash behind it must not leave an unknown order. */
  add(id: string, { customer, item }: Order): void {
    this.#file.prepare("INSERT INTO entry (id, customer, item) VALUES (?, ?, ?)").run(id, customer, item);
  }

  setToken(id: string, token: string): void {
    this.#file.prepare("UPDATE entry SET token = ? WHERE id = ?").run(token, id);
  }

  settle(id: string, state: OrderState): void {
    this.#file.prepare("UPDATE entry SET state = ? WHERE id = ? AND state = 'pending'").run(state, id);
  }

  setMailed(id: string): void {
    this.#file.prepare("UPDATE entry SET mailed = 1 WHERE id = ?").run(id);
  }

  remove(id: string): void {
    this.#file.prepare("DELETE FROM entry WHERE id = ?").run(id);
  }

  find(id: string): OrderRecord | undefined {
    return this.#select("id = ?", id)[0];
  }

  /** Committed, perhaps: the answer is missing. */
  unanswered(): OrderRecord[] {
    return this.#select("token IS NULL AND state = 'pending'");
  }

  /** Committed, and not known to be durable or lost. */
  pending(): OrderRecord[] {
    return this.#select("token IS NOT NULL AND state = 'pending'");
  }

  /** Settled, and the customer was not informed. */
  unmailed(): OrderRecord[] {
    return this.#select("state <> 'pending' AND mailed = 0");
  }

  close(): void {
    this.#file.close();
  }

  #select(condition: string, ...params: string[]): OrderRecord[] {
    const rows = this.#file.prepare(`SELECT * FROM entry WHERE ${condition}`).all(...params);
    return rows.map(({ id, customer, item, token, state, mailed }) => ({
      id: String(id),
      customer: String(customer),
      item: String(item),
      token: token === null ? null : String(token),
      state: state as OrderState,
      mailed: mailed === 1,
    }));
  }
}
