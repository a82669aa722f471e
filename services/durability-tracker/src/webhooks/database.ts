// The connections for webhooks to the primary of one epoch. The end of the epoch closes them.
import pg from "pg";
import { type Act, enterAct, PostgresClient } from "@highwater/store";

export interface DatabaseOptions {
  readonly url: string;
  /** Names this process to the server. */
  readonly name: string;
  readonly connectTimeoutMs: number;
  readonly callTimeoutMs: number;
  readonly connections: number;
  readonly onError: (cause: unknown) => void;
}

export type Row = pg.QueryResultRow;

/** The part of a client that statements need: inside a transaction, whichever code has begun it. */
export type Executor = Pick<pg.ClientBase, "query">;

const IDLE_MS = 30_000;
/**
 * The job library's own statements, such as those that make its tables, may take this many times
 * the usual limit.
 */
const SLOW_CALLS = 10;
/** Serialization failure and deadlock: nothing was applied. */
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
      // No wait for a replica: a delivery that a failover forgets is made again with its event,
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
      // A server that is gone answers nothing; the connection is given up a little after it would
      // have been by the server.
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
      // Between the opening of a connection and the end of the epoch.
      if (this.#closed) destroy(client);
    });
    this.#pool.on("remove", (client) => this.#open.delete(client));
  }

  /** One statement, in a transaction of its own. */
  async query<R extends Row>(text: string, values: readonly unknown[] = []): Promise<R[]> {
    return (await this.#pool.query<R>(text, [...values])).rows;
  }

  /**
   * Runs it again when the server could not fit it in among others. `act`: whose change it is, for
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
   * For the job library: what it may do with a connection of this epoch. Its turns are advisory
   * locks, which everybody who can run SQL could hold; here it takes them with a table's lock that
   * only the service may take.
   */
  readonly executeSql = async (text: string, values?: readonly unknown[]): Promise<{ rows: Row[] }> =>
    this.#pool.query(withPrivateTurns(text), [...(values ?? [])]);

  /** Cuts what is under way: the server may be gone. */
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

/** Errors: when the library takes a lock in another way than it did. */
function withPrivateTurns(text: string): string {
  if (!ADVISORY.test(text)) return text;
  const own = text
    .replace(WAITING_TURN, "LOCK TABLE highwater.job_turn IN EXCLUSIVE MODE")
    // Two who count at once count the same: to try needs no lock.
    .replace(TRIED_TURN, "SELECT true AS got");
  if (ADVISORY.test(own)) throw new Error("the job library takes an advisory lock in a new way");
  return own;
}

function destroy(client: pg.ClientBase): void {
  const { connection } = client as unknown as { connection: { stream: { destroy(): void } } };
  connection.stream.destroy();
}
