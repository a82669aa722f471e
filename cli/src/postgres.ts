// Connections to the servers of a deployment, for a few questions each.
import { PostgresClient } from "@highwater/store";
import type pg from "pg";

/** The oldest server that the services support, as server_version_num. */
export const OLDEST_VERSION = 150_000;
const CONNECT_LIMIT_MS = 5_000;
const QUERY_LIMIT_MS = 10_000;

interface SessionOptions {
  /** Default: its transactions are read-only. */
  readonly writes?: boolean;
  /** Of one statement. Default: 10 s. */
  readonly limitMs?: number;
}

/** Errors: those of the connection and of `work`, and that the server is no PostgreSQL. */
export async function withServer<T>(
  url: string,
  work: (client: pg.Client) => Promise<T>,
  { writes = false, limitMs = QUERY_LIMIT_MS }: SessionOptions = {},
): Promise<T> {
  const client = new PostgresClient({
    connectionString: url,
    application_name: "highwater:cli",
    connectionTimeoutMillis: CONNECT_LIMIT_MS,
    query_timeout: limitMs,
    statement_timeout: limitMs,
    options: `-c search_path=pg_catalog -c default_transaction_read_only=${writes ? "off" : "on"}`,
  });
  // An error between two queries fails the next one.
  client.on("error", () => undefined);
  try {
    await client.connect();
    return await work(client);
  } finally {
    await client.end().catch(() => undefined);
  }
}

export async function rows<T extends object>(
  client: pg.Client,
  sql: string,
  values?: readonly unknown[],
): Promise<T[]> {
  return (await client.query<T>(sql, values === undefined ? undefined : [...values])).rows;
}

/** The stream that feeds a replica, as the replica shows it. */
export interface Receiver {
  readonly status: string | null;
  readonly conninfo: string | null;
  readonly senderHost: string | null;
  readonly senderPort: number | null;
}

/** Null: no stream feeds the server. */
export async function receiverOf(client: pg.Client): Promise<Receiver | null> {
  const [receiver = null] = await rows<Receiver>(
    client,
    `SELECT status, conninfo, sender_host AS "senderHost", sender_port AS "senderPort" FROM pg_stat_wal_receiver`,
  );
  return receiver;
}

/** By SQLSTATE, or by the code of the system's error. */
const HINTS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "Is the server running, and does it listen there (listen_addresses, port)?",
  ENOTFOUND: "There is no such host name. Check the connection string.",
  EHOSTUNREACH: "There is no way to the host. Check its address and the firewalls between.",
  ETIMEDOUT: "The host does not answer. Check its address and the firewalls between.",
  "28P01": "Check user and password. Passwords can also come from PGPASSWORD or ~/.pgpass.",
  "3D000": "The connection string names a database that the server does not have.",
  "57P03":
    "It is starting or stopping. A replica also says this with hot_standby = off: set it to on, and restart it.",
  "53300": "It has no connection left: raise max_connections, or end sessions.",
};

/** Of errors whose code says too little. */
const MESSAGE_HINTS: readonly (readonly [RegExp, string | undefined])[] = [
  [/timeout/i, HINTS["ETIMEDOUT"]],
  [/pg_hba/, "Add a line for this user and this machine to pg_hba.conf there, and reload."],
];

/** Why a server could not be asked, in one line. Never quotes a connection string. */
export function whyNot(cause: unknown): string {
  const { code, message = "" } = cause as { readonly code?: unknown; readonly message?: string };
  const hint = HINTS[String(code)] ?? MESSAGE_HINTS.find(([said]) => said.test(message))?.[1];
  const said = message === "" ? String(code) : message;
  return hint === undefined ? said : `${said}. ${hint}`;
}

/** Host and port of a connection string. */
export function addressOf(url: string): string {
  const { hostname, port, searchParams } = new URL(url);
  const host = searchParams.get("host") ?? hostname;
  return `${host}:${searchParams.get("port") ?? (port === "" ? "5432" : port)}`;
}

/** The parameters of a libpq connection string of the form `host=… port=…`. */
export function conninfoOf(text: string): Map<string, string> {
  const parameters = new Map<string, string>();
  for (const [, name = "", quoted, bare] of text.matchAll(/(\w+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|(\S*))/g))
    parameters.set(name, quoted === undefined ? (bare ?? "") : quoted.replaceAll(/\\(.)/g, "$1"));
  return parameters;
}

/** What the stream of a server with this connection string is called. */
export function streamNameOf(conninfo: string): string {
  const parameters = conninfoOf(conninfo);
  const name = parameters.get("application_name") ?? "";
  return name === "" ? (parameters.get("fallback_application_name") ?? "") : name;
}

/**
 * The line that gives a server's stream this name. `conninfo`: its present one, whose password the
 * line leaves out.
 */
export function nameStream(conninfo: string, name: string): string {
  const kept = conninfo
    .replaceAll(/\s*\b(?:fallback_)?application_name\s*=\s*(?:'[^']*'|\S*)/g, "")
    .replaceAll(/\bpassword\s*=\s*(?:'(?:[^'\\]|\\.)*'|\S+)/g, "password=…")
    .trim();
  return `ALTER SYSTEM SET primary_conninfo = '${`${kept} application_name=${name}`.replaceAll("'", "''")}'; SELECT pg_reload_conf();`;
}
