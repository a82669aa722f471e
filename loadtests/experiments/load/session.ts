// One client's way to the database: a single-statement transaction at a time, through a gateway or
// straight to PostgreSQL.
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import type { Isolation } from "@highwater/protocol";
import { newId } from "../../gateway/http-client.ts";
import { HttpConnection } from "../../gateway/http-connection.ts";
import type { Target } from "./target.ts";
import type { Statement } from "./workload.ts";

export interface Session {
  /** False: refused for a conflict with another transaction, and nothing was applied. */
  run(statement: Statement, readOnly: boolean): Promise<boolean>;
  close(): Promise<void>;
}

/**
 * What PostgreSQL ends a transaction with that may be run again: serialization failure, deadlock.
 */
export const CONFLICTS: ReadonlySet<unknown> = new Set(["40001", "40P01"]);

export async function openSession(target: Target): Promise<Session> {
  return target.kind === "gateway" ? GatewaySession.open(target) : DirectSession.open(target);
}

const RETRY_MS = 100;

interface Answer {
  readonly state?: string;
  readonly retry?: string;
  readonly retryAfterMs?: number;
  readonly results?: readonly { readonly rowCount: number | null }[];
}

class GatewaySession implements Session {
  readonly #connection: HttpConnection;
  readonly #target: Extract<Target, { kind: "gateway" }>;

  private constructor(connection: HttpConnection, target: Extract<Target, { kind: "gateway" }>) {
    this.#connection = connection;
    this.#target = target;
  }

  static async open(target: Extract<Target, { kind: "gateway" }>): Promise<GatewaySession> {
    return new GatewaySession(await HttpConnection.open(target.url), target);
  }

  async run(statement: Statement, readOnly: boolean): Promise<boolean> {
    const { ack, level, isolation } = this.#target;
    const body = {
      id: newId(),
      isolation,
      statements: [statement],
      ack,
      ...(readOnly && { readOnly }),
      ...(ack === "durable" && { level }),
    };
    const { status, text } = await this.#connection.post("/v1/transactions", JSON.stringify(body));
    const answer = JSON.parse(text) as Answer;
    if (status === 503 && answer.retry === "wait") {
      // Refused unread, because the machine is overloaded: its wait counts into the transaction's
      // time.
      await sleep(answer.retryAfterMs ?? RETRY_MS);
      return this.run(statement, readOnly);
    }
    if (status === 409 && answer.retry === "transaction") return false;
    // A safe transaction that was only said to be pending was not answered as it was asked to be:
    // that is no measurement.
    const wanted = ack === "durable" ? "durable" : "committed";
    if (status !== 200 || answer.state !== wanted || answer.results?.[0]?.rowCount !== 1)
      throw new Error(`the gateway answered ${String(status)} ${text}`);
    return true;
  }

  close(): Promise<void> {
    this.#connection.close();
    return Promise.resolve();
  }
}

/**
 * As an application would write it: a prepared statement that commits by itself, so one round trip
 * in all.
 */
class DirectSession implements Session {
  readonly #client: pg.Client;

  private constructor(client: pg.Client) {
    this.#client = client;
  }

  static async open(target: Extract<Target, { kind: "direct" }>): Promise<DirectSession> {
    return new DirectSession(await connect(target));
  }

  async run({ sql, params }: Statement): Promise<boolean> {
    try {
      const { rowCount } = await this.#client.query({ name: sql, text: sql, values: [...params] });
      if (rowCount !== 1) throw new Error(`${String(rowCount)} rows instead of one: ${sql}`);
      return true;
    } catch (cause) {
      if (!CONFLICTS.has((cause as { code?: unknown }).code)) throw cause;
      return false;
    }
  }

  close(): Promise<void> {
    return this.#client.end();
  }
}

export async function connect(options: {
  readonly url: string;
  readonly synchronousCommit: string;
  readonly isolation: Isolation;
}): Promise<pg.Client> {
  const settings = {
    synchronous_commit: options.synchronousCommit,
    // A blank inside a setting of the connection string needs a backslash.
    default_transaction_isolation: options.isolation.replaceAll(" ", "\\ "),
  };
  const client = new pg.Client({
    connectionString: options.url,
    application_name: "experiments",
    options: Object.entries(settings)
      .map(([name, value]) => `-c ${name}=${value}`)
      .join(" "),
  });
  await client.connect();
  return client;
}

/**
 * Many clients on one session, each in its turn: what a middleware does that has to keep commits in
 * its own order.
 */
export function inTurn(session: Session): Session {
  let last: Promise<unknown> = Promise.resolve();
  let closed: Promise<void> | null = null;
  return {
    run: (statement, readOnly) => {
      const run = last.then(() => session.run(statement, readOnly));
      last = run.catch(() => undefined);
      return run;
    },
    close: () => (closed ??= session.close()),
  };
}
