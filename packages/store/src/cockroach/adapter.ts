// The CockroachDB adapter of the store port. A node is a cluster, and the other nodes are its
// standbys by physical cluster replication. It has never run against a CockroachDB server.
import { type NodeReport } from "@highwater/authority";
import {
  type EpochId,
  type EpochRecord,
  formatOffset,
  HighwaterError,
  type NodeSpec,
  type Offset,
} from "@highwater/protocol";
import type {
  Execution,
  KeyCheck,
  LockFlood,
  MintRequest,
  Opening,
  PoolReport,
  PositionsReport,
  ReceiptKey,
  ReceiptsAsOf,
  ReplicaPosition,
  ReplicaRead,
  ReplicaReading,
  RetentionReport,
  SettleRequest,
  Store,
  StoreNode,
  StoreObserver,
  TransactionSpec,
  Witness,
} from "../port.ts";
import { Cluster, type ClusterOptions, type ClusterStatus, query } from "./cluster.ts";
import { parseHlc } from "./hlc.ts";
import { readAsOf } from "./reads.ts";
import { lookUp, readLogEnd, settle } from "./receipts.ts";
import {
  ADD_EPOCH,
  ADD_KEY_CHECK,
  DROP_RECEIPTS,
  FIRST_RETENTION,
  IDENTITY,
  IS_PREPARED,
  KEY_CHECKS,
  MOVE_RETENTION,
  RAISE_FINAL_MARK,
  RETENTION,
  TABLES,
  VERSION,
} from "./sql.ts";
import { begin, execute } from "./transactions.ts";
import { versionFault } from "./version.ts";

export interface CockroachStoreOptions extends ClusterOptions {
  readonly nodes: readonly NodeSpec[];
  readonly retentionMs: number;
  /** How often standbys are asked. They say something new every 30 seconds. Default: 1,000. */
  readonly askStandbysEveryMs?: number;
}

const ASK_EVERY_MS = 1_000;
const ATTEMPTS = 5;
/** Another process creates or inserts the same; and conflicts, which the server asks to repeat. */
const AGAIN = new Set(["23505", "40001", "40003", "42P06", "42P07", "42710", "XX000"]);

/** No row, no table, no schema. */
const HAS_NO_EPOCH = new Set(["epoch_changed", "42P01", "3F000"]);

export class CockroachStore implements Store {
  readonly nodes: readonly StoreNode[];
  readonly countsBytes = false;
  /** It answers a commit when its survival goal holds for it: a majority has it. */
  readonly commitsDurably = true;
  /** The wire's checks are PostgreSQL's functions. */
  readonly wire = null;
  readonly #options: CockroachStoreOptions;
  readonly #clusters: ReadonlyMap<string, Cluster>;
  readonly #asked = new Map<
    string,
    { readonly atMs: number; readonly answer: Promise<ClusterStatus | null> }
  >();
  /** By node: the epochs that it showed when it last served. */
  readonly #histories = new Map<string, readonly EpochRecord[]>();

  constructor(options: CockroachStoreOptions) {
    this.#options = options;
    this.nodes = options.nodes.map(({ id, region, zone }) => ({ id, region, zone }));
    this.#clusters = new Map(options.nodes.map((spec) => [spec.id, new Cluster(spec, options)]));
  }

