// One client's way to the database: a single-statement transaction at a time, through a gateway or
// straight to PostgreSQL.
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { newId } from "../../gateway/http-client.ts";
import { HttpConnection } from "../../gateway/http-connection.ts";
import { Highwater, HighwaterError } from "@highwater/sdk";
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

/**
 * One for each client. Those of the SDK share one client of it, and those of a pool the pool, as in
 * an application. `connections`: of the pool.
 */
export async function openSessions(
  target: Target,
  { clients, connections }: { readonly clients: number; readonly connections: number | undefined },
): Promise<Session[]> {
  const each = (open: () => Promise<Session>): Promise<Session[]> =>
    Promise.all(Array.from({ length: clients }, open));
  const shared = (session: Session): Session[] => Array.from({ length: clients }, () => session);
  if (target.kind === "gateway") {
    if (target.client === "sockets") return each(() => GatewaySession.open(target));
    return shared(new SdkSession(target));
  }
  if (connections === undefined || target.isPooledByServer) return each(() => DirectSession.open(target));
  return shared(new DirectSession(new pg.Pool({ ...configOf(target), max: connections }), target));
}

const RETRY_MS = 100;

interface Answer {
  readonly state?: string;
  readonly retry?: string;
  readonly retryAfterMs?: number;
  readonly results?: readonly { readonly rowCount: number | null }[];
}

type GatewayTarget = Extract<Target, { readonly kind: "gateway" }>;
export type DirectTarget = Extract<Target, { readonly kind: "direct" }>;

class GatewaySession implements Session {
  readonly #connection: HttpConnection;
  readonly #target: GatewayTarget;

  private constructor(connection: HttpConnection, target: GatewayTarget) {
    this.#connection = connection;
    this.#target = target;
  }

  static async open(target: GatewayTarget): Promise<GatewaySession> {
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

/** As the README has it: one client for the process, and nothing set. */
class SdkSession implements Session {
  readonly #client: Highwater;
  readonly #target: GatewayTarget;

  constructor(target: GatewayTarget) {
    const { url: gateway, tracker, level } = target;
    this.#target = target;
    this.#client = new Highwater({ endpoints: [{ gateway, tracker }], level });
  }

  async run({ sql, params }: Statement, readOnly: boolean): Promise<boolean> {
    const { ack, isolation } = this.#target;
    try {
      // The caller counts conflicts, and runs them again for every kind of session.
      await this.#client.transaction({ sql, params }, { ack, isolation, readOnly, maxAttempts: 1 });
      return true;
    } catch (cause) {
      if (!(cause instanceof HighwaterError) || cause.retry !== "transaction") throw cause;
      return false;
    }
  }

  close(): Promise<void> {
    return this.#client.close();
  }
}

/**
 * As an application would write it: a prepared statement that commits by itself, so one round trip
 * in all.
 */
class DirectSession implements Session {
  readonly #database: pg.Client | pg.Pool;
  readonly #isPrepared: boolean;
  #closed: Promise<void> | null = null;

  constructor(database: pg.Client | pg.Pool, { isPooledByServer }: DirectTarget) {
    this.#database = database;
    this.#isPrepared = !isPooledByServer;
  }

  static async open(target: DirectTarget): Promise<DirectSession> {
    return new DirectSession(await connect(target), target);
  }

  async run({ sql, params }: Statement): Promise<boolean> {
    try {
      const { rowCount } = await this.#database.query({
        ...(this.#isPrepared && { name: sql }),
        text: sql,
        values: [...params],
      });
      if (rowCount !== 1) throw new Error(`${String(rowCount)} rows instead of one: ${sql}`);
      return true;
    } catch (cause) {
      if (!CONFLICTS.has((cause as { code?: unknown }).code)) throw cause;
      return false;
    }
  }

  /** Clients that share a pool close it more than once. */
  close(): Promise<void> {
    return (this.#closed ??= this.#database.end());
  }
}

export async function connect(
  target: DirectTarget,
  more: pg.ClientConfig & { readonly pipeline?: boolean } = {},
): Promise<pg.Client> {
  const client = new pg.Client({ ...configOf(target), ...more });
  await client.connect();
  return client;
}

function configOf({ url, synchronousCommit, isolation, isPooledByServer }: DirectTarget): pg.ClientConfig {
  const settings = {
    synchronous_commit: synchronousCommit,
    // A blank inside a setting of the connection string needs a backslash.
    default_transaction_isolation: isolation.replaceAll(" ", "\\ "),
  };
  const options = Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${value}`)
    .join(" ");
  return {
    connectionString: url,
    application_name: "experiments",
    // The role of those behind PgBouncer has the settings.
    ...(!isPooledByServer && { options }),
  };
}
