// The connections to one node: a channel for each purpose, pools and queues for each login role.
import { type Clock } from "@highwater/runtime";
import { HighwaterError, type NodeSpec } from "@highwater/protocol";
import { type PoolReport, type StoreObserver } from "../port.ts";
import { applicationName, Channel, destroy, sessionSettings, startupOptions } from "./channel.ts";
import { PostgresClient } from "./client.ts";
import { GivenUp, TransactionLimits } from "./holders.ts";
import { PositionsReader } from "./positions.ts";
import { type LastSeen } from "./probe.ts";
import { ReadPositions } from "./read-positions.ts";
import { vetLogin } from "./reader-roles.ts";
import { type ReplicaStreams } from "./replica-streams.ts";
import { type Canceller } from "./session.ts";
import { SharedWrites } from "./shared-writes.ts";
import { Shares } from "./shares.ts";
import { CANCEL, TERMINATE } from "./sql.ts";
import { Warden } from "./warden.ts";
import { WritePool } from "./write-pool.ts";

export interface ConnectionOptions {
  readonly clock: Clock;
  /**
   * Names this process to the server, and its row among the witnesses. Unique among running
   * processes.
   */
  readonly helper: string;
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

interface ConnectionParts {
  readonly options: ConnectionOptions;
  readonly streams: ReplicaStreams;
  readonly observer: () => StoreObserver | null;
}

/** A name of a login role. Null and undefined are the service's own role. */
type Role = string | null | undefined;
type Use = "writes" | "reads";

/** Calls that may have to wait for another transaction get this many times the usual limit. */
const SLOW_CALLS = 10;

/** A purpose never waits for another. */
export class NodeConnections {
  readonly spec: NodeSpec;
  readonly seen: LastSeen = { primary: false, schema: "none" };
  readonly probe: Channel;
  readonly positions: Channel;
  readonly positionsReader: PositionsReader;
  readonly flush: Channel;
  readonly lookUp: Channel;
  readonly logEnd: Channel;
  readonly settle: Channel;
  /** Waits for ids that a session holds. Those that are free are settled meanwhile. */
  readonly settleHeld: Channel;
  readonly rescue: Channel;
  readonly warden: Warden;
  readonly givenUp = new GivenUp();
  readonly limits: TransactionLimits;
  readonly readPositions = new ReadPositions();
  readonly canceller: Canceller;
  readonly #parts: ConnectionParts;
  /** By login role; under null, the service's own. */
  readonly #pools: Record<Use, Map<string | null, WritePool>> = { writes: new Map(), reads: new Map() };
  readonly #shared = new Map<string | null, SharedWrites>();
  /** Who may have how much of the sessions. */
  readonly #shares: Record<Use, Map<string | null, Shares>> = { writes: new Map(), reads: new Map() };
  #turn = 0;

  constructor(spec: NodeSpec, parts: ConnectionParts) {
    const { clock, helper, connectTimeoutMs, callTimeoutMs } = parts.options;
    const channel = (purpose: string, timeoutMs = callTimeoutMs): Channel =>
      new Channel({
        url: spec.url,
        name: applicationName(helper, purpose),
        settings: sessionSettings(timeoutMs),
        connectTimeoutMs,
        callTimeoutMs: timeoutMs,
        clock,
      });
    this.spec = spec;
    this.#parts = parts;
    this.probe = channel("probe");
    this.positions = channel("positions");
    this.positionsReader = new PositionsReader(spec.id, parts.streams, clock);
    this.flush = channel("flush");
    this.lookUp = channel("look-up");
    this.logEnd = channel("log-end");
    this.settle = channel("settle", SLOW_CALLS * callTimeoutMs);
    this.settleHeld = channel("held:settle", SLOW_CALLS * callTimeoutMs);
    this.rescue = channel("rescue");
    this.warden = new Warden(channel("warden"), clock);
    this.limits = new TransactionLimits(helper, clock);
    this.canceller = {
      clock,
      cancelBackend: (processId) => this.rescue.run((client) => client.query(CANCEL, [processId])),
      terminateBackend: (processId) => this.rescue.run((client) => client.query(TERMINATE, [processId])),
      giveUp: (key, holder) => {
        this.givenUp.add(key, holder);
      },
    };
  }

  readonly nextTurn = (): number => this.#turn++;