  #of(node: string): Cluster {
    const found = this.#clusters.get(node);
    if (found === undefined) throw new Error(`node ${node} is not configured`);
    return found;
  }

  async prepare(node: string): Promise<void> {
    const on = this.#of(node);
    const [version] = await on.ask(VERSION);
    const fault = versionFault(version?.["version"] ?? "");
    if (fault !== null) throw new Error(`node ${node}: ${fault}`);
    for (const sql of TABLES) await again(() => on.ask(sql));
    await again(() => on.ask(FIRST_RETENTION, [String(this.#options.retentionMs)]));
  }

  async probe(node: string): Promise<NodeReport> {
    const on = this.#of(node);
    const status = await on.status();
    if (status.status !== "ready") {
      this.#histories.delete(node);
      return standbyReport(node, status, this.#replicatedBy(node, status));
    }
    const [[identity], [tables]] = await Promise.all([on.ask(IDENTITY), on.ask(IS_PREPARED)]);
    const prepared = tables?.["prepared"] === "t";
    const { records, newest } = prepared ? await this.#epochs(on) : { records: [], newest: undefined };
    const isCurrent = newest !== undefined && newest["cluster_id"] === identity?.["cluster_id"];
    const end = parseHlc(identity?.["now"] ?? "");
    return {
      node,
      role: "primary",
      prepared,
      epochs: records,
      unfit: unfitness(status),
      upstream: null,
      isFed: false,
      // A cluster has no start: its servers come and go.
      incarnation: identity?.["cluster_id"] ?? "",
      current: isCurrent ? (records.at(-1)?.id as EpochId) : null,
      flushed: end,
      applied: end,
      command: null,
      serverTimeMs: Number(identity?.["now_ms"]),
    };
  }

  async #epochs(on: Cluster): ReturnType<Cluster["epochs"]> {
    const found = await on.epochs();
    this.#histories.set(on.spec.id, found.records);
    return found;
  }

  /**
   * The epochs that the standby has: its tables cannot be read, but it has every row of its source
   * up to its mark.
   */
  #replicatedBy(node: string, status: ClusterStatus): readonly EpochRecord[] {
    const { mark } = status;
    const source = this.nodes.find(({ id }) => id !== node && this.#isFedBy(status, id));
    if (mark === null || source === undefined) return [];
    const records = this.#histories.get(source.id) ?? [];
    return records.filter(({ startOffset }) => BigInt(startOffset) <= mark);
  }

  /** No log, so no witness of how far it reached: `activation_time` says it. */
  witnessOf(): Promise<Witness | null> {
    return Promise.resolve(null);
  }

  async positions(node: string): Promise<PositionsReport | null> {
    const others = this.nodes.filter(({ id }) => id !== node);
    const [end, ...answers] = await Promise.all([
      this.#endOrNull(node),
      ...others.map(({ id }) => this.#standby(id)),
    ]);
    if (end === null) return null;
    const replicas = others.flatMap(({ id }, at): ReplicaPosition[] => {
      const status = answers[at];
      if (status?.mark == null || !this.#isFedBy(status, node)) return [];
      return [{ node: id, session: status.stream, flushed: status.mark, synchronous: false }];
    });
    const { epoch, offset } = end;
    return { node, epoch, flushed: offset, applied: offset, replicas };
  }

  async #endOrNull(node: string): Promise<{ readonly epoch: EpochId; readonly offset: Offset } | null> {
    return this.logEnd(node).catch((cause: unknown) => {
      if (HAS_NO_EPOCH.has((cause as { code?: string }).code ?? "")) return null;
      throw cause;
    });
  }

  /** Null: it does not answer, and its mark stays where it is. */
  #standby(node: string): Promise<ClusterStatus | null> {
    const nowMs = this.#options.clock.monotonicMs();
    const last = this.#asked.get(node);
    if (last !== undefined && nowMs - last.atMs < (this.#options.askStandbysEveryMs ?? ASK_EVERY_MS))
      return last.answer;
    const answer = this.#of(node)
      .status()
      .catch(() => null);
    this.#asked.set(node, { atMs: nowMs, answer });
    return answer;
  }

  /** A standby of another cluster proves nothing of this one's log. */
  #isFedBy({ sourceUri }: ClusterStatus, primary: string): boolean {
    const known = this.#options.sources?.[primary];
    return known === undefined
      ? hostOf(sourceUri) === hostOf(this.#of(primary).spec.url)
      : sourceUri === known;
  }

  async mint(node: string, request: MintRequest): Promise<EpochRecord> {
    const on = this.#of(node);
    for (let attempt = 1; ; attempt++) {
      const [{ status, prior, ownSource }, [identity], { records, newest }] = await Promise.all([
        on.status(),
        on.ask(IDENTITY),
        this.#epochs(on),
      ]);
      if (status !== "ready")
        throw new Error(`node ${node} begins no epoch: its virtual cluster is ${status}`);
      const last = records.at(-1);
      if (last !== undefined && newest?.["cluster_id"] === identity?.["cluster_id"]) return last;
      if (attempt > ATTEMPTS) throw new Error(`node ${node} begins no epoch: others are always first`);
      const fork = last === undefined ? null : forkOf(node, newest?.["source"], prior);
      const values = [
        String(Math.max(request.minSeq, (last?.seq ?? 0) + 1)),
        last?.id ?? null,
        node,
        last === undefined ? "first" : "promotion",
        ownSource,
        fork === null ? "0" : formatOffset(fork),
        fork === null ? null : formatOffset(fork),
        request.supersedes.join(","),
        String(request.command !== null),
      ];
      await on.ask(ADD_EPOCH, values).catch((cause: unknown) => {
        if (!AGAIN.has((cause as { code?: string }).code ?? "")) throw cause;
      });
      const marks = last === undefined ? undefined : request.finalMarks[last.id];
      if (marks !== undefined) await this.#raiseNewest(on, marks);
    }
  }

  async #raiseNewest(on: Cluster, marks: Readonly<Record<string, string>>): Promise<void> {
    const id = (await on.epochs()).records.at(-1)?.id;
    if (id !== undefined) await this.raiseFinalMarks(on.spec.id, id as EpochId, marks);
  }

  async raiseFinalMarks(
    node: string,
    epoch: EpochId,
    marks: Readonly<Record<string, string>>,
  ): Promise<void> {
    for (const [level, mark] of Object.entries(marks))
      await again(() => this.#of(node).ask(RAISE_FINAL_MARK, [epoch, level, mark]));
  }

  disownEpoch(): Promise<void> {
    return Promise.reject(new Error("a restored CockroachDB cluster is not supported: no epoch is disowned"));
  }

  endLockFloods(): Promise<readonly LockFlood[]> {
    return Promise.resolve([]);
  }

  notificationQueueUsage(): Promise<number> {
    return Promise.resolve(0);
  }

  unloggedTables(): Promise<readonly string[]> {
    return Promise.resolve([]);
  }

  async execute(node: string, spec: TransactionSpec, signal?: AbortSignal): Promise<Execution> {
    return execute(this.#of(node).sessions, spec, signal).catch((cause: unknown) =>
      this.#outOfWindow(node, spec, cause),
    );
  }

  async begin(node: string, spec: TransactionSpec, signal?: AbortSignal): Promise<Opening> {
    return begin(this.#of(node).sessions, spec, signal).catch((cause: unknown) =>
      this.#outOfWindow(node, spec, cause),
    );
  }

  /** A receipt that was dropped may have been there: such an id is of unknown outcome. */
  async #outOfWindow(
    node: string,
    key: ReceiptKey,
    cause: unknown,
  ): Promise<{ readonly kind: "already_settled" }> {
    if (!(cause instanceof HighwaterError) || cause.code !== "id_out_of_window") throw cause;
    const kind = (await this.lookUp(node, [key])).receipts[0]?.kind;
    if (kind === "commit" || kind === "aborted" || kind === "lost") return { kind: "already_settled" };
    if (kind !== "expired") throw cause;
    throw new HighwaterError("id_expired", { transactionId: key.id }, { cause });
  }

  /**
   * Reads on the cluster that serves, at the servers nearest to this service. A standby's tables
   * cannot be read as of a position.
   */
  async readReplica(node: string, read: ReplicaRead, signal?: AbortSignal): Promise<ReplicaReading> {
    if (!this.#histories.has(node)) return { kind: "behind" };
    return readAsOf(this.#of(node).readers, read, this.#options.clock.wallMs(), signal);
  }

  /** An acknowledged commit is on its quorum already. */
  async helpFlush(node: string, epoch: EpochId): Promise<Offset> {
    const end = await this.#endOrNull(node);
    if (end?.epoch !== epoch) throw new HighwaterError("epoch_changed", { retryAfterMs: 100 });
    return end.offset;
  }

  lookUp(node: string, keys: readonly ReceiptKey[]): Promise<ReceiptsAsOf> {
    return this.#of(node).control.run((client) => lookUp(client, keys));
  }

  logEnd(node: string): Promise<{ readonly epoch: EpochId; readonly offset: Offset }> {
    return this.#of(node).control.run(readLogEnd);
  }

  settle(node: string, request: SettleRequest): Promise<ReceiptsAsOf> {
    return this.#of(node).settling.run((client) => settle(client, request));
  }

  giveUp(): void {
    // The server ends what a closed connection was running.
  }

  async maintain(node: string, request: { expireBeforeMs: number | null }): Promise<RetentionReport> {
    const on = this.#of(node);
    const values = [String(this.#options.retentionMs), String(Math.floor(request.expireBeforeMs ?? 0))];
    await again(() => on.ask(MOVE_RETENTION, values));
    await again(() => on.control.run((client) => client.query(DROP_RECEIPTS)));
    return on.control.run(async (client) => {
      const [row] = await query(client, RETENTION);
      return {
        expiredBeforeMs: Number(row?.["expired_before_ms"]),
        ceilingMs: Number(row?.["ceiling_ms"]),
        position: await readLogEnd(client),
        serverTimeMs: Number(row?.["now_ms"]),
      };
    });
  }

  roleFaults(_node: string, role: string): Promise<readonly string[]> {
    return Promise.resolve([`cannot be used: this store has no login roles of keys (${role})`]);
  }

  endSession(): Promise<void> {
    return Promise.resolve();
  }

  async keyChecks(node: string): Promise<readonly KeyCheck[]> {
    const rows = await this.#of(node).ask(KEY_CHECKS);
    return rows.map((row) => ({
      kid: Number(row["kid"]),
      validFromMs: Number(row["valid_from_ms"]),
      value: row["value"] ?? "",
    }));
  }

  async addKeyChecks(node: string, checks: readonly KeyCheck[]): Promise<void> {
    for (const { kid, validFromMs, value } of checks)
      await again(() => this.#of(node).ask(ADD_KEY_CHECK, [String(kid), String(validFromMs), value]));
  }

  pools(): PoolReport[] {
    return [...this.#clusters.values()].flatMap(({ sessions, readers }) => [
      ...sessions.report(),
      ...readers.report(),
    ]);
  }

  observe(_observer: StoreObserver): void {
    // Nothing here is known to the store alone.
  }

  forget(node: string): void {
    this.#of(node).forget();
  }

  close(): Promise<void> {
    for (const cluster of this.#clusters.values()) cluster.close();
    return Promise.resolve();
  }
}

/**
 * Where this cluster left the history of the epoch before it: all up to there is here, and nothing
 * above. Errors: it comes from another cluster, so that its history is unknown.
 */
function forkOf(node: string, source: string | null | undefined, prior: ClusterStatus["prior"]): Offset {
  if (prior !== null && prior.source === source) return prior.at;
  const from = prior === null ? "no cluster" : prior.source;
  throw new Error(
    `node ${node} begins no epoch: its tables are of ${String(source)}, and its server says that it was a standby of ${from}`,
  );
}

function unfitness({ isUnsafe }: ClusterStatus): string | null {
  return isUnsafe ? "kv.raft_log.synchronization.unsafe.disabled is on" : null;
}

function standbyReport(node: string, standby: ClusterStatus, epochs: readonly EpochRecord[]): NodeReport {
  const { status, mark, stream, ownSource } = standby;
  const offset = mark ?? (0n as Offset);
  return {
    node,
    role: "replica",
    prepared: epochs.length > 0,
    epochs,
    current: null,
    command: null,
    unfit: unfitness(standby),
    incarnation: ownSource,
    flushed: offset,
    applied: offset,
    upstream: mark === null ? null : { session: stream, flushed: offset },
    isFed: status === "replicating",
    // It is not asked: a standby's virtual cluster has no SQL.
    serverTimeMs: 0,
  };
}

function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : "";
}

async function again<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++)
    try {
      return await work();
    } catch (cause) {
      if (attempt === ATTEMPTS || !AGAIN.has((cause as { code?: string }).code ?? "")) throw cause;
    }
}
