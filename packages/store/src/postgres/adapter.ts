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
import { type ConnectionOptions, NodeConnections } from "./connections.ts";
import { executeOn } from "./execute.ts";
import { rescueBy } from "./locks.ts";
import { readLogEnd } from "./log-end.ts";
import { parseLsn } from "./lsn.ts";
import { mintEpoch } from "./mint.ts";
import { openOn } from "./open-transaction.ts";
import { leavesTraces, refuseControl } from "./plan.ts";
import { maintainPartitions, migrate, type RetentionConfig } from "./prepare.ts";
import { probeNode } from "./probe.ts";
import { lookUpReceipts, settleReceipts } from "./receipts.ts";
import { vetRole } from "./reader-roles.ts";
import { readOn } from "./replica-read.ts";
import { ReplicaStreams } from "./replica-streams.ts";
import { enter } from "./session.ts";
import {
  ADD_KEY_CHECKS,
  BEFORE_RESTORE,
  DISOWN_SENTINEL,
  HELP_FLUSH,
  KEY_CHECKS,
  NEWEST_WITNESS,
  NOTIFICATION_QUEUE_USAGE,
  RAISE_FINAL_MARKS,
  RETENTION,
  END_SESSION,
  TERMINATE_BLOCKERS,
  UNLOGGED_TABLES,
} from "./sql.ts";
import { WIRE_STATEMENTS } from "./wire-statements.ts";
import { principalOf } from "./write-pool.ts";

export interface PostgresStoreOptions extends ConnectionOptions {
  readonly nodes: readonly NodeSpec[];
  readonly retentionMs: number;
}

export const POSTGRES_DEFAULTS = {
  retentionMs: 24 * 3_600_000,
  poolSize: 16,
  poolQueue: 2_000,
  connectTimeoutMs: 2_000,
  callTimeoutMs: 2_000,
  statementTimeoutMs: 30_000,
  lockTimeoutMs: 10_000,
  rolePoolSize: 24,
} as const;

/**
 * Another process may be at the same epoch, over a slow link; one that takes longer between two
 * answers stands still.
 */
const MINT_PATIENCE_MS = 2_000;
/** The rescue has had its chance by then; what it may not end is named in the error. */
const MINT_LOCK_TIMEOUT_MS = 5_000;

/**
 * A read on a replica does not depend on the epoch that writes: those sessions are identified by
 * their own snapshots.
 */
const ANY_EPOCH = "" as EpochId;

export class PostgresStore implements Store {
  readonly nodes: readonly StoreNode[];
  readonly countsBytes = true;
  readonly commitsDurably = false;
  readonly wire = WIRE_STATEMENTS;
  readonly #options: PostgresStoreOptions;
  readonly #connections = new Map<string, NodeConnections>();
  readonly #streams: ReplicaStreams;
  readonly #asked: AskedReplicas;
  #observer: StoreObserver | null = null;

  constructor(options: PostgresStoreOptions) {
    this.#options = options;
    this.nodes = options.nodes.map(({ id, region, zone }) => ({ id, region, zone }));
    this.#streams = new ReplicaStreams(options.nodes);
    const parts = { options, streams: this.#streams, observer: () => this.#observer };
    for (const spec of options.nodes) this.#connections.set(spec.id, new NodeConnections(spec, parts));
    this.#asked = new AskedReplicas({
      nodes: options.nodes,
      clock: options.clock,
      query: (node, work) => this.#of(node).positions.run(work),
      witness: (primary, epoch) => this.helpFlush(primary, epoch),
    });
  }

  async roleFaults(node: string, role: string, reads: boolean): Promise<readonly string[]> {
    const on = this.#of(node);
    const [own, recorded] = await Promise.all([
      on.lookUp.run((client) => vetRole(client, role, reads)),
      on.faultsOf(role),
    ]);
    return [...new Set([...own, ...recorded])];
  }

  async endSession(
    node: string,
    { process, role }: { readonly process: number; readonly role: string },
  ): Promise<void> {
    await this.#of(node).rescue.run((client) => client.query(END_SESSION, [process, role]));
  }

  #of(node: string): NodeConnections {
    const found = this.#connections.get(node);
    if (found === undefined) throw new Error(`node ${node} is not configured`);
    return found;
  }

  async prepare(node: string): Promise<void> {
    await this.#of(node).withFreshSession(async (client) => {
      await migrate(client);
      await maintainPartitions(client, this.#retention(), null);
    });
  }

  /** The id of the command. It is carried out by the first process that begins an epoch there. */
  async adopt(node: string, adoption: Adoption): Promise<string> {
    await this.prepare(node);
    return this.#of(node).withFreshSession((client) => writeAdoption(client, node, adoption));
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
    const connections = this.#of(node);
    const how = { rescue: connections.rescue, clock: this.#options.clock, everyMs: MINT_PATIENCE_MS };
    const settings = { lock_timeout: String(MINT_LOCK_TIMEOUT_MS) };
    return connections.withFreshSession(async (client) => {
      const stopRescue = rescueBy(client, TERMINATE_BLOCKERS, [], how);
      try {
        return await mintEpoch(client, node, request);
      } finally {
        stopRescue();
      }
    }, settings);
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
    await this.#of(node).withFreshSession((client) => client.query(DISOWN_SENTINEL, [epoch]));
  }

  async raiseFinalMarks(
    node: string,
    epoch: EpochId,
    marks: Readonly<Record<string, string>>,
  ): Promise<void> {
    await this.#of(node).withFreshSession((client) =>
      client.query(RAISE_FINAL_MARKS, [epoch, JSON.stringify(marks)]),
    );
  }

  async execute(node: string, spec: TransactionSpec, signal?: AbortSignal): Promise<Execution> {
    refuseControl(spec.statements, spec.id);
    const on = this.#of(node);
    const { principal = "", statements } = spec;
    const shared = on.sharedOf(spec.role);
    const shares = on.sharesOf("writes", spec.role);
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
    return on
      .poolOf("writes", spec.role)
      .use(spec.epoch, how, (session) => executeOn(session, spec, { canceller, readPositions, signal }));
  }

  async begin(node: string, spec: TransactionSpec, signal?: AbortSignal): Promise<Opening> {
    refuseControl(spec.statements, spec.id);
    const on = this.#of(node);
    const { canceller, readPositions } = on;
    const registering = this.#registerLimit(on, spec);
    if (registering !== null) await registering;
    const pool = on.poolOf("writes", spec.role);
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
    const pool = on.poolOf("reads", read.role);
    return on
      .sharesOf("reads", read.role)
      .run(read.principal ?? "", signal, () =>
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
    return this.#of(node).withFreshSession(async (client) => {
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
    return [...this.#connections.values()].flatMap((connections) => connections.pools());
  }

  observe(observer: StoreObserver): void {
    this.#observer = observer;
  }

  forget(node: string): void {
    this.#of(node).forget();
  }

  async close(): Promise<void> {
    for (const connections of this.#connections.values()) connections.close();
    return Promise.resolve();
  }

  #retention(): RetentionConfig {
    return { retentionMs: this.#options.retentionMs };
  }
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
