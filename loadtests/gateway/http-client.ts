// The transaction through a gateway: one POST on a connection that is kept open.
import { randomUUID } from "node:crypto";
import { HttpConnection } from "./http-connection.ts";
import { type Client, ISOLATION, LEVEL } from "./workload.ts";
import type { GatewayTarget } from "./generator.ts";

interface Answer {
  readonly state?: string;
  readonly kept?: boolean;
  readonly code?: string;
  readonly results?: readonly { readonly rowCount: number | null }[];
}

export class HttpClient implements Client {
  readonly #connection: HttpConnection;
  readonly #target: GatewayTarget;

  private constructor(connection: HttpConnection, target: GatewayTarget) {
    this.#connection = connection;
    this.#target = target;
  }

  static async open(target: GatewayTarget): Promise<HttpClient> {
    return new HttpClient(await HttpConnection.open(target.url), target);
  }

  async transact(row: string): Promise<boolean> {
    const { statements, ack, keep = false } = this.#target;
    const body = JSON.stringify({
      id: newId(),
      isolation: ISOLATION,
      statements: statements.map((sql) => ({ sql, params: [row] })),
      ack,
      ...(ack === "durable" && { level: LEVEL }),
      ...(keep && { keep }),
    });
    const { status, text } = await this.#connection.post("/v1/transactions", body);
    const answer = JSON.parse(text) as Answer;
    if (status === 409 && answer.code === "serialization_failure") return false;
    // A safe transaction that is still pending was not answered as it was asked to be.
    const wanted = ack === "durable" ? "durable" : "committed";
    const isKept = !keep || answer.kept === true;
    if (status !== 200 || !isKept || answer.state !== wanted || answer.results?.at(-1)?.rowCount !== 1)
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
