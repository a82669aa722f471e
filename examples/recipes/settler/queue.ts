// The producer's side of the queue.
import { readFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";

export interface Payment {
  readonly id: string;
  readonly cents: number;
}

const SCHEMA = readFileSync(new URL("queue.sql", import.meta.url), "utf8");
const BUSY_TIMEOUT_MS = 10_000;

export class Queue {
  readonly #file: DatabaseSync;

  constructor(path: string) {
    this.#file = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS });
    this.#file.exec(SCHEMA);
  }

  /** Before the commit is sent: a crash behind it must not leave an unknown payment. */
  add({ id, cents }: Payment): void {
    this.#file.prepare("INSERT INTO queue (id, cents) VALUES (?, ?)").run(id, cents);
  }

  /** It is the settler's from now on. */
  put(id: string, token: string): void {
    this.#file.prepare("UPDATE queue SET token = ? WHERE id = ?").run(token, id);
  }

  /** Begun, and the answer is missing: by a crash, or because the outcome was unknown. */
  unanswered(): Payment[] {
    const rows = this.#file.prepare("SELECT id, cents FROM queue WHERE token IS NULL").all();
    return rows.map(({ id, cents }) => ({ id: String(id), cents: Number(cents) }));
  }

  /** It will never have a token. */
  settle(id: string, verdict: "aborted" | "lost"): void {
    this.#file.exec("BEGIN IMMEDIATE");
    this.#file.prepare("DELETE FROM queue WHERE id = ?").run(id);
    this.#file.prepare("INSERT INTO settlement (id, verdict) VALUES (?, ?)").run(id, verdict);
    this.#file.exec("COMMIT");
  }

  close(): void {
    this.#file.close();
  }
}
