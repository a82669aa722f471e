// The PostgreSQL adapter of the store port: which connection does what. The work itself is in the files beside it.
import pg from "pg";
import {
  type EpochId,
  type EpochRecord,
  HighwaterError,
  type NodeSpec,
  type TxnId,
} from "@highwater/protocol";
import { type Clock } from "../clock.ts";
import {
  type Execution,
  type MintRequest,
  type NodeReport,
  type PositionsReport,
  type ReceiptsAsOf,
  type RetentionReport,
  type Store,
  type StoreNode,
  type TransactionSpec,
} from "../port.ts";
import { Channel, destroy } from "./channel.ts";
import { executeOn, leavesTraces, refuseControl } from "./execute.ts";
import { parseLsn } from "./lsn.ts";
import { mintEpoch } from "./mint.ts";
import { maintainPartitions, migrate, type RetentionConfig } from "./prepare.ts";
import { probeNode, readPositions } from "./probe.ts";
import { settleReceipts, lookUpReceipts } from "./receipts.ts";
import { HELP_FLUSH, LOG_END, RETENTION } from "./sql.ts";
import { WritePool } from "./write-pool.ts";

export interface PostgresStoreOptions {
  readonly nodes: readonly NodeSpec[];
  readonly clock: Clock;
  /** Names this process to the server, and its row among the witnesses. Unique among running processes. */
  readonly helper: string;
  readonly retentionMs: number;
  readonly poolSize: number;
  readonly poolQueue: number;
  readonly connectTimeoutMs: number;
  readonly callTimeoutMs: number;
  readonly statementTimeoutMs: number;
}

export const POSTGRES_DEFAULTS = {
  retentionMs: 24 * 3_600_000,
  poolSize: 16,
  poolQueue: 2_000,
  connectTimeoutMs: 2_000,
  callTimeoutMs: 2_000,
  statementTimeoutMs: 30_000,
} as const;

/** The connections to one node, by purpose. A purpose never waits for another. */
interface NodeConnections {
  readonly spec: NodeSpec;
  readonly probe: Channel;
  readonly positions: Channel;
  readonly flush: Channel;
  readonly lookUp: Channel;
  readonly settle: Channel;
  readonly rescue: Channel;
  readonly writes: WritePool;
}

export class PostgresStore implements Store {
  readonly nodes: readonly StoreNode[];
  readonly #options: PostgresStoreOptions;
  readonly #connections = new Map<string, NodeConnections>();

  constructor(options: PostgresStoreOptions) {
    this.#options = options;
    this.nodes = options.nodes.map(({ id, region, zone }) => ({ id, region, zone }));
    for (const spec of options.nodes) this.#connections.set(spec.id, this.#connect(spec));
  }

