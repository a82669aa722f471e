/**
 * Tokens of transactions that were committed through a gateway's PostgreSQL wire, by `pg` or
 * postgres.js.
 * @module
 */
import { type DurabilityPromise, type Highwater, InvalidRequestError, type Session } from "../index.ts";

const TOKEN = "highwater.token";

/** A connection of `pg`: its `Client`, or a client of its `Pool`. */
export interface WireClient {
  /** Runs a statement. */
  query: (...args: never[]) => unknown;
}

/** A pool of `pg`. */
export interface WirePool {
  /**
   * Calls the listener with each connection that the pool opens.
   *
   * @param event Its name.
   * @param listener Function that gets the connection.
   */
  on(event: "connect", listener: (client: WireClient) => void): unknown;
  /** Connections that it has. */
  readonly totalCount: number;
}

/** The `sql` of postgres.js, as far as tokens need it. */
export interface WireSql {
  /** Its own options. */
  readonly options: object;
  /** What the server reported last. */
  readonly parameters: object;
}

/** Options of `tokenOf`. */
export interface TokenOptions {
  /** Default level of the promise's waits and listeners. Default: the client's. */
  readonly level?: string;
  /** Session that remembers the transaction. */
  readonly session?: Session;
}

/** The parts of `pg`'s client and of its connection that report what the server said. */
interface Reporting {
  readonly pipeline?: boolean;
  readonly connection?: {
    on?(event: "parameterStatus", listener: (message: Status) => void): void;
    on?(event: "readyForQuery", listener: () => void): void;
  };
}

interface Status {
  readonly parameterName: string;
  readonly parameterValue: string;
}

/** What postgres.js keeps: the parameters are those of all connections of the client. */
interface Postgres {
  readonly options: {
    readonly max?: unknown;
    readonly parameters: Record<string, string | undefined>;
    onclose?: ((id: number) => void) | undefined;
  };
}

/** Returns the token of the last transaction. Errors: `no_token`. */
type Read = () => string | undefined;

const reads = new WeakMap<object, Read>();

/**
 * Remembers the token of each transaction on the connection, or on every connection that the pool
 * opens from now on. `pg` passes on what the server reports, and keeps nothing. Returns what it was
 * given.
 * Errors: `invalid_options` for a client of postgres.js with more than one connection, which does
 * not say which of them got a token.
 *
 * @param connection Connection or pool of `pg`, or a client of postgres.js with `max: 1`.
 */
export function watchTokens<C extends WireClient | WirePool | WireSql>(connection: C): C {
  if ("totalCount" in connection) connection.on("connect", watchTokens);
  else if (!reads.has(connection))
    reads.set(
      connection,
      "parameters" in connection ? postgresOf(connection) : pgOf(connection as Reporting),
    );
  return connection;
}

/**
 * Returns the promise of the connection's last transaction. The wire sends a token with the answer
 * to COMMIT where `highwater.ack` is `commit`, and with one that `highwater.max_wait` or a cancel
 * has ended early. Ask before the connection goes back to its pool.
 * Errors: `no_token` if the last transaction has none, `not_watched` without `watchTokens`.
 *
 * @param connection Connection that `watchTokens` was called with, or one of its pool.
 *
 * @example
 * ```ts
 * const connectionString = "postgresql://app@127.0.0.1:4604/app";
 * const pool = watchTokens(new pg.Pool({ connectionString }));
 * const client = await pool.connect();
 * await client.query("SET highwater.ack = 'commit'");
 * await client.query("INSERT INTO note VALUES ('hello')");
 * const promise = tokenOf(hw, client);
 * client.release();
 * await promise.durable({ level: "region" });
 * await pool.end();
 * ```
 */
export function tokenOf(
  hw: Highwater,
  connection: WireClient | WireSql,
  { level, session }: TokenOptions = {},
): DurabilityPromise {
  const read = reads.get(connection);
  if (read === undefined)
    throw refused("not_watched", "call `watchTokens` with the connection or its pool before it commits");
  const token = read();
  if (!token) throw noToken("the server sent none");
  const promise = hw.promise(token, level === undefined ? {} : { level });
  session?.remember(promise);
  return promise;
}

function pgOf(client: Reporting): Read {
  const { connection } = client;
  if (connection?.on === undefined)
    throw refused("invalid_options", "the client hides the server's parameters: use a client of pg");
  let tokens: string[] = [];
  let isAnswered = false;
  connection.on("parameterStatus", ({ parameterName, parameterValue }) => {
    if (parameterName !== TOKEN) return;
    if (isAnswered) tokens = [];
    isAnswered = false;
    tokens.push(parameterValue);
  });
  connection.on("readyForQuery", () => (isAnswered = true));
  return () => {
    if (client.pipeline === true || tokens.length > 1)
      throw noToken("several transactions were answered together, so their tokens are mixed");
    return tokens[0];
  };
}

function postgresOf(sql: WireSql): Read {
  const { options } = sql as Postgres;
  const { parameters, max, onclose } = options;
  if (max !== 1)
    throw refused(
      "invalid_options",
      `postgres.js does not say which of its ${String(max)} connections a token is for: set \`max: 1\``,
    );
  // It keeps what an earlier connection was sent.
  options.onclose = (id) => {
    parameters[TOKEN] = "";
    onclose?.(id);
  };
  return () => parameters[TOKEN];
}

function refused(code: string, message: string): InvalidRequestError {
  return new InvalidRequestError(message, { code, outcome: "not_applied", retry: "never" });
}

function noToken(why: string): InvalidRequestError {
  return refused(
    "no_token",
    `no token for the connection's last transaction: ${why}. With highwater.ack = durable, the default, ` +
      "the answer to COMMIT already means durable. For a token, SET highwater.ack = 'commit' and commit " +
      "one transaction at a time through a gateway",
  );
}
