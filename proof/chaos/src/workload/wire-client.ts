// An application's connection to a gateway's PostgreSQL port, with node-postgres: its statements,
// the tokens and warnings that come with answers, and the outcome of the transaction after an
// error.
import pg from "pg";
import { type Values } from "./schema.ts";

export interface WireAddress {
  /** The gateway's address, with a role and, where services require one, an API key. */
  readonly url: string;
  /** The level at which its commits are answered. */
  readonly level: string;
  readonly ack: "commit" | "durable";
  /** Statements are sent without waiting for earlier answers. */
  readonly isPipelined: boolean;
}

const CONNECT_LIMIT_MS = 8_000;
/** An application's limit for one statement. After it the outcome is unknown. */
const ANSWER_LIMIT_MS = 12_000;

const TOKEN_PARAMETER = "highwater.token";
/** PostgreSQL's warning that a wait for a replica was given up: the commit may still be lost. */
const NOT_YET_DURABLE = /canceling wait for synchronous replication/;

/**
 * `failed`: the server refused the statement, so its transaction has no effect. `lost`: it had
 * committed, and a failover discarded it. `unknown`: there was no answer.
 */
export type Failure = "failed" | "lost" | "unknown";

/** Received with an answer, up to its ReadyForQuery. */
interface Beside {
  /** Null: no token, or an empty one. */
  readonly token: string | null;
  /** The answer came before the commit was durable, with a warning. */
  readonly isEarly: boolean;
}

export interface Answer extends Beside {
  readonly rows: Values;
  /** The command of its last statement. */
  readonly tag: string;
}

const NOTHING: Beside = { token: null, isEarly: false };

export class WireClient {
  readonly #client: pg.Client;
  /** One for each outstanding ReadyForQuery, in the order of the statements. */
  readonly #awaited: { beside: Beside }[] = [];
  #beside = NOTHING;
  #isOpen = true;

  private constructor(client: pg.Client) {
    this.#client = client;
    client.on("error", () => {
      this.#isOpen = false;
    });
    client.on("end", () => {
      this.#isOpen = false;
    });
    client.on("notice", ({ message }) => {
      if (NOT_YET_DURABLE.test(message ?? "")) this.#beside = { ...this.#beside, isEarly: true };
    });
    const { connection } = client as unknown as { readonly connection: Connection };
    connection.on("parameterStatus", ({ parameterName, parameterValue }) => {
      if (parameterName !== TOKEN_PARAMETER) return;
      this.#beside = { ...this.#beside, token: parameterValue === "" ? null : parameterValue };
    });
    // Before the statement's promise settles, which the driver does here.
    connection.on("readyForQuery", () => {
      const awaited = this.#awaited.shift();
      if (awaited !== undefined) awaited.beside = this.#beside;
      this.#beside = NOTHING;
    });
  }

  /** Errors: those of the driver. */
  static async connect({ url, level, ack, isPipelined }: WireAddress): Promise<WireClient> {
    const options: pg.ClientConfig & { readonly pipeline: boolean } = {
      connectionString: url,
      connectionTimeoutMillis: CONNECT_LIMIT_MS,
      query_timeout: ANSWER_LIMIT_MS,
      application_name: "chaos",
      options: `-c default_transaction_isolation=serializable -c highwater.level=${level} -c highwater.ack=${ack}`,
      pipeline: isPipelined,
    };
    const client = new pg.Client(options);
    const opened = new WireClient(client);
    await client.connect();
    return opened;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** One statement in the extended protocol. Errors: those of the driver. */
  run(sql: string, params: readonly (string | number)[] = []): Promise<Answer> {
    return this.#ask(() =>
      this.#client.query<(string | null)[]>({
        text: sql,
        values: [...params],
        rowMode: "array",
        types: { getTypeParser: () => (text: string) => text },
      }),
    );
  }

  /** A simple Query. Errors: those of the driver. */
  say(text: string): Promise<Answer> {
    return this.#ask(async () => {
      const answer = (await this.#client.query(text)) as pg.QueryResult | pg.QueryResult[];
      const last = Array.isArray(answer) ? answer.at(-1) : answer;
      return { command: last?.command ?? "", rows: [] };
    });
  }

  async #ask(send: () => Promise<{ readonly command: string; readonly rows: Values }>): Promise<Answer> {
    const awaited = { beside: NOTHING };
    this.#awaited.push(awaited);
    const { command, rows } = await send();
    return { rows, tag: command, ...awaited.beside };
  }

  /** Only where statements are not pipelined. Errors: those of the driver. */
  copy(sql: string, rows: string): Promise<Answer> {
    const copied = async (): Promise<{ readonly command: string; readonly rows: Values }> => {
      await new Promise<void>((resolve, reject) => {
        const timer = setTimeout(() => {
          reject(new Error("the copy was not answered in time"));
        }, ANSWER_LIMIT_MS);
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
            resolve();
          },
          // The driver calls nothing else afterwards.
          handleError: (cause: Error) => {
            clearTimeout(timer);
            reject(cause);
          },
        } as unknown as pg.Submittable);
      });
      return { command: "COPY", rows: [] };
    };
    return this.#ask(copied);
  }

  /** Closes it at once; outstanding outcomes stay unknown. */
  destroy(): void {
    this.#isOpen = false;
    void this.#client.end().catch(() => undefined);
    (this.#client as unknown as { connection: Connection }).connection.stream.destroy();
  }
}

interface Connection {
  readonly stream: { destroy(): void };
  on(
    event: "parameterStatus",
    listener: (message: { parameterName: string; parameterValue: string }) => void,
  ): void;
  on(event: "readyForQuery", listener: () => void): void;
}

interface CopyConnection {
  query(sql: string): void;
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
}

/** What an error of a committing statement means for its transaction. */
export function failureOf(error: unknown): Failure {
  const { severity, code } = error as { readonly severity?: string; readonly code?: string };
  if (severity === "ERROR") return "failed";
  return severity === "FATAL" && code === "40001" ? "lost" : "unknown";
}
