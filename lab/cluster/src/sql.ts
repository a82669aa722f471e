// Short-lived superuser connections over the "management network": directly to the node's port,
// without relays.

import pg from "pg";
import { DevClusterError } from "./errors.ts";
import type { Row } from "./types.ts";

const connectTimeoutMs = 30_000;

export interface SqlTarget {
  id: string;
  port: number;
  /** Default: app. */
  database?: string;
}

export interface SqlLimits {
  /** Limits the connection and each statement. Without it only the connection is limited. */
  limitMs?: number;
}

/**
 * Runs `body` on a new connection. A pool would leave idle backends, which affect `stop("smart")`,
 * DROP DATABASE and every count of connections.
 */
export async function withClient<T>(
  target: SqlTarget,
  limits: SqlLimits,
  body: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const client = new pg.Client({
    host: "127.0.0.1",
    port: target.port,
    user: "postgres",
    database: target.database ?? "app",
    application_name: "lab-cluster",
    connectionTimeoutMillis: limits.limitMs ?? connectTimeoutMs,
    ...(limits.limitMs !== undefined && { query_timeout: limits.limitMs }),
  });
  // A server that dies reports the error here as well as to the statement.
  client.on("error", () => undefined);
  try {
    await client.connect();
    return await body(client);
  } finally {
    void end(client);
  }
}

/** Runs one statement, or several without parameters; returns the last one's rows. */
export async function querySql(
  target: SqlTarget,
  sql: string,
  params?: readonly unknown[],
  limits: SqlLimits = {},
): Promise<Row[]> {
  try {
    return await withClient(target, limits, async (client) => {
      // Several statements in one string return an array, which the types do not show.
      const answer = (await client.query<Row>(sql, params && [...params])) as
        | pg.QueryResult<Row>
        | pg.QueryResult<Row>[];
      const result = Array.isArray(answer) ? answer.at(-1) : answer;
      return result?.rows ?? [];
    });
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new DevClusterError("QUERY_FAILED", `${target.id}: ${message}`, { cause });
  }
}

/**
 * A hung server never answers the farewell, so nothing waits for it; the socket is closed in any
 * case.
 */
async function end(client: pg.Client): Promise<void> {
  const { stream } = client as unknown as { stream: { destroy(): void; unref?(): void } | undefined };
  const limit = setTimeout(() => stream?.destroy(), 1_000);
  await client.end().catch(() => undefined);
  clearTimeout(limit);
}
