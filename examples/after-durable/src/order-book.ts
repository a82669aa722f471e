// What the shop still owes its customers a letter about, in a file of its own: it must not be lost together with the orders.
import { DatabaseSync } from "node:sqlite";

export interface OpenOrder {
  /** The transaction's. */
  readonly id: string;
  readonly customer: string;
  /** Null until the commit was answered. */
  readonly token: string | null;
}

export class OrderBook {
  readonly #file: DatabaseSync;

  constructor(path: string) {
    this.#file = new DatabaseSync(path);
    this.#file.exec(
      "CREATE TABLE IF NOT EXISTS open_order (id TEXT PRIMARY KEY, customer TEXT NOT NULL, token TEXT)",
    );
  }

  /** Before the commit is sent: a crash behind it must not leave an order that nobody knows of. */
  add(id: string, customer: string): void {
    this.#file.prepare("INSERT INTO open_order (id, customer) VALUES (?, ?)").run(id, customer);
  }

  setToken(id: string, token: string): void {
    this.#file.prepare("UPDATE open_order SET token = ? WHERE id = ?").run(token, id);
  }

  remove(id: string): void {
    this.#file.prepare("DELETE FROM open_order WHERE id = ?").run(id);
  }

  find(id: string): OpenOrder | undefined {
    return this.all().find((order) => order.id === id);
  }

  all(): OpenOrder[] {
    const rows = this.#file.prepare("SELECT id, customer, token FROM open_order ORDER BY id").all();
    return rows.map(({ id, customer, token }) => ({
      id: String(id),
      customer: String(customer),
      token: token === null ? null : String(token),
    }));
  }

  close(): void {
    this.#file.close();
  }
}
