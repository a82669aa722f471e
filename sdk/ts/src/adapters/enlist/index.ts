/**
 * Adds Highwater to transactions on the application's own connections to the primary: of `pg`, its
 * pool, and what runs on them, or of postgres.js.
 * @module
 */
import { type Highwater } from "../../index.ts";
import { callUser } from "../../runtime.ts";
import { TicketService, type EnlistOptions } from "./ticket-service.ts";
import { EnlistedClient, type PgClient, type PgPool } from "./pg.ts";
import { EnlistedPostgres, type PostgresSql } from "./postgres.ts";
import { EnlistedTransaction } from "./transaction.ts";

export type { BodyResult, BodySql, Committed, PostgresSql } from "./postgres.ts";
export type { EnlistOptions, EnlistedPostgres, PgClient, PgPool };
export { EnlistedTransaction };

/** Callback for each transaction that commits. Its errors are printed. */
export type CommitListener = (transaction: EnlistedTransaction) => unknown;

/** Connections of `pg` that are enlisted. */
export class Enlisted {
  readonly #last = new WeakMap<PgClient, EnlistedTransaction>();
  readonly #listeners = new Set<CommitListener>();

  /** @internal */
  add(service: TicketService, client: PgClient): void {
    new EnlistedClient(service, client, (of, transaction) => {
      this.#last.set(of, transaction);
      for (const listener of this.#listeners) callUser(() => listener(transaction));
    });
  }

  /**
   * The transaction that was last committed on this connection, and has written; undefined before
   * the first. Ask before the connection goes back to its pool.
   *
   * @param client Enlisted connection.
   */
  last(client: PgClient): EnlistedTransaction | undefined {
    return this.#last.get(client);
  }

  /**
   * Calls the listener with each transaction, before its COMMIT resolves. Returns a function that
   * removes the listener.
   */
  onCommit(listener: CommitListener): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }
}

/**
 * Enlists a connection of `pg`, or every connection that a pool opens from now on. Statements
 * stay where they are. Around BEGIN the client asks a gateway for a ticket; the receipt and
 * `synchronous_commit=off` travel with COMMIT; the token comes a little later. A COMMIT without an
 * answer is looked up, and resolves if it took effect.
 *
 * What commits without BEGIN, a text of several statements and READ ONLY transactions are passed on
 * as they are. In an enlisted transaction these are refused: `COMMIT AND CHAIN`, PREPARE
 * TRANSACTION, and a text of several statements with a COMMIT among them.
 * Errors of COMMIT: `TransactionAbortedError` if a failover ended the transaction, or its ticket's
 * time is over. Those of the service if there is no ticket for it, such as `ExposureLimitError`.
 * Nothing was applied in all these cases. `UnknownOutcomeError` if its outcome is not known in
 * time.
 *
 * @param client Connection of `pg`, or a pool before its first connection.
 *
 * @example
 * ```ts
 * const pool = new pg.Pool({ connectionString: "postgresql://shop@127.0.0.1:5432/app" });
 * const enlisted = enlist(hw, pool);
 * const client = await pool.connect();
 * await client.query("BEGIN");
 * await client.query("INSERT INTO note VALUES ('hello')");
 * await client.query("COMMIT");
 * const tx = enlisted.last(client);
 * client.release();
 * await tx?.durable({ level: "region" });
 * await pool.end();
 * ```
 */
export function enlist(hw: Highwater, client: PgClient | PgPool, options?: EnlistOptions): Enlisted;
/**
 * Enlists the client of postgres.js. Only transactions of the result's own `begin` are enlisted.
 *
 * @param sql Client of postgres.js.
 *
 * @example
 * ```ts
 * const db = postgres("postgresql://shop@127.0.0.1:5432/app");
 * const { transaction } = await enlist(hw, db).begin("read write", async (tx) => {
 *   await tx`INSERT INTO note VALUES (${"hello"})`;
 * });
 * await transaction?.durable({ level: "region" });
 * await db.end();
 * ```
 */
export function enlist<S extends PostgresSql>(
  hw: Highwater,
  sql: S,
  options?: EnlistOptions,
): EnlistedPostgres<S>;
export function enlist(
  hw: Highwater,
  connection: PgClient | PgPool | PostgresSql,
  options: EnlistOptions = {},
): Enlisted | EnlistedPostgres<PostgresSql> {
  const service = new TicketService(hw, options);
  if ("begin" in connection) return new EnlistedPostgres(service, connection);
  const enlisted = new Enlisted();
  if ("totalCount" in connection)
    connection.on("connect", (client) => {
      enlisted.add(service, client);
    });
  else enlisted.add(service, connection);
  return enlisted;
}
