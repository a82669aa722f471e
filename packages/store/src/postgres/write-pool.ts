// The sessions in which transactions run: one small pool per node, thrown away whole when the epoch changes.
import pg from "pg";
import { type EpochId, HighwaterError } from "@highwater/protocol";
import { destroy } from "./channel.ts";
import { type Session } from "./execute.ts";
import { PreparedStatements } from "./prepared.ts";

export interface WritePoolOptions {
  readonly url: string;
  readonly name: string;
  readonly size: number;
  /** Transactions that may wait for a session. */
  readonly queue: number;
  readonly connectTimeoutMs: number;
  readonly statementTimeoutMs: number;
}

const IDLE_SESSION_MS = 60_000;

export class WritePool {
  readonly #options: WritePoolOptions;
  readonly #sessions = new WeakMap<pg.PoolClient, Session>();
  #pool: pg.Pool | null = null;
  #epoch: EpochId | null = null;
  readonly #ended = new Set<EpochId>();
  #closed = false;

  constructor(options: WritePoolOptions) {
    this.#options = options;
  }

  /**
   * Runs `work` on a session of the epoch; a session that `work` leaves by an error of unknown outcome is ended.
   * Errors: `overloaded`, `primary_unavailable`, `epoch_changed`; none of them has applied anything.
   */
  async use<T>(epoch: EpochId, resetAfter: boolean, work: (session: Session) => Promise<T>): Promise<T> {
    const client = await this.#checkOut(epoch);
    let keep = false;
    try {
      const session = this.#sessions.get(client) ?? (await this.#admit(client));
      const result = await work(session);
      keep = true;
      return result;
    } catch (cause) {
      keep =
        cause instanceof HighwaterError &&
        cause.outcome === "not_applied" &&
        cause.code !== "primary_unavailable";
      throw cause;
    } finally {
      if (!keep) client.release(true);
      else if (resetAfter) void this.#scrub(client);
      else client.release();
    }
  }

  async #checkOut(epoch: EpochId): Promise<pg.PoolClient> {
    const pool = this.#poolOf(epoch);
    if (pool.waitingCount >= this.#options.queue)
      throw new HighwaterError("overloaded", {
        detail: "Too many transactions wait for a database session.",
        retryAfterMs: 1_000,
      });
    try {
      return await pool.connect();
    } catch (cause) {
      if (pool.totalCount >= this.#options.size)
        throw new HighwaterError(
          "overloaded",
          { detail: "No database session became free in time.", retryAfterMs: 1_000 },
          { cause },
        );
      throw new HighwaterError("primary_unavailable", { retryAfterMs: 1_000 }, { cause });
    }
  }

  #poolOf(epoch: EpochId): pg.Pool {
    if (this.#closed)
      throw new HighwaterError("primary_unavailable", { detail: "The service is shutting down." });
    if (this.#pool !== null && this.#epoch === epoch) return this.#pool;
    if (this.#ended.has(epoch)) throw new HighwaterError("epoch_changed", { retryAfterMs: 100 });
    this.reset();
    this.#epoch = epoch;
    const { url, name, size, connectTimeoutMs, statementTimeoutMs } = this.#options;
    const pool = new pg.Pool({
      connectionString: url,
      application_name: name,
      max: size,
      connectionTimeoutMillis: connectTimeoutMs,
      idleTimeoutMillis: IDLE_SESSION_MS,
      keepAlive: true,
      options: `-c synchronous_commit=off -c statement_timeout=${String(statementTimeoutMs)} -c idle_in_transaction_session_timeout=${String(2 * statementTimeoutMs)}`,
    });
    pool.on("error", () => undefined);
    this.#pool = pool;
    return pool;
  }

  /** First use of a session: it must have been opened on a primary, or PostgreSQL keeps it a reader of the old role. */
  async #admit(client: pg.PoolClient): Promise<Session> {
    try {
      const { rows } = await client.query<{ in_recovery: boolean; segment_bytes: string }>(
        "SELECT pg_is_in_recovery() AS in_recovery, pg_size_bytes(current_setting('wal_segment_size'))::text AS segment_bytes",
      );
      const [row] = rows;
      if (row === undefined || row.in_recovery) throw new Error("the node is a replica");
      const session = { client, prepared: new PreparedStatements(), segmentBytes: BigInt(row.segment_bytes) };
      this.#sessions.set(client, session);
      return session;
    } catch (cause) {
      throw new HighwaterError("primary_unavailable", { retryAfterMs: 1_000 }, { cause });
    }
  }

  /** Off the caller's path: gives the session back to others only as good as new. */
  async #scrub(client: pg.PoolClient): Promise<void> {
    try {
      await client.query("DISCARD ALL");
      this.#sessions.get(client)?.prepared.clear();
      client.release();
    } catch {
      client.release(true);
    }
  }

  /** Ends every session; work in flight fails as if the connection had died. */
  reset(): void {
    const old = this.#pool;
    this.#pool = null;
    if (this.#epoch !== null) this.#ended.add(this.#epoch);
    this.#epoch = null;
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
