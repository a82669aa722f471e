// The connections of webhooks to the primary of one epoch. When the epoch ends, they are closed.
import pg from "pg";
import { type Act, enterAct, PostgresClient } from "@highwater/store";

export interface DatabaseOptions {
  readonly url: string;
  /** The name of this process in the server's list of connections. */
  readonly name: string;
  readonly connectTimeoutMs: number;
  readonly callTimeoutMs: number;
  readonly connections: number;
  readonly onError: (cause: unknown) => void;
}

export type Row = pg.QueryResultRow;

/** The part of a client that statements need, inside a transaction that other code has begun. */
export type Executor = Pick<pg.ClientBase, "query">;

const IDLE_MS = 30_000;
/**
 * The job library's own statements may take this many times the usual limit, for instance to make
 * its tables.
 */
const SLOW_CALLS = 10;
/** Serialization failure and deadlock. Nothing was applied. */
const CONFLICTS: ReadonlySet<string> = new Set(["40001", "40P01"]);
const ATTEMPTS_MAX = 5;

export class Database {
  readonly #pool: pg.Pool;
  readonly #open = new Set<pg.PoolClient>();
  #closed = false;

  constructor(options: DatabaseOptions) {
    const { url, name, connectTimeoutMs, callTimeoutMs, connections, onError } = options;
    const limitMs = SLOW_CALLS * callTimeoutMs;
    const settings = {
      search_path: "pg_catalog",
      // Does not wait for a replica: a delivery that a failover loses is made again with its event,
      // under the same id.
      synchronous_commit: "local",
      default_transaction_isolation: "read\\ committed",
      default_transaction_read_only: "off",
      statement_timeout: String(limitMs),
      idle_in_transaction_session_timeout: String(limitMs),
    };
    this.#pool = new pg.Pool({
      Client: PostgresClient,
      connectionString: url,
      application_name: name.slice(0, 63),
      options: Object.entries(settings)
        .map(([key, value]) => `-c ${key}=${value}`)
        .join(" "),
      connectionTimeoutMillis: connectTimeoutMs,
      // A dead server reports no timeout, so the client gives up a little later than the server
      // would.
      query_timeout: limitMs + connectTimeoutMs,
      idleTimeoutMillis: IDLE_MS,
      keepAlive: true,
      max: connections,
      allowExitOnIdle: true,
    });
    this.#pool.on("error", onError);
    this.#pool.on("connect", (client) => {
      this.#open.add(client);
      client.on("error", onError);
      // The epoch ended while the connection was being opened.
      if (this.#closed) destroy(client);
    });
    this.#pool.on("remove", (client) => this.#open.delete(client));
  }

  /** Runs one statement in its own transaction. */
  async query<R extends Row>(text: string, values: readonly unknown[] = []): Promise<R[]> {
    return (await this.#pool.query<R>(text, [...values])).rows;
  }

  /**
   * Runs the work again after a conflict with other transactions. `act`: who makes the change, for
   * the audit log.
   */
  async transaction<T>(work: (client: Executor) => Promise<T>, act?: Act): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#transactOnce(work, act);
      } catch (cause) {
        const { code } = cause as { code?: unknown };
        if (attempt === ATTEMPTS_MAX || typeof code !== "string" || !CONFLICTS.has(code)) throw cause;
      }
    }
  }

  async #transactOnce<T>(work: (client: Executor) => Promise<T>, act?: Act): Promise<T> {
    const client = await this.#pool.connect();
    let isBroken = false;
    try {
      await client.query("BEGIN");
      if (act !== undefined) await enterAct(client, act);
      const result = await work(client);
      await client.query("COMMIT");
      return result;
    } catch (cause) {
      await client.query("ROLLBACK").catch(() => {
        isBroken = true;
      });
      throw cause;
    } finally {
      client.release(isBroken);
    }
  }

  /**
   * The job library's access to the connections of this epoch. The library takes turns by advisory
   * locks, which every SQL user could hold; here it takes a lock on a table that only the service
   * may lock.
   */
  readonly executeSql = async (text: string, values?: readonly unknown[]): Promise<{ rows: Row[] }> =>
    this.#pool.query(withPrivateTurns(text), [...(values ?? [])]);

  /** Cuts running calls, because the server may be dead. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const client of this.#open) destroy(client);
    this.#pool.end().catch(() => undefined);
  }
}

const ADVISORY = /pg_(?:try_)?advisory/i;
const WAITING_TURN = /SELECT pg_advisory_xact_lock\(.*\)(?=;)/g;
const TRIED_TURN = /SELECT pg_try_advisory_xact_lock\(.*\) AS got/g;

/** Errors: when a new version of the library takes its lock in another way. */
function withPrivateTurns(text: string): string {
  if (!ADVISORY.test(text)) return text;
  const own = text
    .replace(WAITING_TURN, "LOCK TABLE highwater.job_turn IN EXCLUSIVE MODE")
    // Concurrent counts give the same result, so an attempt needs no lock.
    .replace(TRIED_TURN, "SELECT true AS got");
  if (ADVISORY.test(own)) throw new Error("the job library takes an advisory lock in a new way");
  return own;
}

function destroy(client: pg.ClientBase): void {
  const { connection } = client as unknown as { connection: { stream: { destroy(): void } } };
  connection.stream.destroy();
}
