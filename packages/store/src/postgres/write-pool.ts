// The sessions in which transactions run: one small pool per node and role, which can be dropped as
// a whole. It does not know the current epoch: a request of an old epoch may come late, and each
// transaction's receipt names its epoch to the server.
import pg from "pg";
import { type EpochId, HighwaterError } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { destroy, startupOptions } from "./channel.ts";
import { PostgresClient } from "./client.ts";
import { Pipeline } from "./pipeline.ts";
import { PreparedStatements } from "./prepared.ts";
import { enter, newSession, reset, type Session } from "./session.ts";
import { ADMISSION } from "./sql.ts";

export interface WritePoolOptions {
  readonly url: string;
  readonly name: string;
  /** The login role that the caller asked for; null for the service's own. */
  readonly role: string | null;
  readonly size: number;
  /** Transactions that may wait for a session. */
  readonly queue: number;
  readonly connectTimeoutMs: number;
  readonly statementTimeoutMs: number;
  readonly lockTimeoutMs: number;
  readonly clock: Clock;
  /** Whether sessions of a node in recovery are accepted, because nothing is written in them. */
  readonly onReplica?: boolean;
  /** Returns what the service's own connection finds against the role. Absent: no check. */
  readonly faultsOf?: (role: string) => Promise<readonly string[]>;
}

/** A session that one transaction has to itself. It must be released, once. */
export interface SessionLease {
  readonly session: Session;
  /**
   * `keep`: the session is in a known state and idle. `isReset`: it keeps nothing of what it was
   * used for.
   */
  release(how: { readonly keep: boolean; readonly isReset: boolean }): void;
}

interface Admission extends Pick<Session, "segmentBytes" | "holder" | "vettedMs"> {
  readonly inRecovery: boolean;
}

export interface UseOptions {
  /** The principal of the transaction; see `principalOf`. */
  readonly principal: string;
  readonly signal: AbortSignal | undefined;
}

const IDLE_SESSION_MS = 60_000;
/**
 * The server ends a session whose gateway is gone, and with it the transaction: at once where the
 * host says so, else within half a minute. Without them a session of a dead host holds its id and
 * its locks for two hours.
 */
const WHILE_CLIENT_LIVES = {
  client_connection_check_interval: "1000",
  tcp_keepalives_idle: "10",
  tcp_keepalives_interval: "5",
  tcp_keepalives_count: "4",
  tcp_user_timeout: "30000",
} as const;
/** A role's rights may change while its sessions are pooled. How old the last check may be. */
const VETTED_MS = 60_000;
/** Index of its first answer among those of ADMISSION. */
const ADMISSION_AT = 2;
/** pg-pool's error for a wait for a session that has timed out. It has no code. */
const POOL_TIMEOUT = "timeout exceeded when trying to connect";
/** SQLSTATE class of "out of connections" and its like. */
const OUT_OF_RESOURCES = /^53/;
/** SQLSTATE class of an invalid authorization, and a database to which the role may not connect. */
const REFUSES_LOGIN = /^(?:28...|42501)$/;
/**
 * node-postgres's error when the server asks for a password and there is none, or when the exchange
 * fails. It has no code.
 */
const REFUSED_PASSWORD = /^SASL: /;

export class WritePool {
  readonly #options: WritePoolOptions;
  readonly #sessions = new WeakMap<pg.PoolClient, Session>();
  readonly #inUse = new Set<pg.PoolClient>();
  /** The calls that wait for a session. */
  readonly #waiting = new Set<(cause: HighwaterError) => void>();
  /** Epochs that the server has refused; an epoch never comes back. */
  readonly #ended = new Set<EpochId>();
  #pool: pg.Pool | null = null;
  #closed = false;

  constructor(options: WritePoolOptions) {
    this.#options = options;
  }

  /**
   * Runs `work` on a session; a session that `work` leaves by an error of unknown outcome is ended.
   * Errors: `overloaded`, `primary_unavailable`, `epoch_changed`, `forbidden`; none of them has
   * applied anything.
   */
  async use<T>(epoch: EpochId, how: UseOptions, work: (session: Session) => Promise<T>): Promise<T> {
    const lease = await this.acquire(epoch, how.signal);
    enter(lease.session, how.principal);
    let keep = false;
    try {
      const result = await work(lease.session);
      keep = true;
      return result;
    } catch (cause) {
      if (cause instanceof HighwaterError) {
        if (cause.code === "epoch_changed") this.ended(epoch);
        keep = cause.outcome === "not_applied" && cause.code !== "primary_unavailable";
      }
      throw cause;
    } finally {
      lease.release({ keep, isReset: false });
    }
  }

