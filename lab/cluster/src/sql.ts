// Short-lived superuser connections over the "management network": straight to the node's port,
// past all relays.

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
  /** Bounds the connection and each statement; without it only the connection is bounded. */
  limitMs?: number;
}

/**
 * Runs `body` on a connection of its own. A pool would leave idle backends behind, which
 * `stop("smart")`, DROP DATABASE and everyone who counts connections would meet.
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
  // A server that dies under the connection reports here as well as to the statement.
  client.on("error", () => undefined);
  try {
    await client.connect();
    return await body(client);
  } finally {
    void end(client);
  }
}

/** Runs one statement (or several without parameters: the last one's rows count). */
export async function querySql(
  target: SqlTarget,
  sql: string,
  params?: readonly unknown[],
  limits: SqlLimits = {},
): Promise<Row[]> {
  try {
    return await withClient(target, limits, async (client) => {
      // Several statements in one string answer with an array, which the types do not know.
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
 * A hung server never answers the goodbye, so no one waits for it; its socket is closed all the
 * same.
 */
async function end(client: pg.Client): Promise<void> {
  const { stream } = client as unknown as { stream: { destroy(): void; unref?(): void } | undefined };
  const limit = setTimeout(() => stream?.destroy(), 1_000);
  await client.end().catch(() => undefined);
  clearTimeout(limit);
}
