// The transaction through a gateway: one POST on a connection that is kept open.
import { randomUUID } from "node:crypto";
import { HttpConnection } from "./http-connection.ts";
import { type Client, ISOLATION, SELECT, UPDATE } from "./workload.ts";

interface Answer {
  readonly state?: string;
  readonly code?: string;
  readonly results?: readonly { readonly rows: readonly (readonly (string | null)[])[] }[];
}

export class HttpClient implements Client {
  readonly #connection: HttpConnection;

  private constructor(connection: HttpConnection) {
    this.#connection = connection;
  }

  static async open(address: string): Promise<HttpClient> {
    return new HttpClient(await HttpConnection.open(address));
  }

  async transact(row: string): Promise<boolean> {
    const body = JSON.stringify({
      id: newId(),
      isolation: ISOLATION,
      statements: [
        { sql: UPDATE, params: [row] },
        { sql: SELECT, params: [row] },
      ],
    });
    const { status, text } = await this.#connection.post("/v1/transactions", body);
    const answer = JSON.parse(text) as Answer;
    if (status === 409 && answer.code === "serialization_failure") return false;
    const found = answer.results?.[1]?.rows[0]?.[0];
    if (status !== 200 || answer.state !== "committed" || !(Number(found) >= 1))
      throw new Error(`the gateway answered ${String(status)} ${text}`);
    return true;
  }

  close(): Promise<void> {
    this.#connection.close();
    return Promise.resolve();
  }
}

/** A UUID of version 7: a random one of version 4 with the time in its first 48 bits. */
export function newId(): string {
  const time = Date.now().toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`;
}
