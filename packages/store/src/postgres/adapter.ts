// The PostgreSQL adapter of the store port. Chooses the connection for each call; the files beside
// it do the work.
import type pg from "pg";
import { type NodeReport } from "@highwater/authority";
import {
  type EpochId,
  type EpochRecord,
  HighwaterError,
  type NodeSpec,
  type Offset,
} from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import {
  type Adoption,
  type Execution,
  type KeyCheck,
  type LockFlood,
  type MintRequest,
  type Opening,
  type PoolReport,
  type PositionsReport,
  type ReceiptKey,
  type ReceiptsAsOf,
  type ReplicaRead,
  type ReplicaReading,
  type RetentionReport,
  type SettleRequest,
  type Store,
  type StoreNode,
  type StoreObserver,
  type TransactionSpec,
  type Witness,
} from "../port.ts";
import { writeAdoption } from "./adopt.ts";
import { AskedReplicas } from "./asked-replicas.ts";
import { Channel, destroy, sessionSettings, startupOptions } from "./channel.ts";
import { PostgresClient } from "./client.ts";
import { executeOn } from "./execute.ts";
import { rescueBy } from "./locks.ts";
import { readLogEnd } from "./log-end.ts";
import { GivenUp, TransactionLimits } from "./holders.ts";
import { parseLsn } from "./lsn.ts";
import { mintEpoch } from "./mint.ts";
import { openOn } from "./open-transaction.ts";
import { leavesTraces, refuseControl } from "./plan.ts";
import { maintainPartitions, migrate, type RetentionConfig } from "./prepare.ts";
import { PositionsReader } from "./positions.ts";
import { type LastSeen, probeNode } from "./probe.ts";
import { ReadPositions } from "./read-positions.ts";
import { lookUpReceipts, settleReceipts } from "./receipts.ts";
import { vetLogin, vetRole } from "./reader-roles.ts";
import { readOn } from "./replica-read.ts";
import { ReplicaStreams } from "./replica-streams.ts";
import { type Canceller, enter } from "./session.ts";
import { SharedWrites } from "./shared-writes.ts";
import { Shares } from "./shares.ts";
import {
  ADD_KEY_CHECKS,
  BEFORE_RESTORE,
  CANCEL,
  DISOWN_SENTINEL,
  HELP_FLUSH,
  KEY_CHECKS,
  NEWEST_WITNESS,
  NOTIFICATION_QUEUE_USAGE,
  RAISE_FINAL_MARKS,
  RETENTION,
  TERMINATE,
  TERMINATE_BLOCKERS,
  UNLOGGED_TABLES,
} from "./sql.ts";
import { Warden } from "./warden.ts";
import { principalOf, WritePool } from "./write-pool.ts";

export interface PostgresStoreOptions {
  readonly nodes: readonly NodeSpec[];
  readonly clock: Clock;
  /**
   * Names this process to the server, and its row among the witnesses. Unique among running
   * processes.
   */
  readonly helper: string;
  readonly retentionMs: number;
  readonly poolSize: number;
  readonly poolQueue: number;
  readonly connectTimeoutMs: number;
  readonly callTimeoutMs: number;
  readonly statementTimeoutMs: number;
  readonly lockTimeoutMs: number;
  /**
   * The sessions of each login role, other than the service's own application role, to each node.
   */
  readonly rolePoolSize: number;
  /** A node's connection string for one of those roles. */
  readonly roleUrl?: (nodeUrl: string, role: string) => string;
}

export const POSTGRES_DEFAULTS = {
  retentionMs: 24 * 3_600_000,
  poolSize: 16,
  poolQueue: 2_000,
  connectTimeoutMs: 2_000,
  callTimeoutMs: 2_000,
  statementTimeoutMs: 30_000,
  lockTimeoutMs: 10_000,
  rolePoolSize: 8,
} as const;

/**
 * Calls that may have to wait for somebody else's transaction get this many times the usual limit.
 */
const SLOW_CALLS = 10;

/**
 * Another process may be at the same epoch, over a slow link; one that takes longer between two
 * answers stands still.
 */
const MINT_PATIENCE_MS = 2_000;
/** The rescue has had its chance by then; what it may not end is named in the error. */
const MINT_LOCK_TIMEOUT_MS = 5_000;

