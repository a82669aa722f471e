// An application's connection to a gateway's PostgreSQL port, by node-postgres: its statements, and
// what an error of one says of the transaction.
import pg from "pg";
import { type Values } from "./schema.ts";

export interface WireAddress {
  /** Of a gateway, with its role and, where the services ask for one, an API key. */
  readonly url: string;
  /** At which its commits are answered. */
  readonly level: string;
}

const CONNECT_LIMIT_MS = 8_000;
/** An application's patience with one statement; what it has waited for is unknown then. */
const ANSWER_LIMIT_MS = 12_000;

/** As PostgreSQL says that a wait for a replica was given up: the commit may still be lost. */
const NOT_YET_DURABLE = /canceling wait for synchronous replication/;

/**
 * `failed`: the server refused the statement, so its transaction has no effect. `lost`: it had
 * committed, and a failover discarded it. `unknown`: the answer is missing.
 */
export type Failure = "failed" | "lost" | "unknown";

export class WireClient {
  readonly #client: pg.Client;
  #isOpen = true;
  #warned = false;

  private constructor(client: pg.Client) {
    this.#client = client;
    client.on("error", () => {
      this.#isOpen = false;
    });
    client.on("end", () => {
      this.#isOpen = false;
    });
    client.on("notice", ({ message }) => {
      this.#warned ||= NOT_YET_DURABLE.test(message ?? "");
    });
  }

  /** Errors: those of the driver. */
  static async connect({ url, level }: WireAddress): Promise<WireClient> {
    const client = new pg.Client({
      connectionString: url,
      connectionTimeoutMillis: CONNECT_LIMIT_MS,
      query_timeout: ANSWER_LIMIT_MS,
      application_name: "chaos",
      options: `-c default_transaction_isolation=serializable -c highwater.level=${level}`,
    });
    const opened = new WireClient(client);
    await client.connect();
    return opened;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Whether an answer since the last call came before its transaction was durable. */
  takeWarning(): boolean {
    const warned = this.#warned;
    this.#warned = false;
    return warned;
  }

  /** One statement in the extended protocol. Errors: those of the driver. */
  async run(sql: string, params: readonly (string | number)[] = []): Promise<Values> {
    const { rows } = await this.#client.query<(string | null)[]>({
      text: sql,
      values: [...params],
      rowMode: "array",
      types: { getTypeParser: () => (text: string) => text },
    });
    return rows;
  }

  /** A simple Query. Resolves with the tag of its last statement. Errors: those of the driver. */
  async say(text: string): Promise<string> {
    const answer = (await this.#client.query(text)) as pg.QueryResult | pg.QueryResult[];
    return (Array.isArray(answer) ? answer.at(-1) : answer)?.command ?? "";
  }

  /** Errors: those of the driver. */
  copy(sql: string, rows: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        reject(new Error("the copy was not answered in time"));
      }, ANSWER_LIMIT_MS);
      let error: Error | null = null;
      this.#client.query({
        submit: (connection: CopyConnection) => {
          connection.query(sql);
        },
        handleCopyInResponse: (connection: CopyConnection) => {
          connection.sendCopyFromChunk(Buffer.from(rows));
          connection.endCopyFrom();
        },
        handleCommandComplete: () => undefined,
        handleReadyForQuery: () => {
          clearTimeout(timer);
          if (error === null) resolve();
          else reject(error);
        },
        handleError: (cause: Error) => {
          error = cause;
          clearTimeout(timer);
          // Nothing follows where the connection itself has ended.
          if (failureOf(cause) !== "failed") reject(cause);
        },
      } as unknown as pg.Submittable);
    });
  }

  /** At once: what it waits for stays unknown. */
  destroy(): void {
    this.#isOpen = false;
    void this.#client.end().catch(() => undefined);
    (this.#client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
  }
}

interface CopyConnection {
  query(sql: string): void;
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
}

/** What an error of a statement that commits says of its transaction. */
export function failureOf(error: unknown): Failure {
  const { severity, code } = error as { readonly severity?: string; readonly code?: string };
  if (severity === "ERROR") return "failed";
  return severity === "FATAL" && code === "40001" ? "lost" : "unknown";
}