  #connect(spec: NodeSpec): NodeConnections {
    const { clock, helper, connectTimeoutMs, callTimeoutMs } = this.#options;
    const channel = (purpose: string, settings: Record<string, string>, timeoutMs = callTimeoutMs): Channel =>
      new Channel({
        url: spec.url,
        name: `highwater:${helper}:${purpose}`.slice(0, 63),
        settings: { ...settings, search_path: "pg_catalog" },
        connectTimeoutMs,
        callTimeoutMs: timeoutMs,
        clock,
      });
    const local = { synchronous_commit: "local", default_transaction_isolation: "read\\ committed" };
    return {
      spec,
      probe: channel("probe", {}),
      positions: channel("positions", {}),
      flush: channel("flush", local),
      lookUp: channel("look-up", {}),
      settle: channel("settle", local, 10 * callTimeoutMs),
      rescue: channel("rescue", {}),
      writes: new WritePool({
        url: spec.appUrl ?? spec.url,
        name: `highwater:${helper}`.slice(0, 63),
        size: this.#options.poolSize,
        queue: this.#options.poolQueue,
        connectTimeoutMs,
        statementTimeoutMs: this.#options.statementTimeoutMs,
      }),
    };
  }

  #of(node: string): NodeConnections {
    const found = this.#connections.get(node);
    if (found === undefined) throw new Error(`node ${node} is not configured`);
    return found;
  }

  async prepare(node: string): Promise<void> {
    await this.#withFreshSession(node, async (client) => {
      await migrate(client);
      await maintainPartitions(client, this.#retention(), null);
    });
  }

  probe(node: string): Promise<NodeReport> {
    return this.#of(node).probe.run((client) => probeNode(client, node));
  }

  positions(node: string): Promise<PositionsReport | null> {
    return this.#of(node).positions.run((client) => readPositions(client, node));
  }

  mint(node: string, request: MintRequest): Promise<EpochRecord> {
    return this.#withFreshSession(node, (client) => mintEpoch(client, node, request));
  }

  async execute(node: string, spec: TransactionSpec): Promise<Execution> {
    refuseControl(spec);
    const { writes } = this.#of(node);
    // A statement prepared before a change of the schema may fail once; nothing was applied then.
    for (let attempt = 0; attempt < 3; attempt++) {
      const done = await writes.use(spec.epoch, leavesTraces(spec), (session) => executeOn(session, spec));
      if (done.kind !== "stale") return done;
    }
    throw new HighwaterError("statement_failed", {
      detail: "The statements were replanned again and again: the schema changes too fast.",
      transactionId: spec.id,
    });
  }

  async helpFlush(node: string, epoch: EpochId): Promise<void> {
    await this.#of(node).flush.run((client) =>
      client.query({ name: "flush", text: HELP_FLUSH, values: [this.#options.helper, epoch] }),
    );
  }

  lookUp(node: string, ids: readonly TxnId[]): Promise<ReceiptsAsOf> {
    return this.#of(node).lookUp.run((client) => lookUpReceipts(client, ids));
  }

  async settle(
    node: string,
    request: { epoch: EpochId; ids: readonly TxnId[]; tombstone: "aborted" | "lost"; patienceMs: number },
  ): Promise<ReceiptsAsOf> {
    const { settle, rescue } = this.#of(node);
    return settle.run((client) => settleReceipts(client, rescue, this.#options.clock, request));
  }

  maintain(node: string, request: { expireBeforeMs: number | null }): Promise<RetentionReport> {
    return this.#withFreshSession(node, async (client) => {
      await maintainPartitions(client, this.#retention(), request.expireBeforeMs);
      return readRetention(client);
    });
  }

  forget(node: string): void {
    const { flush, lookUp, settle, rescue, positions, writes } = this.#of(node);
    for (const channel of [flush, lookUp, settle, rescue, positions]) channel.reset();
    writes.reset();
  }

  async close(): Promise<void> {
    for (const { probe, positions, flush, lookUp, settle, rescue, writes } of this.#connections.values()) {
      for (const channel of [probe, positions, flush, lookUp, settle, rescue]) channel.close();
      writes.close();
    }
    return Promise.resolve();
  }

  #retention(): RetentionConfig {
    return { retentionMs: this.#options.retentionMs };
  }

  /** A connection of its own, opened now: one that was opened while the node was a replica must not write. */
  async #withFreshSession<T>(node: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
    const { connectTimeoutMs, callTimeoutMs, clock, helper } = this.#options;
    const client = new pg.Client({
      connectionString: this.#of(node).spec.url,
      application_name: `highwater:${helper}:admin`.slice(0, 63),
      connectionTimeoutMillis: connectTimeoutMs,
    });
    client.on("error", () => undefined);
    const cancel = clock.after(connectTimeoutMs + 10 * callTimeoutMs, () => {
      destroy(client);
    });
    try {
      await client.connect();
      return await work(client);
    } finally {
      cancel();
      destroy(client);
    }
  }
}

async function readRetention(client: pg.Client): Promise<RetentionReport> {
  const [kept] = (
    await client.query<{ expired_before_ms: string; ceiling_ms: string; server_time_ms: string }>(RETENTION)
  ).rows;
  const [end] = (await client.query<{ applied: string; epoch: string | null }>(LOG_END)).rows;
  if (kept === undefined || end?.epoch == null) throw new Error("the node has no epoch");
  return {
    expiredBeforeMs: Number(kept.expired_before_ms),
    ceilingMs: Number(kept.ceiling_ms),
    serverTimeMs: Number(kept.server_time_ms),
    position: { epoch: end.epoch as EpochId, offset: parseLsn(end.applied) },
  };
}