/** The connections to one node, by purpose. A purpose never waits for another. */
interface NodeConnections {
  readonly spec: NodeSpec;
  readonly probe: Channel;
  readonly seen: LastSeen;
  readonly positions: Channel;
  readonly positionsReader: PositionsReader;
  readonly flush: Channel;
  readonly lookUp: Channel;
  readonly logEnd: Channel;
  readonly settle: Channel;
  /** Waits for ids that somebody holds. Those that are free are settled meanwhile. */
  readonly settleHeld: Channel;
  readonly nextTurn: () => number;
  readonly rescue: Channel;
  readonly warden: Warden;
  readonly canceller: Canceller;
  readonly givenUp: GivenUp;
  readonly limits: TransactionLimits;
  readonly readPositions: ReadPositions;
  /** By login role; under null, the service's own. */
  readonly writes: Map<string | null, WritePool>;
  readonly shared: Map<string | null, SharedWrites>;
  readonly reads: Map<string | null, WritePool>;
  /** Who may have how much of the sessions. */
  readonly shares: Record<"writes" | "reads", Map<string | null, Shares>>;
}

/**
 * A read on a replica does not depend on the epoch that writes: those sessions are identified by
 * their own snapshots.
 */
const ANY_EPOCH = "" as EpochId;

export class PostgresStore implements Store {
  readonly nodes: readonly StoreNode[];
  readonly #options: PostgresStoreOptions;
  readonly #connections = new Map<string, NodeConnections>();
  readonly #streams: ReplicaStreams;
  readonly #asked: AskedReplicas;
  #observer: StoreObserver | null = null;

