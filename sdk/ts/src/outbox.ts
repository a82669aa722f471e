/**
 * Consumes the outbox: rows of `highwater.outbox` that transactions inserted. A handler gets each
 * row when it is durable, in order per key, at least once. Several processes may consume one topic.
 * @module
 */
import { refusedUse } from "./entry-errors.ts";
import { type Highwater, HighwaterError, sql, type Transaction } from "./index.ts";
import { monotonicMs, sleep } from "./runtime.ts";

/** A row of the outbox. */
export interface OutboxRow<T = unknown> {
  /** Id of the row, the same in every delivery. Skip an id that you have already handled. */
  readonly id: string;
  /** Rows of one key and one writer are delivered in the order of their commits. */
  readonly key: string;
  /** Content: JSON. */
  readonly payload: T;
  /** The database's login role that inserted the row. */
  readonly writer: string;
  /** When it was inserted, by the clock of the database. */
  readonly writtenAt: Date;
  /** 1 for the first delivery. */
  readonly attempt: number;
}

/** Options of `followOutbox`. */
export interface FollowOutboxOptions {
  /** Signal that ends the call, after the rows that are being handled. */
  readonly signal?: AbortSignal;
  /**
   * Level at which a row must be durable before it is delivered. Default: the client's. `disk` is
   * refused, because a failover keeps no promise of it.
   */
  readonly level?: string;
  /**
   * Time for which a consumer has a key to itself, in milliseconds. The handler's signal is aborted
   * when it ends. Another consumer gets the rows of one that has died after this time. Default:
   * 30,000.
   */
  readonly leaseMs?: number;
  /** Time between two looks at an outbox that has no rows, in milliseconds. Default: 1,000. */
  readonly pollMs?: number;
  /** Maximum number of rows that this consumer takes at once. Default: 20. */
  readonly limit?: number;
  /** Attempts after which a row is parked. Default: 10. */
  readonly maxAttempts?: number;
  /**
   * Time until a row that failed is delivered again, in milliseconds. It doubles with every
   * attempt, up to five minutes. Default: 1,000.
   */
  readonly retryMs?: number;
}

/**
 * Handles one row. When it resolves, the row is soon deleted from the outbox. When it rejects, the
 * row is delivered again later, and the rows of its key wait. Stop when `signal` is aborted: from
 * then on another consumer may have the row.
 */
export type OutboxHandler<T = unknown> = (row: OutboxRow<T>, signal: AbortSignal) => Promise<unknown>;

interface TakenRow<T> {
  readonly id: string;
  readonly key: string;
  readonly writer: string;
  readonly payload: T;
  readonly written_at: Date;
  readonly attempt: number;
}

const RETRY_MS_MAX = 300_000;
/** Rows of a key are acknowledged together, but not later than this after the one before them. */
const ACK_MS = 1_000;
/** The functions look behind locks, so each of their statements needs a snapshot of its own. */
const ISOLATED = { isolation: "read committed" } as const;

/**
 * Delivers the rows of a topic to the handler until the signal is aborted, and then resolves. Rows
 * of different keys are handled at the same time. While the service cannot be reached, or rows are
 * not yet durable, it waits and goes on.
 * Errors: `invalid_options` for the level `disk`. Errors of the service that waiting does not heal,
 * such as a missing right.
 *
 * @param topic Topic of the rows. The processes that follow one topic share its rows.
 * @param handler Function that handles one row.
 * @example
 * ```ts
 * const insert = sql`INSERT INTO highwater.outbox (topic, key, payload)
 *   VALUES ('mail', 'customer 7', ${{ text: "it is on its way" }}::jsonb)`;
 * await hw.transaction(insert);
 * const stop = new AbortController();
 * await followOutbox<{ text: string }>(hw, "mail", async ({ id, payload }) => {
 *   console.log(id, payload.text);
 *   stop.abort();
 * }, { signal: stop.signal });
 * ```
 */
export async function followOutbox<T = unknown>(
  client: Pick<Highwater, "transaction">,
  topic: string,
  handler: OutboxHandler<T>,
  options: FollowOutboxOptions = {},
): Promise<void> {
  const { signal, pollMs = 1_000 } = options;
  const consumer = new Consumer(client, topic, handler, options);
  while (!signal?.aborted) {
    let found = false;
    try {
      found = await consumer.round();
    } catch (error) {
      if (!isPassing(error)) throw error;
    }
    if (!found) await sleep(pollMs, signal).catch(() => undefined);
  }
}

/** The service is away, or a failure discarded a claim or an acknowledgement: rows come again. */
function isPassing(error: unknown): boolean {
  if (!(error instanceof HighwaterError) || error.code === "no_tracker") return false;
  return error.retry !== "never" || error.outcome !== "not_applied";
}

/** Waits until the rows of the claim are durable at the level. */
async function durable<R>(taken: Transaction<R>, level: string, timeoutMs: number): Promise<void> {
  if (level === "disk")
    throw refusedUse(
      "invalid_options",
      "a failover does not keep what is durable at disk: name another level",
    );
  // The claim committed after every row that it returned. When it is durable, so are they.
  await taken.durable({ level, timeoutMs: Math.max(0, timeoutMs) });
}

