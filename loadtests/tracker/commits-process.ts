// The committing clients. They run transactions through the gateway at a given rate, each with a
// promise of the SDK that resolves when it is durable; and, to compare, the same commits by
// PostgreSQL's own synchronous replication.
import { Highwater } from "@highwater/sdk";
import pg from "pg";
import { newId } from "../gateway/http-client.ts";
import { HttpConnection } from "../gateway/http-connection.ts";
import { hostMs, serveOrders } from "./helper.ts";
import { Lender, pace } from "./pace.ts";

/** Commits in the order in which they were answered; the arrays run in parallel. */
export interface Commits {
  readonly offsets: readonly number[];
  readonly answeredMs: readonly number[];
  /** When the promise was resolved; empty where none was requested. */
  readonly durableMs: readonly number[];
  readonly elapsedMs: number;
}

export interface Load {
  readonly rate: number;
  readonly durationMs: number;
}

/** Enough that one slow answer never holds up a second's worth. */
const CONNECTIONS = 64;
const DURABLE_LIMIT_MS = 30_000;
const INSERT = "INSERT INTO bench VALUES (1)";

let connections: HttpConnection[] = [];
let client: Highwater | null = null;
let servers: pg.Client[] = [];

async function commit(connection: HttpConnection): Promise<{ token: string; offset: number }> {
  const body = `{"id":"${newId()}","isolation":"read committed","statements":[{"sql":"${INSERT}"}]}`;
  const { status, text } = await connection.post("/v1/transactions", body);
  if (status !== 200) throw new Error(`the gateway answered ${String(status)} ${text}`);
  const { token, position } = JSON.parse(text) as { token: string; position: { offset: string } };
  return { token, offset: Number(position.offset) };
}

async function run({ level, ...load }: Load & { readonly level: string | null }): Promise<Commits> {
  const lender = new Lender(connections);
  const commits = { offsets: [] as number[], answeredMs: [] as number[], durableMs: [] as number[] };
  const all: Promise<void>[] = [];
  const one = async (): Promise<void> => {
    const { token, offset } = await lender.use(commit);
    const at = commits.offsets.push(offset) - 1;
    commits.answeredMs.push(hostMs());
    if (level === null) return;
    await client?.promise(token).durable({ level, timeoutMs: DURABLE_LIMIT_MS });
    commits.durableMs[at] = hostMs();
  };
  const startedMs = performance.now();
  await pace(load, () => all.push(one()));
  const elapsedMs = performance.now() - startedMs;
  await Promise.all(all);
  return { ...commits, elapsedMs };
}

const orders = {
  open: async ({ gateway, tracker }: { gateway: string; tracker: string }): Promise<void> => {
    client = new Highwater({ endpoints: [{ gateway, tracker }] });
    connections = await Promise.all(Array.from({ length: CONNECTIONS }, () => HttpConnection.open(gateway)));
  },
  run,
  /** Offsets are of the log's end just before each COMMIT; `answeredMs` is when that returned. */
  runSynchronous: async ({ url, ...load }: Load & { readonly url: string }): Promise<Commits> => {
    const options = "-c synchronous_commit=on";
    servers = Array.from({ length: CONNECTIONS }, () => new pg.Client({ connectionString: url, options }));
    await Promise.all(servers.map((server) => server.connect()));
    const lender = new Lender(servers);
    const offsets: number[] = [];
    const answeredMs: number[] = [];
    const all: Promise<void>[] = [];
    const one = async (server: pg.Client): Promise<void> => {
      const end = "SELECT pg_current_wal_insert_lsn() - '0/0' AS before";
      const results: unknown = await server.query(`BEGIN; ${INSERT}; ${end}; COMMIT`);
      answeredMs.push(hostMs());
      offsets.push(Number((results as pg.QueryResult<{ before: string }>[])[2]?.rows[0]?.before));
    };
    const startedMs = performance.now();
    await pace(load, () => all.push(lender.use(one)));
    const elapsedMs = performance.now() - startedMs;
    await Promise.all(all);
    await Promise.all(servers.splice(0).map((server) => server.end()));
    return { offsets, answeredMs, durableMs: [], elapsedMs };
  },
  close: async (): Promise<void> => {
    for (const connection of connections.splice(0)) connection.close();
    await client?.close();
    client = null;
  },
};
export type CommitOrders = typeof orders;

serveOrders(orders);
