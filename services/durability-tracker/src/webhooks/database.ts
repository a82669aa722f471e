// The connections of webhooks to the primary of one epoch. When the epoch ends, they are closed.
import pg from "pg";
import { HighwaterError } from "@highwater/protocol";
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
const RETRY_MS = 1_000;

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

  /**
   * Runs one statement in its own transaction. Errors: HighwaterError `primary_unavailable`; a
   * write may then have been applied.
   */
  async query<R extends Row>(text: string, values: readonly unknown[] = []): Promise<R[]> {
    try {
      return (await this.#pool.query<R>(text, [...values])).rows;
    } catch (cause) {
      throw isUnreachable(cause) ? unreachable(cause) : cause;
    }
  }

  /**
   * Runs the work again after a conflict with other transactions. `act`: who makes the change, for
   * the audit log. Errors: HighwaterError `primary_unavailable` (nothing was applied), and
   * `internal` if the connection broke while the transaction was committed.
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
    const client = await this.#pool.connect().catch((cause: unknown) => {
      throw unreachable(cause);
    });
    let isBroken = false;
    let isCommitting = false;
    try {
      await client.query("BEGIN");
      if (act !== undefined) await enterAct(client, act);
      const result = await work(client);
      isCommitting = true;
      await client.query("COMMIT");
      return result;
    } catch (cause) {
      await client.query("ROLLBACK").catch(() => {
        isBroken = true;
      });
      if (!isUnreachable(cause)) throw cause;
      throw isCommitting ? uncertain(cause) : unreachable(cause);
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

/** Connection failures, too little room, shutdown and start of the server. */
const UNREACHABLE = /^(?:08|53|57P)/;
/** A server that has become a replica refuses writes. */
const READ_ONLY = "25006";

/** The driver throws plain errors when a connection breaks or a limit of time is over. */
function isUnreachable(cause: unknown): boolean {
  if (cause instanceof pg.DatabaseError)
    return UNREACHABLE.test(cause.code ?? "") || cause.code === READ_ONLY;
  return cause instanceof AggregateError || (cause instanceof Error && cause.constructor === Error);
}

export function unreachable(cause?: unknown): HighwaterError {
  const detail = "The tracker cannot reach the webhooks' tables now; retry.";
  return new HighwaterError("primary_unavailable", { detail, retryAfterMs: RETRY_MS }, { cause });
}

function uncertain(cause: unknown): HighwaterError {
  const detail =
    "The connection broke while the change was committed. List the endpoints or deliveries to see whether it was applied.";
  return new HighwaterError("internal", { detail }, { cause });
}

function destroy(client: pg.ClientBase): void {
  const { connection } = client as unknown as { connection: { stream: { destroy(): void } } };
  connection.stream.destroy();
}