  /** The sessions of one role; made when first wanted. */
  poolOf(use: Use, role: Role): WritePool {
    return made(this.#pools[use], role, (name) => {
      const { roleUrl = unknownRole, helper, clock, poolQueue } = this.#parts.options;
      const { connectTimeoutMs, statementTimeoutMs, lockTimeoutMs } = this.#parts.options;
      const { url, appUrl } = this.spec;
      return new WritePool({
        url: name === null ? (appUrl ?? url) : roleUrl(url, name),
        name: applicationName(helper),
        role: name,
        clock,
        size: this.#sizeOf(name),
        queue: poolQueue,
        connectTimeoutMs,
        statementTimeoutMs,
        lockTimeoutMs,
        onReplica: use === "reads",
        faultsOf: (login) => this.faultsOf(login),
      });
    });
  }

  sharedOf(role: Role): SharedWrites {
    return made(this.#shared, role, (name) => {
      const { poolQueue, connectTimeoutMs, clock } = this.#parts.options;
      return new SharedWrites({
        pool: this.poolOf("writes", name),
        size: this.#sizeOf(name),
        queue: poolQueue,
        waitMs: connectTimeoutMs,
        clock,
        parts: { canceller: this.canceller, readPositions: this.readPositions },
        observer: this.#parts.observer,
      });
    });
  }

  sharesOf(use: Use, role: Role): Shares {
    return made(this.#shares[use], role, (name) => {
      const { poolQueue: queue, connectTimeoutMs: waitMs, clock } = this.#parts.options;
      return new Shares({ size: this.#sizeOf(name), queue, waitMs, clock });
    });
  }

  #sizeOf(role: string | null): number {
    return role === null ? this.#parts.options.poolSize : this.#parts.options.rolePoolSize;
  }

  async faultsOf(role: string): Promise<readonly string[]> {
    const { faults, unprotected } = await this.lookUp.run((client) => vetLogin(client, role));
    if (unprotected.length > 0) this.#parts.observer()?.onUnprotected(this.spec.id, role, unprotected);
    return faults;
  }

  /**
   * Works in a session that is opened now: one that was opened while the node was a replica must
   * not write.
   */
  async withFreshSession<T>(
    work: (client: PostgresClient & { processID?: number | null }) => Promise<T>,
    settings: Readonly<Record<string, string>> = {},
  ): Promise<T> {
    const { connectTimeoutMs, callTimeoutMs, clock, helper } = this.#parts.options;
    const limitMs = SLOW_CALLS * callTimeoutMs;
    const client = new PostgresClient({
      connectionString: this.spec.url,
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

  /** None for a use that no transaction has asked for yet. */
  pools(): PoolReport[] {
    let queued = 0;
    for (const { waiting } of this.#shared.values()) queued += waiting;
    return [...this.#poolReport("write", queued), ...this.#poolReport("read", 0)];
  }

  #poolReport(use: PoolReport["use"], queued: number): PoolReport[] {
    const pools = this.#pools[`${use}s`];
    if (pools.size === 0) return [];
    const report = { node: this.spec.id, use, busy: 0, idle: 0, waiting: queued };
    for (const { load } of pools.values()) {
      report.busy += load.busy;
      report.idle += load.idle;
      report.waiting += load.waiting;
    }
    return [report];
  }

  forget(): void {
    for (const channel of this.#primaryChannels) channel.reset();
    this.limits.forget();
    this.#endWaits(new HighwaterError("epoch_changed", { retryAfterMs: 100 }));
    for (const pool of this.#allPools) pool.reset();
  }

  close(): void {
    this.#endWaits(
      new HighwaterError("primary_unavailable", {
        detail: "The service is shutting down.",
        retryAfterMs: 1_000,
      }),
    );
    for (const channel of [...this.#primaryChannels, this.probe, this.warden]) channel.close();
    for (const pool of this.#allPools) pool.close();
  }

  /** They serve a primary, and begin anew when it changes. */
  get #primaryChannels(): readonly Channel[] {
    return [this.positions, this.flush, this.lookUp, this.logEnd, this.settle, this.settleHeld, this.rescue];
  }

  get #allPools(): readonly WritePool[] {
    return [...this.#pools.writes.values(), ...this.#pools.reads.values()];
  }

  #endWaits(cause: HighwaterError): void {
    const { writes, reads } = this.#shares;
    for (const waiting of [...writes.values(), ...reads.values(), ...this.#shared.values()])
      waiting.reset(cause);
  }
}

/** What the map has for the role, made when it is first wanted. */
function made<T>(map: Map<string | null, T>, role: Role, make: (name: string | null) => T): T {
  const name = role ?? null;
  const found = map.get(name) ?? make(name);
  map.set(name, found);
  return found;
}

function unknownRole(_nodeUrl: string, role: string): never {
  throw new Error(`this process has no way to log in as ${role}`);
}
