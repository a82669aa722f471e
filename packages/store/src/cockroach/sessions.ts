// The sessions for transactions on one cluster, and what every session of the adapter sets.
import { connect } from "node:net";
import pg from "pg";
import { HighwaterError, type NodeSpec } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { applicationName, destroy, startupOptions } from "../postgres/channel.ts";
import { PostgresClient } from "../postgres/client.ts";
import { type Canceller, enter, newSession, type Session } from "../postgres/session.ts";
import { cancelledFor, noSessionFree, principalOf, queueFull } from "../postgres/write-pool.ts";
import { type PoolReport } from "../port.ts";

export interface SessionOptions {
  readonly clock: Clock;
  readonly helper: string;
  readonly poolSize: number;
  readonly poolQueue: number;
  readonly connectTimeoutMs: number;
  readonly callTimeoutMs: number;
  readonly statementTimeoutMs: number;
  readonly lockTimeoutMs: number;
}

const IDLE_SESSION_MS = 60_000;
/** The server retries a transaction by itself while its results fit in here. */
const RESULTS_BUFFER = "65536";

/**
 * Settings of every session. Without the first, DDL in a transaction commits what came before it,
 * the receipt included. The second allows `crdb_internal`, which distinguishes clusters.
 */
export function cockroachSettings(limits: {
  readonly statementTimeoutMs: number;
  readonly lockTimeoutMs: number;
}): Record<string, string> {
  return {
    autocommit_before_ddl: "off",
    allow_unsafe_internals: "on",
    // Set on a role, it would move every read-only transaction to a time before its token's.
    default_transaction_use_follower_reads: "off",
    TimeZone: "UTC",
    results_buffer_size: RESULTS_BUFFER,
    statement_timeout: String(limits.statementTimeoutMs),
    lock_timeout: String(limits.lockTimeoutMs),
    idle_in_transaction_session_timeout: String(2 * limits.statementTimeoutMs),
  };
}

export class Sessions {
  readonly canceller: Canceller;
  readonly #spec: NodeSpec;
  readonly #options: SessionOptions;
  readonly #use: PoolReport["use"];
  readonly #inUse = new Map<pg.PoolClient, Session>();
  readonly #known = new WeakMap<pg.PoolClient, Session>();
  #pool: pg.Pool | null = null;
  #opened = 0;
  #isClosed = false;

  constructor(spec: NodeSpec, options: SessionOptions, use: PoolReport["use"] = "write") {
    this.#spec = spec;
    this.#options = options;
    this.#use = use;
    this.canceller = {
      clock: options.clock,
      cancelBackend: (processId) => this.#cancel(processId),
      // The server ends what a closed connection was running.
      terminateBackend: () => Promise.resolve(),
      giveUp: () => undefined,
    };
  }

  /** Errors: `overloaded`, `primary_unavailable`, `cancelled`; nothing was sent. */
  async lease(
    spec: { readonly principal?: string; readonly role?: string | null },
    signal: AbortSignal | undefined,
  ): Promise<Session> {
    if (spec.role != null)
      throw new HighwaterError("forbidden", {
        detail: `This store has no login roles of keys (${spec.role}): every request runs as the service's.`,
      });
    if (this.#isClosed)
      throw new HighwaterError("primary_unavailable", { detail: "The service is shutting down." });
    if (isAborted(signal)) throw cancelledFor(signal?.reason);
    this.#pool ??= this.#open();
    const pool = this.#pool;
    if (pool.waitingCount >= this.#options.poolQueue) throw queueFull(this.#options.poolQueue);
    const client = await pool.connect().catch((cause: unknown) => {
      if (String(cause).includes("timeout exceeded"))
        throw noSessionFree(this.#options.connectTimeoutMs, cause);
      throw new HighwaterError("primary_unavailable", { retryAfterMs: 1_000 }, { cause });
    });
    const why = pool === this.#pool ? null : new HighwaterError("epoch_changed", { retryAfterMs: 100 });
    const refusal = isAborted(signal) ? cancelledFor(signal?.reason) : why;
    if (refusal !== null) {
      client.release(why !== null);
      throw refusal;
    }
    const session = this.#known.get(client) ?? this.#admit(client);
    this.#inUse.set(client, session);
    enter(session, principalOf(spec));
    return session;
  }

  release(session: Session, keep: boolean): void {
    const client = session.client;
    if (!this.#inUse.delete(client)) return;
    const isWhole = keep && !session.isLost && !session.wasCancelled;
    if (!isWhole) destroy(client);
    client.release(!isWhole);
  }

  report(): PoolReport[] {
    if (this.#pool === null) return [];
    const { idleCount: idle, waitingCount: waiting } = this.#pool;
    return [{ node: this.#spec.id, use: this.#use, busy: this.#inUse.size, idle, waiting }];
  }

  /** Work in flight fails as if the connection had died. */
  reset(): void {
    const old = this.#pool;
    this.#pool = null;
    for (const session of this.#inUse.values()) {
      session.isLost = true;
      destroy(session.client);
    }
    void old?.end().catch(() => undefined);
  }

  close(): void {
    this.#isClosed = true;
    this.reset();
  }

  #open(): pg.Pool {
    const { helper, poolSize, connectTimeoutMs, statementTimeoutMs, lockTimeoutMs } = this.#options;
    const pool = new pg.Pool({
      Client: CockroachClient,
      connectionString: this.#spec.appUrl ?? this.#spec.url,
      application_name: applicationName(helper),
      max: poolSize,
      connectionTimeoutMillis: connectTimeoutMs,
      idleTimeoutMillis: IDLE_SESSION_MS,
      keepAlive: true,
      options: startupOptions(cockroachSettings({ statementTimeoutMs, lockTimeoutMs })),
    });
    pool.on("error", () => undefined);
    pool.on("connect", (client) => {
      client.on("error", () => undefined);
    });
    return pool;
  }

  #admit(client: pg.PoolClient): Session {
    const holder = `${this.#options.helper}/${String(++this.#opened)}`;
    const session = newSession(client, { holder, segmentBytes: 0n, vettedMs: 0 });
    this.#known.set(client, session);
    return session;
  }

  /** The protocol's own request: it needs no session and no privilege. */
  #cancel(processId: number): Promise<void> {
    for (const { client } of this.#inUse.values()) {
      const { processID, secretKey, host, port } = client as unknown as Backend;
      if (processID === processId) return sendCancel({ processID, secretKey, host, port });
    }
    return Promise.resolve();
  }
}

export class CockroachClient extends PostgresClient {
  protected override readonly mayBeCockroach = true;
}

function isAborted(signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true;
}

interface Backend {
  readonly processID: number;
  readonly secretKey: number;
  readonly host: string;
  readonly port: number;
}

const CANCEL_CODE = 80_877_102;

function sendCancel({ processID, secretKey, host, port }: Backend): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = Buffer.alloc(16);
    for (const [at, value] of [16, CANCEL_CODE, processID, secretKey].entries())
      request.writeInt32BE(value, 4 * at);
    const socket = connect({ host, port }, () => {
      socket.end(request, resolve);
    });
    socket.on("error", reject);
  });
}