  /**
   * Waits for a session. Errors: those of `use`; when the signal aborts the wait, its reason if
   * that is a HighwaterError, or else `cancelled`.
   */
  async acquire(epoch: EpochId, signal?: AbortSignal): Promise<SessionLease> {
    const client = await this.#checkOut(epoch, signal);
    this.#inUse.add(client);
    let session: Session;
    try {
      session = this.#sessions.get(client) ?? (await this.#admit(client));
      if (this.mustVet(session)) session.vettedMs = (await this.#vet(client)).vettedMs;
    } catch (cause) {
      this.#inUse.delete(client);
      client.release(true);
      throw cause;
    }
    return {
      session,
      release: ({ keep, isReset }) => {
        this.#inUse.delete(client);
        if (!keep || session.isLost || session.wasCancelled) client.release(true);
        else if (isReset) client.release();
        else void this.#resetAndRelease(session);
      },
    };
  }

  /**
   * True if its role was vetted too long ago. A session that is always busy must then be returned.
   */
  mustVet({ vettedMs }: Session): boolean {
    return this.#options.clock.monotonicMs() - vettedMs > VETTED_MS;
  }

  /** True while a call waits for a session. */
  get isWaitedFor(): boolean {
    return (this.#pool?.waitingCount ?? 0) > 0;
  }

  get load(): { readonly busy: number; readonly idle: number; readonly waiting: number } {
    const idle = this.#pool?.idleCount ?? 0;
    return { busy: (this.#pool?.totalCount ?? 0) - idle, idle, waiting: this.#pool?.waitingCount ?? 0 };
  }

  /** Takes note that the server has refused the epoch. */
  ended(epoch: EpochId): void {
    this.#ended.add(epoch);
  }

  async #checkOut(epoch: EpochId, signal: AbortSignal | undefined): Promise<pg.PoolClient> {
    const pool = this.#poolOf(epoch);
    if (pool.waitingCount >= this.#options.queue) throw queueFull(this.#options.queue);
    try {
      return await this.#waitFor(pool, signal);
    } catch (cause) {
      if (cause instanceof HighwaterError) throw cause;
      if (cause instanceof Error && cause.message === POOL_TIMEOUT)
        throw noSessionFree(this.#options.connectTimeoutMs, cause);
      throw this.#refused(cause as { code?: unknown; message?: unknown });
    }
  }

  /** Translates the error of a connection that could not be opened. */
  #refused(cause: { readonly code?: unknown; readonly message?: unknown }): HighwaterError {
    const { role, onReplica = false } = this.#options;
    const sqlstate = String(cause.code);
    const isLogin = REFUSES_LOGIN.test(sqlstate) || REFUSED_PASSWORD.test(String(cause.message));
    // Waiting would not help on the primary. A replica may not have replayed the role yet.
    if (isLogin && role !== null && !onReplica) {
      const detail = `The database does not let the role ${role} log in.`;
      return new HighwaterError("forbidden", { detail }, { cause });
    }
    const code = OUT_OF_RESOURCES.test(sqlstate) ? "overloaded" : "primary_unavailable";
    return new HighwaterError(code, { retryAfterMs: 1_000 }, { cause });
  }

  /**
   * Waits for a session, or until the pool is dropped: a waiting call has sent nothing, and need
   * not wait for a dead host.
   */
  #waitFor(pool: pg.Pool, signal: AbortSignal | undefined): Promise<pg.PoolClient> {
    return new Promise((resolve, reject) => {
      const giveUp = reject;
      const onAbort = (): void => {
        if (this.#waiting.delete(giveUp)) reject(cancelledFor(signal?.reason));
      };
      this.#waiting.add(giveUp);
      signal?.addEventListener("abort", onAbort, { once: true });
      if (signal?.aborted === true) onAbort();
      pool.connect().then(
        (client) => {
          signal?.removeEventListener("abort", onAbort);
          if (this.#waiting.delete(giveUp)) resolve(client);
          // The call no longer waits. The session is unused, so it goes back unless the whole pool
          // was dropped.
          else client.release(this.#pool !== pool);
        },
        (cause: Error) => {
          signal?.removeEventListener("abort", onAbort);
          this.#waiting.delete(giveUp);
          reject(cause);
        },
      );
    });
  }

  #poolOf(epoch: EpochId): pg.Pool {
    if (this.#closed)
      throw new HighwaterError("primary_unavailable", { detail: "The service is shutting down." });
    if (this.#ended.has(epoch)) throw new HighwaterError("epoch_changed", { retryAfterMs: 100 });
    this.#pool ??= this.#open();
    return this.#pool;
  }

  #open(): pg.Pool {
    const { url, name, size, connectTimeoutMs, statementTimeoutMs, lockTimeoutMs } = this.#options;
    const pool = new pg.Pool({
      Client: PostgresClient,
      connectionString: url,
      application_name: name,
      max: size,
      connectionTimeoutMillis: connectTimeoutMs,
      idleTimeoutMillis: IDLE_SESSION_MS,
      keepAlive: true,
      options: startupOptions({
        synchronous_commit: "off",
        statement_timeout: String(statementTimeoutMs),
        lock_timeout: String(lockTimeoutMs),
        idle_in_transaction_session_timeout: String(2 * statementTimeoutMs),
        ...WHILE_CLIENT_LIVES,
      }),
    });
    pool.on("error", () => undefined);
    // The pool listens to idle sessions only. While a session is in use, the failed query shows its
    // end.
    pool.on("connect", (client) => {
      client.on("error", () => undefined);
    });
    return pool;
  }

  /**
   * Admits a new session. It must have been opened on a primary: PostgreSQL keeps one that was
   * opened on a replica read-only.
   */
  async #admit(client: pg.PoolClient): Promise<Session> {
    const { onReplica = false } = this.#options;
    const { inRecovery, ...known } = await this.#vet(client);
    // A session that only reads asks with each snapshot which node it is on.
    if (inRecovery && !onReplica) throw unusable(new Error("the node is still a replica"));
    const session = newSession(client, known);
    this.#sessions.set(client, session);
    return session;
  }

  /**
   * Errors: `forbidden` when requests must not run as the role; the service's own role is the
   * operator's choice.
   */
  async #vet(client: pg.PoolClient): Promise<Admission> {
    // The answer may be as old as the question.
    const vettedMs = this.#options.clock.monotonicMs();
    const { role, faultsOf } = this.#options;
    const recorded = role === null ? undefined : faultsOf?.(role);
    recorded?.catch(() => undefined);
    const vetting = Pipeline.script(ADMISSION, new PreparedStatements());
    client.query(vetting);
    const { results, error } = await vetting.done.catch((cause: unknown) => {
      throw unusable(cause);
    });
    const [inRecovery, segmentBytes, user, holder] = results[ADMISSION_AT]?.rows[0] ?? [];
    if (error !== null || segmentBytes == null || holder == null) throw unusable(error);
    const faults = results[ADMISSION_AT + 1]?.rows.map(([fault]) => String(fault)) ?? [];
    faults.push(
      ...((await recorded?.catch((cause: unknown) => {
        throw unusable(cause);
      })) ?? []),
    );
    if (role !== null && user !== role) faults.push(`is logged in as ${String(user)}`);
    if (role !== null && faults.length > 0)
      throw new HighwaterError("forbidden", {
        detail: `No request runs as the role ${role}: it ${faults.join("; it ")}. Take that from the role, or give the key another one.`,
      });
    return { inRecovery: inRecovery === "true", segmentBytes: BigInt(segmentBytes), holder, vettedMs };
  }

  /**
   * Resets the session after the caller has its answer, and returns it only if nothing of its use
   * is left.
   */
  async #resetAndRelease(session: Session): Promise<void> {
    session.client.release(!(await reset(session, this.#options)));
  }

  /** Ends every session; work in flight fails as if the connection had died. */
  reset(): void {
    const old = this.#pool;
    this.#pool = null;
    for (const giveUp of this.#waiting) giveUp(new HighwaterError("epoch_changed", { retryAfterMs: 100 }));
    this.#waiting.clear();
    for (const client of this.#inUse) {
      // The connection reports its end later, and nothing may be sent before that.
      const session = this.#sessions.get(client);
      if (session !== undefined) session.isLost = true;
      destroy(client);
    }
    if (old === null) return;
    old.on("release", (_error, client) => {
      destroy(client);
    });
    void old.end().catch(() => undefined);
  }

  close(): void {
    this.#closed = true;
    this.reset();
  }
}

/**
 * Returns the principal of a transaction. Requests of one principal may share a session's prepared
 * statements; those of two may not.
 */
export function principalOf(spec: { readonly principal?: string } | undefined): string {
  return spec?.principal ?? "";
}

function unusable(cause: unknown): HighwaterError {
  return new HighwaterError("primary_unavailable", { retryAfterMs: 1_000 }, { cause });
}

export function queueFull(poolQueue: number): HighwaterError {
  return new HighwaterError("overloaded", {
    detail: `${String(poolQueue)} transactions already wait for a database session (poolQueue); retry later.`,
    limit: { name: "poolQueue", value: poolQueue },
    retryAfterMs: 1_000,
  });
}

export function noSessionFree(connectTimeoutMs: number, cause?: unknown): HighwaterError {
  const detail = `No database session became free within connectTimeoutMs (${String(connectTimeoutMs)} ms); retry later.`;
  const limit = { name: "connectTimeoutMs", value: connectTimeoutMs };
  return new HighwaterError("overloaded", { detail, limit, retryAfterMs: 1_000 }, { cause });
}

export function cancelledFor(reason: unknown): HighwaterError {
  if (reason instanceof HighwaterError) return reason;
  return new HighwaterError(
    "cancelled",
    { detail: "It was cancelled before it had a session." },
    { cause: reason },
  );
}
