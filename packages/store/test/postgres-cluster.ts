// Real clusters for this package's tests: fast ones, whose log moves to disk and to the replicas only when it should.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import pg from "pg";
import { type Cluster, type ClusterOptions, startCluster } from "@highwater/lab-cluster";
import {
  type EpochId,
  HighwaterError,
  makeUuidV7,
  type NodeSpec,
  type Statement,
  type TxnId,
} from "@highwater/protocol";
import { realClock } from "@highwater/runtime";
import { type Execution, type TransactionSpec } from "../src/port.ts";
import { keyOf } from "../src/conformance/bench.ts";
import { type ConformanceHarness } from "../src/conformance/harness.ts";
import { serviceRoleStatements } from "../src/postgres/service-role.ts";
import { POSTGRES_DEFAULTS, PostgresStore, type PostgresStoreOptions } from "../src/postgres/adapter.ts";

/** No server of these tests hangs: on a busy machine a call may take long, and is no failure then. */
export const PATIENT = { connectTimeoutMs: 30_000, callTimeoutMs: 30_000 };

/** One retention is one hour: a partition of receipts is a quarter of it. */
export const RETENTION_MS = 3_600_000;

/** For the conformance suite, on the table kv. */
export const KV_STATEMENTS: ConformanceHarness["statements"] = {
  put: (key, value) => ({
    sql: "INSERT INTO kv VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
    params: [key, value],
  }),
  get: (key) => ({ sql: "SELECT value FROM kv WHERE key = $1", params: [key] }),
  failing: { sql: "INSERT INTO kv VALUES ('refused', NULL)" },
  slow: { sql: "SELECT pg_sleep(600)" },
};

/** Nothing but the transactions themselves and those who help them writes or flushes the log. */
const QUIET_SETTINGS = {
  autovacuum: "off",
  bgwriter_lru_maxpages: "0",
  checkpoint_timeout: "1h",
  wal_writer_delay: "10s",
};
const NO_DELAY = { "us-east/us-west": 0, "us-east/eu-west": 0, "us-west/eu-west": 0 };

export { keyOf };

/** Begins a receipt of the transaction's own, as a client of the database would: $1 id, $2 tag, $3 epoch. */
export const INSERT_RECEIPT = "INSERT INTO highwater.receipt (id, tag, epoch, digest) VALUES ($1, $2, $3, 7)";

export function newId(ageMs = 0): TxnId {
  return makeUuidV7(Date.now() - ageMs, randomBytes(10));
}

/** What stores log in as: the role of gateways and trackers. */
export const SERVICE_ROLE = "highwater_service";

/** Requests without an application's role run as the services', so it may use what tests make as the superuser. */
export const SET_UP = [
  ...serviceRoleStatements(SERVICE_ROLE, "app"),
  `GRANT ALL ON SCHEMA public TO ${SERVICE_ROLE}`,
  `ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO ${SERVICE_ROLE}`,
  `ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO ${SERVICE_ROLE}`,
];

export async function startTestCluster(options: ClusterOptions = {}): Promise<Cluster> {
  const { settings, ...others } = options;
  const cluster = await startCluster({
    ...{ roundTripMs: NO_DELAY, settings: { ...QUIET_SETTINGS, ...settings } },
    ...others,
  });
  for (const sql of SET_UP) await cluster.query(cluster.nodes[0]?.id ?? "", sql);
  return cluster;
}

export async function nodeSpecs(cluster: Cluster, user = SERVICE_ROLE): Promise<NodeSpec[]> {
  return Promise.all(
    cluster.nodes.map(async ({ id, region, zone }) => ({
      id,
      region,
      zone,
      url: await cluster.connectionString(id, { user }),
    })),
  );
}

export function makeStore(
  nodes: readonly NodeSpec[],
  helper: string,
  more: Partial<PostgresStoreOptions> = {},
): PostgresStore {
  const retentionMs = RETENTION_MS;
  const settings = { ...POSTGRES_DEFAULTS, ...PATIENT, retentionMs };
  return new PostgresStore({ ...settings, nodes, clock: realClock, helper, ...more });
}

export const MINT = { minSeq: 1, supersedes: [], command: null, streamed: null, finalMarks: {} };

export function specOf(
  epoch: EpochId,
  statements: readonly (Statement | string)[],
  more: Partial<TransactionSpec> = {},
): TransactionSpec {
  return {
    ...keyOf(more.id ?? newId()),
    epoch,
    digest: 7n,
    statements: statements.map((statement) =>
      typeof statement === "string" ? { sql: statement } : statement,
    ),
    isolation: "read committed",
    readOnly: false,
    maxRows: 1_000,
    maxBytes: 1_000_000,
    ...more,
  };
}

export function commitOf(execution: Execution): Extract<Execution, { kind: "committed" }> {
  assert.ok(execution.kind === "committed", execution.kind);
  return execution;
}

export async function errorOf(work: Promise<unknown>): Promise<HighwaterError> {
  const cause = await work.then(
    (value) =>
      assert.fail(
        `nothing was refused: ${JSON.stringify(value, (_, v: unknown) => (typeof v === "bigint" ? String(v) : v))}`,
      ),
    (thrown: unknown) => thrown,
  );
  assert.ok(cause instanceof HighwaterError, String(cause));
  return cause;
}

/** One primary in its first epoch, with an empty table `kv`, and stores that are closed with it. */
export class OneServer {
  readonly cluster: Cluster;
  readonly node: NodeSpec;
  readonly store: PostgresStore;
  readonly epoch: EpochId;
  readonly #others: PostgresStore[] = [];

  private constructor(cluster: Cluster, node: NodeSpec, store: PostgresStore, epoch: EpochId) {
    this.cluster = cluster;
    this.node = node;
    this.store = store;
    this.epoch = epoch;
  }

  static async start(more: Partial<PostgresStoreOptions>): Promise<OneServer> {
    const cluster = await startTestCluster({ nodes: [{ id: "us-east", region: "us-east" }] });
    const [node] = (await nodeSpecs(cluster)) as [NodeSpec];
    const store = makeStore([node], "one", more);
    await store.prepare(node.id);
    const epoch = (await store.mint(node.id, MINT)).id as EpochId;
    const server = new OneServer(cluster, node, store, epoch);
    await server.sql("CREATE TABLE kv (key text PRIMARY KEY, value text NOT NULL)");
    return server;
  }

  /** Asks the server itself. */
  readonly sql = (text: string, params?: readonly unknown[]): Promise<Record<string, unknown>[]> =>
    this.cluster.query(this.node.id, text, params);

  /** `address`: how it reaches the server, if not as the first store does. */
  readonly another = (
    helper: string,
    more: Partial<PostgresStoreOptions> = {},
    address: Partial<NodeSpec> = {},
  ): PostgresStore => {
    const other = makeStore([{ ...this.node, ...address }], helper, more);
    this.#others.push(other);
    return other;
  };

  async close(): Promise<void> {
    for (const store of [...this.#others, this.store]) await store.close();
    await this.cluster.close();
  }
}

/** A session of somebody else. */
export async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  client.on("error", () => undefined);
  await client.connect();
  return client;
}