class Consumer<T> {
  readonly #client: Pick<Highwater, "transaction">;
  readonly #topic: string;
  readonly #handler: OutboxHandler<T>;
  readonly #options: FollowOutboxOptions;
  readonly #leaseMs: number;
  readonly #maxAttempts: number;

  constructor(
    client: Pick<Highwater, "transaction">,
    topic: string,
    handler: OutboxHandler<T>,
    options: FollowOutboxOptions,
  ) {
    const { leaseMs = 30_000, maxAttempts = 10 } = options;
    this.#client = client;
    this.#topic = topic;
    this.#handler = handler;
    this.#options = options;
    this.#leaseMs = leaseMs;
    this.#maxAttempts = maxAttempts;
  }

  /** Takes rows, handles them, and ends the claim. False: there were none. */
  async round(): Promise<boolean> {
    const claim = crypto.randomUUID();
    // From before the claim, so it ends before the lease does.
    const untilMs = monotonicMs() + this.#leaseMs;
    const unstarted = new Set<string>();
    const { limit = 20 } = this.#options;
    const take = sql<TakenRow<T>>`SELECT id, key, writer, payload, written_at, attempt
      FROM highwater.outbox_take(${this.#topic}, ${claim}, ${this.#leaseMs}, ${limit}, ${this.#maxAttempts})`;
    let isTaken = true;
    try {
      const taken = await this.#client.transaction(take, ISOLATED);
      isTaken = taken.rows.length > 0;
      if (!isTaken) return false;
      for (const { id } of taken.rows) unstarted.add(id);
      await durable(taken, this.#options.level ?? taken.level, untilMs - monotonicMs());
      await this.#handleAll(claim, taken.rows, untilMs, unstarted);
      return true;
    } finally {
      // Without an answer to it, the lease ends by itself.
      if (isTaken)
        await this.#client
          .transaction(sql`SELECT highwater.outbox_release(${claim}, ${[...unstarted]}::uuid[])`, ISOLATED)
          .catch(() => undefined);
    }
  }

  async #handleAll(
    claim: string,
    rows: readonly TakenRow<T>[],
    untilMs: number,
    unstarted: Set<string>,
  ): Promise<void> {
    const keys = new Map<string, TakenRow<T>[]>();
    for (const row of rows) {
      const key = JSON.stringify([row.key, row.writer]);
      keys.set(key, [...(keys.get(key) ?? []), row]);
    }
    const lease = new AbortController();
    const timer = setTimeout(
      () => {
        lease.abort(new Error("the lease of the row's key has ended"));
      },
      Math.max(0, untilMs - monotonicMs()),
    );
    try {
      const all = [...keys.values()].map((ofKey) => this.#handleKey(claim, ofKey, unstarted, lease.signal));
      const results = await Promise.allSettled(all);
      for (const result of results) if (result.status === "rejected") throw result.reason;
    } finally {
      clearTimeout(timer);
    }
  }

  async #handleKey(
    claim: string,
    rows: readonly TakenRow<T>[],
    unstarted: Set<string>,
    signal: AbortSignal,
  ): Promise<void> {
    let done: string[] = [];
    let ackedMs = monotonicMs();
    for (const row of rows) {
      if (signal.aborted || this.#options.signal?.aborted) break;
      unstarted.delete(row.id);
      const { id, key, payload, writer, attempt } = row;
      try {
        await this.#handler({ id, key, payload, writer, writtenAt: row.written_at, attempt }, signal);
      } catch (error) {
        // Before the failure, which gives the key away.
        await this.#ack(claim, done);
        await this.#fail(claim, row, error);
        return;
      }
      done.push(id);
      if (monotonicMs() - ackedMs < ACK_MS) continue;
      if (!(await this.#ack(claim, done))) return;
      done = [];
      ackedMs = monotonicMs();
    }
    await this.#ack(claim, done);
  }

  /** False: another claim has the key. */
  async #ack(claim: string, ids: readonly string[]): Promise<boolean> {
    if (ids.length === 0) return true;
    const ack = sql<{ acked: number }>`SELECT highwater.outbox_ack(${claim}, ${ids}::uuid[]) AS acked`;
    const { results } = await this.#client.transaction(ack, ISOLATED);
    // A replay has no answer to read: the other rows wait for the next claim.
    return results?.[0]?.rows[0]?.["acked"] === ids.length;
  }

  async #fail(claim: string, { id, attempt }: TakenRow<T>, error: unknown): Promise<void> {
    const { retryMs = 1_000 } = this.#options;
    const waitMs = Math.floor(Math.min(RETRY_MS_MAX, retryMs * 2 ** (attempt - 1)));
    const failed = sql`SELECT highwater.outbox_fail(${claim}, ${id}, ${String(error)}, ${waitMs}, ${this.#maxAttempts})`;
    await this.#client.transaction(failed, ISOLATED);
  }
}