  constructor(options: PostgresStoreOptions) {
    this.#options = options;
    this.nodes = options.nodes.map(({ id, region, zone }) => ({ id, region, zone }));
    this.#streams = new ReplicaStreams(options.nodes);
    for (const spec of options.nodes) this.#connections.set(spec.id, this.#connect(spec));
    this.#asked = new AskedReplicas({
      nodes: options.nodes,
      clock: options.clock,
      query: (node, work) => this.#of(node).positions.run(work),
      witness: (primary, epoch) => this.helpFlush(primary, epoch),
    });
  }

  #connect(spec: NodeSpec): NodeConnections {
    const { clock, helper, connectTimeoutMs, callTimeoutMs } = this.#options;
    const channel = (purpose: string, timeoutMs = callTimeoutMs): Channel =>
      new Channel({
        url: spec.url,
        name: applicationName(helper, purpose),
        settings: sessionSettings(timeoutMs),
        connectTimeoutMs,
        callTimeoutMs: timeoutMs,
        clock,
      });
    const rescue = channel("rescue");
    const givenUp = new GivenUp();
    let turn = 0;
    return {
      spec,
      seen: { primary: false, schema: "none" },
      probe: channel("probe"),
      positions: channel("positions"),
      positionsReader: new PositionsReader(spec.id, this.#streams, clock),
      flush: channel("flush"),
      lookUp: channel("look-up"),
      logEnd: channel("log-end"),
      settle: channel("settle", SLOW_CALLS * callTimeoutMs),
      settleHeld: channel("held:settle", SLOW_CALLS * callTimeoutMs),
      nextTurn: () => turn++,
      rescue,
      warden: new Warden(channel("warden"), clock),
      canceller: {
        clock,
        cancelBackend: (processId) => rescue.run((client) => client.query(CANCEL, [processId])),
        terminateBackend: (processId) => rescue.run((client) => client.query(TERMINATE, [processId])),
        giveUp: (key, holder) => {
          givenUp.add(key, holder);
        },
      },
      givenUp,
      limits: new TransactionLimits(helper, clock),
      readPositions: new ReadPositions(),
      writes: new Map(),
      shared: new Map(),
      reads: new Map(),
      shares: { writes: new Map(), reads: new Map() },
    };
  }

  /** The sessions of one role; made when first wanted. */
  #poolOf(node: NodeConnections, kind: "writes" | "reads", role: string | null | undefined): WritePool {
    const name = role ?? null;
    let pool = node[kind].get(name);
    if (pool !== undefined) return pool;
    const { poolSize, rolePoolSize, poolQueue, roleUrl = unknownRole, helper } = this.#options;
    const { connectTimeoutMs, statementTimeoutMs, lockTimeoutMs } = this.#options;
    const { url, appUrl } = node.spec;
    pool = new WritePool({
      url: name === null ? (appUrl ?? url) : roleUrl(url, name),
      name: applicationName(helper),
      role: name,
      clock: this.#options.clock,
      size: name === null ? poolSize : rolePoolSize,
      queue: poolQueue,
      connectTimeoutMs,
      statementTimeoutMs,
      lockTimeoutMs,
      onReplica: kind === "reads",
      faultsOf: (login) => this.#faultsOf(node, login),
    });
    node[kind].set(name, pool);
    return pool;
  }

  async roleFaults(node: string, role: string, reads: boolean): Promise<readonly string[]> {
    const on = this.#of(node);
    const [own, recorded] = await Promise.all([
      on.lookUp.run((client) => vetRole(client, role, reads)),
      this.#faultsOf(on, role),
    ]);
    return [...new Set([...own, ...recorded])];
  }

  async #faultsOf({ lookUp, spec }: NodeConnections, role: string): Promise<readonly string[]> {
    const { faults, unprotected } = await lookUp.run((client) => vetLogin(client, role));
    if (unprotected.length > 0) this.#observer?.onUnprotected(spec.id, role, unprotected);
    return faults;
  }

  #sharedOf(node: NodeConnections, role: string | null | undefined): SharedWrites {
    const name = role ?? null;
    let shared = node.shared.get(name);
    if (shared !== undefined) return shared;
    const { poolSize, rolePoolSize, poolQueue, connectTimeoutMs, clock } = this.#options;
    const { canceller, readPositions } = node;
    shared = new SharedWrites({
      pool: this.#poolOf(node, "writes", name),
      size: name === null ? poolSize : rolePoolSize,
      queue: poolQueue,
      waitMs: connectTimeoutMs,
      clock,
      parts: { canceller, readPositions },
      observer: () => this.#observer,
    });
    node.shared.set(name, shared);
    return shared;
  }

  #sharesOf(node: NodeConnections, kind: "writes" | "reads", role: string | null | undefined): Shares {
    const name = role ?? null;
    let shares = node.shares[kind].get(name);
    if (shares !== undefined) return shares;
    const { poolSize, rolePoolSize, poolQueue: queue, connectTimeoutMs: waitMs, clock } = this.#options;
    const size = name === null ? poolSize : rolePoolSize;
    shares = new Shares({ size, queue, waitMs, clock });
    node.shares[kind].set(name, shares);
    return shares;
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

  /** The id of the command. It is carried out by the first process that begins an epoch there. */
  async adopt(node: string, adoption: Adoption): Promise<string> {
    await this.prepare(node);
    return this.#withFreshSession(node, (client) => writeAdoption(client, node, adoption));
  }

  async probe(node: string): Promise<NodeReport> {
    const { probe, seen } = this.#of(node);
    const report = await probe.run((client) => probeNode(client, node, seen));
    // The source of its stream is unknown, so that stream must not count in the primary's absence
    // either.
    return this.#asked.includes(node) ? { ...report, upstream: null, isFed: true } : report;
  }

  async witnessOf(node: string, epoch: EpochId): Promise<Witness | null> {
    const { rows } = await this.#of(node).lookUp.run((client) =>
      client.query<{ reached: string | null; seen_by: string; marks: Witness["marks"] | null }>(
        NEWEST_WITNESS,
        [epoch],
      ),
    );
    const [row] = rows;
    if (row?.reached == null) return null;
    return { reached: parseLsn(row.reached), seenBy: parseLsn(row.seen_by), marks: row.marks ?? {} };
  }

  async positions(node: string, wanted: Offset | null = null): Promise<PositionsReport | null> {
    const { positions, positionsReader } = this.#of(node);
    const report = await positions.run((client) => positionsReader.read(client));
    if (report === null || this.#asked.isEmpty) return report;
    return { ...report, replicas: [...report.replicas, ...this.#asked.report(report, wanted)] };
  }

  /**
   * Whatever session is in the way of the next epoch is ended: only the service's own and its
   * owner's can be.
   */
  mint(node: string, request: MintRequest): Promise<EpochRecord> {
    const { rescue } = this.#of(node);
    const how = { rescue, clock: this.#options.clock, everyMs: MINT_PATIENCE_MS };
    const settings = { lock_timeout: String(MINT_LOCK_TIMEOUT_MS) };
    return this.#withFreshSession(
      node,
      async (client) => {
        const stopRescue = rescueBy(client, TERMINATE_BLOCKERS, [], how);
        try {
          return await mintEpoch(client, node, request);
        } finally {
          stopRescue();
        }
      },
      settings,
    );
  }

  async unloggedTables(node: string): Promise<readonly string[]> {
    const { rows } = await this.#of(node).lookUp.run((client) =>
      client.query<{ name: string }>(UNLOGGED_TABLES),
    );
    return rows.map(({ name }) => name);
  }

  endLockFloods(node: string): Promise<readonly LockFlood[]> {
    return this.#of(node).warden.endFloods();
  }

  async notificationQueueUsage(node: string): Promise<number> {
    const { rows } = await this.#of(node).lookUp.run((client) =>
      client.query<{ usage: number }>(NOTIFICATION_QUEUE_USAGE),
    );
    return rows[0]?.usage ?? 0;
  }

  async disownEpoch(node: string, epoch: EpochId): Promise<void> {
    await this.#withFreshSession(node, (client) => client.query(DISOWN_SENTINEL, [epoch]));
  }

  async raiseFinalMarks(
    node: string,
    epoch: EpochId,
    marks: Readonly<Record<string, string>>,
  ): Promise<void> {
    await this.#withFreshSession(node, (client) =>
      client.query(RAISE_FINAL_MARKS, [epoch, JSON.stringify(marks)]),
    );
  }

  async execute(node: string, spec: TransactionSpec, signal?: AbortSignal): Promise<Execution> {
    refuseControl(spec.statements, spec.id);
    const on = this.#of(node);
    const { principal = "", statements } = spec;
    const shared = this.#sharedOf(on, spec.role);
    const shares = this.#sharesOf(on, "writes", spec.role);
    const registering = this.#registerLimit(on, spec);
    if (registering !== null) await registering;
    try {
      if (!leavesTraces(statements) && shared.isQuick(statements)) {
        shares.note(principal);
        return await shared.execute(spec, signal);
      }
      // What may leave traces has a session to itself, which is made as good as new behind it.
      return await shares.run(principal, signal, () =>
        leavesTraces(statements) ? this.#executeAlone(on, spec, signal) : shared.execute(spec, signal),
      );
    } catch (cause) {
      return this.#outOfWindow(node, spec, cause);
    }
  }

  #executeAlone(
    on: NodeConnections,
    spec: TransactionSpec,
    signal: AbortSignal | undefined,
  ): Promise<Execution> {
    const { canceller, readPositions } = on;
    const how = { principal: principalOf(spec), signal };
    return this.#poolOf(on, "writes", spec.role).use(spec.epoch, how, (session) =>
      executeOn(session, spec, { canceller, readPositions, signal }),
    );
  }

  async begin(node: string, spec: TransactionSpec, signal?: AbortSignal): Promise<Opening> {
    refuseControl(spec.statements, spec.id);
    const on = this.#of(node);
    const { canceller, readPositions } = on;
    const registering = this.#registerLimit(on, spec);
    if (registering !== null) await registering;
    const pool = this.#poolOf(on, "writes", spec.role);
    try {
      const lease = await pool.acquire(spec.epoch, signal);
      enter(lease.session, principalOf(spec));
      return await openOn(lease, spec, { canceller, readPositions }, signal);
    } catch (cause) {
      if (cause instanceof HighwaterError && cause.code === "epoch_changed") pool.ended(spec.epoch);
      return this.#outOfWindow(node, spec, cause);
    }
  }

  /** Null when there is nothing to wait for. */
  #registerLimit(on: NodeConnections, { epoch, readOnly, limitMs }: TransactionSpec): Promise<void> | null {
    if (readOnly || limitMs === undefined) return null;
    return on.limits.register(on.lookUp, epoch, limitMs);
  }

  /**
   * A receipt that was dropped may have been there, and so may one that a restore gave up: such an
   * id is of unknown outcome, and the client must not be advised to run it anew.
   */
  async #outOfWindow(
    node: string,
    key: ReceiptKey,
    cause: unknown,
  ): Promise<{ readonly kind: "already_settled" }> {
    if (!(cause instanceof HighwaterError) || cause.code !== "id_out_of_window") throw cause;
    const { receipts } = await this.lookUp(node, [key]);
    const kind = receipts[0]?.kind;
    if (kind === "commit" || kind === "aborted" || kind === "lost") return { kind: "already_settled" };
    if (kind === "expired") throw new HighwaterError("id_expired", { transactionId: key.id }, { cause });
    const { rows } = await this.#of(node).lookUp.run((client) => client.query(BEFORE_RESTORE, [key.id]));
    if (rows.length === 0) throw cause;
    const detail =
      "The id is older than the restore of the database, which may have undone its transaction. Ask for the verdict with the transaction's token; use a new id only if it may run again.";
    throw new HighwaterError("id_expired", { transactionId: key.id, detail }, { cause });
  }

  async readReplica(node: string, read: ReplicaRead, signal?: AbortSignal): Promise<ReplicaReading> {
    refuseControl(read.statements);
    const on = this.#of(node);
    const how = { principal: principalOf(read), signal };
    const pool = this.#poolOf(on, "reads", read.role);
    return this.#sharesOf(on, "reads", read.role).run(read.principal ?? "", signal, () =>
      pool.use(ANY_EPOCH, how, (session) => readOn(session, read, on.canceller, signal)),
    );
  }

  async helpFlush(node: string, epoch: EpochId, marks: Witness["marks"] = {}): Promise<Offset> {
    const values = [this.#options.helper, epoch, JSON.stringify(marks)];
    const { rows } = await this.#of(node).flush.run((client) =>
      client.query<{ reached: string }>({ name: "flush", text: HELP_FLUSH, values }),
    );
    // Without a row nothing was committed, so nothing was flushed either.
    if (rows[0] === undefined) throw new HighwaterError("epoch_changed", { retryAfterMs: 100 });
    return parseLsn(rows[0].reached);
  }

  lookUp(node: string, keys: readonly ReceiptKey[]): Promise<ReceiptsAsOf> {
    return this.#of(node).lookUp.run((client) => lookUpReceipts(client, keys));
  }

  async logEnd(node: string): Promise<{ readonly epoch: EpochId; readonly offset: Offset }> {
    const { epoch, end } = await this.#of(node).logEnd.run(readLogEnd);
    if (epoch === null) throw new HighwaterError("epoch_changed", { detail: "The node has no epoch." });
    return { epoch, offset: end };
  }

  async settle(node: string, request: SettleRequest): Promise<ReceiptsAsOf> {
    const { settle, settleHeld, rescue, givenUp, nextTurn } = this.#of(node);
    const parts = { rescue, clock: this.#options.clock, givenUp, nextTurn };
    const channel = request.patienceMs === 0 ? settle : settleHeld;
    return channel.run((client) => settleReceipts(client, parts, request));
  }

  giveUp(node: string, key: ReceiptKey, holder: string): void {
    this.#of(node).givenUp.add(key, holder);
  }

  maintain(node: string, request: { expireBeforeMs: number | null }): Promise<RetentionReport> {
    return this.#withFreshSession(node, async (client) => {
      await maintainPartitions(client, this.#retention(), request.expireBeforeMs);
      return readRetention(client);
    });
  }

  async keyChecks(node: string): Promise<readonly KeyCheck[]> {
    const { rows } = await this.#of(node).lookUp.run((client) =>
      client.query<{ kid: number; valid_from_ms: string; value: string }>(KEY_CHECKS),
    );
    return rows.map(({ kid, valid_from_ms, value }) => ({ kid, validFromMs: Number(valid_from_ms), value }));
  }

  async addKeyChecks(node: string, checks: readonly KeyCheck[]): Promise<void> {
    const columns = [
      checks.map(({ kid }) => kid),
      checks.map(({ validFromMs }) => validFromMs),
      checks.map(({ value }) => value),
    ];
    await this.#of(node).lookUp.run((client) => client.query(ADD_KEY_CHECKS, columns));
  }

  pools(): PoolReport[] {
    return [...this.#connections].flatMap(([node, { writes, reads, shared }]) => {
      const queued = [...shared.values()].reduce((sum, { waiting }) => sum + waiting, 0);
      return [poolReport(node, "write", writes, queued), poolReport(node, "read", reads, 0)].flat();
    });
  }

  observe(observer: StoreObserver): void {
    this.#observer = observer;
  }

  forget(node: string): void {
    const { flush, lookUp, logEnd, settle, settleHeld, rescue, positions, limits, ...sessions } =
      this.#of(node);
    const { writes, reads, shared, shares } = sessions;
    for (const channel of [flush, lookUp, logEnd, settle, settleHeld, rescue, positions]) channel.reset();
    limits.forget();
    for (const waiting of [...shares.writes.values(), ...shares.reads.values(), ...shared.values()])
      waiting.reset(new HighwaterError("epoch_changed", { retryAfterMs: 100 }));
    for (const pool of [...writes.values(), ...reads.values()]) pool.reset();
  }

  async close(): Promise<void> {
    for (const on of this.#connections.values()) {
      const {
        probe,
        positions,
        flush,
        lookUp,
        logEnd,
        settle,
        settleHeld,
        rescue,
        warden,
        writes,
        reads,
        shared,
        shares,
      } = on;
      for (const waiting of [...shares.writes.values(), ...shares.reads.values(), ...shared.values()])
        waiting.reset(
          new HighwaterError("primary_unavailable", {
            detail: "The service is shutting down.",
            retryAfterMs: 1_000,
          }),
        );
      for (const channel of [probe, positions, flush, lookUp, logEnd, settle, settleHeld, rescue, warden])
        channel.close();
      for (const pool of [...writes.values(), ...reads.values()]) pool.close();
    }
    return Promise.resolve();
  }

  #retention(): RetentionConfig {
    return { retentionMs: this.#options.retentionMs };
  }

  /**
   * A connection of its own, opened now: one that was opened while the node was a replica must not
   * write.
   */
  async #withFreshSession<T>(
    node: string,
    work: (client: pg.Client & { processID?: number | null }) => Promise<T>,
    settings: Readonly<Record<string, string>> = {},
  ): Promise<T> {
    const { connectTimeoutMs, callTimeoutMs, clock, helper } = this.#options;
    const limitMs = SLOW_CALLS * callTimeoutMs;
    const client = new PostgresClient({
      connectionString: this.#of(node).spec.url,
      application_name: applicationName(helper, "admin"),
      options: startupOptions({ ...sessionSettings(limitMs), ...settings }),
      connectionTimeoutMillis: connectTimeoutMs,
      pipeline: true,
    });
    client.on("error", () => undefined);
    const cancel = clock.after(connectTimeoutMs + limitMs, () => {
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

/** Nothing for a node that no transaction has gone to yet. */
function poolReport(
  node: string,
  use: PoolReport["use"],
  pools: ReadonlyMap<unknown, WritePool>,
  queued: number,
): PoolReport[] {
  if (pools.size === 0) return [];
  const report = { node, use, busy: 0, idle: 0, waiting: queued };
  for (const { load } of pools.values()) {
    report.busy += load.busy;
    report.idle += load.idle;
    report.waiting += load.waiting;
  }
  return [report];
}

function unknownRole(_nodeUrl: string, role: string): never {
  throw new Error(`this process has no way to log in as ${role}`);
}

function applicationName(helper: string, purpose?: string): string {
  return (purpose === undefined ? `highwater:${helper}` : `highwater:${helper}:${purpose}`).slice(0, 63);
}

async function readRetention(client: pg.Client): Promise<RetentionReport> {
  const [kept] = (
    await client.query<{ expired_before_ms: string; ceiling_ms: string; server_time_ms: string }>(RETENTION)
  ).rows;
  const { end, epoch } = await readLogEnd(client);
  if (kept === undefined || epoch === null) throw new Error("the node has no epoch");
  return {
    expiredBeforeMs: Number(kept.expired_before_ms),
    ceilingMs: Number(kept.ceiling_ms),
    serverTimeMs: Number(kept.server_time_ms),
    position: { epoch, offset: end },
  };
}
