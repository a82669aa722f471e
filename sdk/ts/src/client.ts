// The client without interactive transactions. Owns what its transactions and promises share:
// endpoints, stream and listeners.
import { type PendingPromise, keep, makeEntry } from "./pending-set.ts";
import { type Committed, type Core } from "./core.ts";
import { type Row } from "./decode.ts";
import { answerError, endError } from "./errors.ts";
import { checkTransactionId, decodeToken, newTransactionId } from "./ids.ts";
import { type Exposure, type Subscriber } from "./live.ts";
import { type HighwaterOptions } from "./options.ts";
import { sharedOf } from "./shared.ts";
import { type DurableListener, DurabilityPromise, type LostListener } from "./promise.ts";
import { callUser, monotonicMs, within } from "./runtime.ts";
import { Service } from "./service.ts";
import { OneShotSession, type SessionOptions } from "./session.ts";
import { type LastRow, type ResultsOf, type RowOf, type StatementInput } from "./sql.ts";
import {
  acknowledged,
  buildRequest,
  type CallOptions,
  Transaction,
  type TransactionOptions,
} from "./transaction.ts";
import { Watcher } from "./watcher.ts";
import {
  type Marks,
  type RefusedToken,
  type TokenVerdict,
  type TransactionResponse,
  type TransactionStateResponse,
} from "./wire.ts";

/** Options of `Highwater.verdicts`. */
export interface VerdictsOptions {
  /** Level to judge at. Default: the client's. */
  readonly level?: string;
  /**
   * Time that the tracker may hold its answer while a verdict is pending, in milliseconds; at most
   * 60,000. Default: 0.
   */
  readonly waitMs?: number;
  /**
   * Time limit of the call, in milliseconds. Default: the client's `totalTimeoutMs` plus `waitMs`.
   */
  readonly timeoutMs?: number;
  /** Signal that ends the call. */
  readonly signal?: AbortSignal;
}

/** Options of `Highwater.status`. */
export interface StatusOptions {
  /** Level to judge at. Default: the service's (`region` if there is one), not the client's. */
  readonly level?: string;
  /**
   * Time that the gateway may hold its answer until the transaction is settled at the level, in
   * milliseconds; at most 60,000. Default: 0.
   */
  readonly waitMs?: number;
  /**
   * Time limit of the call, in milliseconds. Default: the client's `totalTimeoutMs` plus `waitMs`.
   */
  readonly timeoutMs?: number;
  /** Signal that ends the call. */
  readonly signal?: AbortSignal;
}

type ListenerKind = "lost" | "broken" | "durable";

/**
 * A client of one-shot transactions: the base of every client, and all that a page or an edge
 * worker needs. `Highwater` adds interactive transactions.
 */
export class OneShotClient {
  /** @internal */
  declare readonly core: Core;
  /** One item per registration: a listener that is added twice is called twice, removed once. */
  readonly #listeners = new Set<readonly [ListenerKind, LostListener]>();
  /** Functions that stop watching an entry. The client watches entries while it has listeners. */
  readonly #kept = new Map<PendingPromise, () => void>();

  constructor(options: HighwaterOptions = {}) {
    const shared = sharedOf(options);
    const service = new Service(shared);
    const watcher = new Watcher(shared, service, (entry, verdict) => {
      if (verdict.verdict === "broken") this.#notify("broken", verdict);
      if (!entry.durable.has(shared.level)) this.#notify("lost", verdict);
    });
    this.core = {
      ...shared,
      service,
      watcher,
      answerError,
      transaction: (statements, own) => this.#run(statements, own),
      committed: (...answer) => this.#committed(...answer),
    };
  }

  /**
   * Runs the statements as one transaction. Resolves when it has committed or, with
   * `ack: "durable"`, when it is durable at the level.
   *
   * After a lost answer or a conflict the client sends the same id again, so the transaction never
   * takes effect twice. If the call times out or its signal is aborted, the transaction may still
   * commit. A function in place of the statements is a body for `transact`, except in
   * `@highwater/sdk/edge`.
   * Errors: `StatementError` or a subclass if the database refused a statement;
   * `SerializationError` if there were conflicts until time or attempts ran out.
   * `DurabilityTimeoutError` with `ack: "durable"`: it has committed and is still pending.
   * `TransactionLostError` or `PromiseBrokenError` with `ack: "durable"`: a failure discarded it.
   * `UnavailableError` if the service could not run it in time; nothing was applied.
   * `UnknownOutcomeError` if the outcome was not known in time; it has the id to look up.
   * `TransactionAbortedError` or `TransactionLostError` if the given `id` was settled as aborted or
   * lost. `InvalidRequestError`, `AbortError`.
   *
   * @param statements One statement, or several that run in order.
   * @param body See `transact`.
   * @example
   * ```ts
   * const insert = sql`INSERT INTO note VALUES (${"hello"})`;
   * const count = sql<{ notes: bigint }>`SELECT count(*) AS notes FROM note`;
   * const options = { ack: "durable", level: "region", timeoutMs: 10_000 } as const;
   * const tx = await hw.transaction([insert, count], options);
   * console.log(tx.state, tx.rows[0]?.notes); // "durable"
   * ```
   */
  transaction<const S extends readonly StatementInput[]>(
    statements: S,
    options?: TransactionOptions,
  ): Promise<Transaction<LastRow<S>, ResultsOf<S>>>;
  transaction<R = Row>(
    statements: StatementInput<R> | readonly StatementInput[],
    options?: TransactionOptions,
  ): Promise<Transaction<RowOf<R>>>;
  async transaction(
    statements: StatementInput | readonly StatementInput[],
    given: TransactionOptions = {},
  ): Promise<Transaction> {
    const options: TransactionOptions = given.reads === "durable" ? { ack: "durable", ...given } : given;
    const untilMs = monotonicMs() + (options.timeoutMs ?? this.core.totalMs);
    return acknowledged(await this.#run(statements, options), options, untilMs);
  }

  async #run(
    statements: StatementInput | readonly StatementInput[],
    options: TransactionOptions,
  ): Promise<Transaction> {
    const { core } = this;
    const id = checkTransactionId(options.id ?? newTransactionId());
    const { level = core.level, timeoutMs: totalMs = core.totalMs } = options;
    const list = [statements].flat<(typeof statements)[], 1>();
    const request = buildRequest(list, { ...options, id, level, attemptMs: core.attemptMs, totalMs });
    return this.#committed(await core.service.transaction(request, options), level, options);
  }

  #committed(
    response: TransactionResponse,
    ownLevel: string,
    { metadata, readOnly = false, remember }: Committed,
  ): Transaction {
    const { watcher, observe } = this.core;
    const { id, token, position, state, marks, level = ownLevel } = response;
    const about = { ...(metadata && { metadata }), readOnly };
    const entry =
      watcher.pendingSet.find(token) ?? makeEntry(token, { id, position, nowMs: monotonicMs(), about });
    if (state === "durable")
      observe({ type: state, id, level, verdict: keep(entry, level, "client:acknowledged") });
    const transaction = new Transaction(this.core, entry, response, ownLevel);
    watcher.learnMarks(marks);
    this.#keep(entry);
    remember?.(transaction);
    return transaction;
  }

  /**
   * Creates a promise from a stored token of this or another process, in any language. Sends
   * nothing: the client asks the trackers when you wait for the promise.
   * Errors: `invalid_token` if the text is not a transaction's token.
   *
   * @param token Token of a transaction. For a session's token, use `Session.resume`.
   * @param options `level`: default level of its waits and listeners. Default: the client's.
   * @example
   * ```ts
   * const { token } = await hw.transaction(sql`INSERT INTO note VALUES (${"hello"})`);
   * // In another process that has the token:
   * await hw.promise(token).durable({ timeoutMs: 10_000 });
   * ```
   */
  promise(token: string, options: { level?: string } = {}): DurabilityPromise {
    const { watcher } = this.core;
    const content = decodeToken(token);
    const entry = watcher.pendingSet.find(token) ?? makeEntry(token, { ...content, nowMs: monotonicMs() });
    this.#keep(entry);
    return new DurabilityPromise(watcher, entry, content.position, options.level ?? this.core.level);
  }

  /**
   * Creates a session: a group of transactions that one call waits for, and that another process
   * can take over. Sends nothing.
   */
  session(options: SessionOptions = {}): OneShotSession {
    return new OneShotSession(this, this.core, options);
  }

  /**
   * Asks a tracker for the verdict of each token, and returns the answers in the same order. An
   * answer has an `error` instead of a verdict if the text is not a token, or the token is another
   * owner's. With `waitMs`, the tracker holds its answer until no verdict is pending, or for that
   * long.
   * Errors: `unknown_level`. `UnavailableError` if no tracker answers.
   *
   * @param tokens Any number of tokens. The client sends up to 1,000 per request. Each request may
   * take the client's `totalTimeoutMs` plus `waitMs`.
   * @example
   * ```ts
   * const { token } = await hw.transaction(sql`INSERT INTO note VALUES (${"hello"})`);
   * for (const { level, verdict } of await hw.verdicts([token], { waitMs: 5_000 }))
   *   console.log(level, verdict);
   * ```
   */
  async verdicts(
    tokens: readonly string[],
    options: VerdictsOptions = {},
  ): Promise<(TokenVerdict | RefusedToken)[]> {
    const { service, watcher, verdictBatch, level: ownLevel } = this.core;
    const { waitMs = 0, level = ownLevel, timeoutMs } = options;
    const untilMs = monotonicMs() + (timeoutMs ?? 0);
    const all: (TokenVerdict | RefusedToken)[] = [];
    for (let at = 0; at < tokens.length; at += verdictBatch) {
      const request = { tokens: tokens.slice(at, at + verdictBatch), level, waitMs };
      const leftMs = timeoutMs && untilMs - monotonicMs();
      const { verdicts, marks } = await service.verdicts(request, { ...options, timeoutMs: leftMs });
      watcher.learnMarks(marks);
      all.push(...verdicts);
    }
    return all;
  }

  /**
   * Returns the state of a transaction by its id, even if its token was never received. State
   * `unknown` means that the service does not know the id (yet): the transaction may still be on
   * its way.
   * Errors: `invalid_id`. `UnavailableError` if no gateway answers within the client's
   * `totalTimeoutMs` plus `waitMs`.
   *
   * @param id Transaction id, such as `UnknownOutcomeError.transactionId`.
   * @example
   * ```ts
   * const { id } = await hw.transaction(sql`INSERT INTO note VALUES (${"hello"})`);
   * const { state } = await hw.status(id, { level: "region", waitMs: 5_000 });
   * console.log(state);
   * ```
   */
  async status(id: string, options: StatusOptions = {}): Promise<TransactionStateResponse> {
    const state = await this.core.service.status(checkTransactionId(id), options);
    this.core.watcher.learnMarks(state.marks);
    return state;
  }

  /**
   * Calls the listener once for each transaction that turns out lost or broken before it is durable
   * at the client's level. It covers the transactions that this client commits from now on, also
   * reads (`readOnly`), which have seen what is lost, and tokens passed to `promise()`. The stream
   * stays open while one of them is pending. Returns a function that removes the listener.
   *
   * @example
   * ```ts
   * const off = hw.onLost(({ id, readOnly, metadata }) => {
   *   if (!readOnly) console.error("lost:", id, metadata);
   * });
   * await hw.transaction(sql`INSERT INTO note VALUES (${"hello"})`);
   * off();
   * ```
   */
  onLost(listener: LostListener): () => void {
    return this.#listen("lost", listener);
  }

  /**
   * Calls the listener once for each broken promise: the transaction was durable at a level, and a
   * failure discarded it all the same. It covers the same transactions as `onLost`. Returns a
   * function that removes the listener.
   */
  onBroken(listener: LostListener): () => void {
    return this.#listen("broken", listener);
  }

  /**
   * Calls the listener once for each transaction that becomes durable at the client's level. It
   * covers the same transactions as `onLost`. Returns a function that removes the listener.
   */
  onDurable(listener: DurableListener): () => void {
    return this.#listen("durable", listener);
  }

  /**
   * Calls the subscriber with the marks and the exposure, now and after every change. Simultaneous
   * changes are reported once. The stream stays open while there is a subscriber. Returns a
   * function that ends the subscription.
   * Errors: `client_closed`.
   *
   * @example
   * ```ts
   * const end = hw.subscribe(({ marks, exposure }) => console.log(marks?.levels, exposure.count));
   * await hw.transaction(sql`INSERT INTO note VALUES (${"hello"})`, { ack: "durable" });
   * end();
   * ```
   */
  subscribe(subscriber: Subscriber): () => void {
    return this.core.watcher.subscribe(subscriber);
  }

  /** The newest known marks of the current epoch; null before the first. */
  get marks(): Marks | null {
    return this.core.watcher.pendingSet.marks;
  }

  /** Promises that are waited for by `durable()`, by `onLost()` or by a listener of the client. */
  get exposure(): Exposure {
    return this.core.watcher.exposure;
  }

  /**
   * Closes the client: ends waits with `client_closed`, removes listeners and closes the stream.
   * Resolves when the calls under way have been answered. Another client can judge stored tokens
   * later. If `timeoutMs` or `signal` ends the call, closing continues in the background.
   * Errors: `request_timeout` and `AbortError`, only with options.
   */
  async close({ timeoutMs = Infinity, signal }: CallOptions = {}): Promise<void> {
    this.#listeners.clear();
    this.#unkeep();
    const { service, watcher } = this.core;
    const closed = Promise.all([service.close(), watcher.close()]);
    await within(closed, timeoutMs, signal, (isAborted) => endError(isAborted, signal, "unknown"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #listen(kind: ListenerKind, listener: LostListener): () => void {
    const added = [kind, listener] as const;
    this.#listeners.add(added);
    return () => {
      this.#listeners.delete(added);
      if (this.#listeners.size === 0) this.#unkeep();
    };
  }

  #unkeep(): void {
    for (const unwatch of this.#kept.values()) unwatch();
    this.#kept.clear();
  }

  /** Watches the entry for the client's listeners until it is settled at the client's level. */
  #keep(entry: PendingPromise): void {
    if (this.#listeners.size === 0 || this.#kept.has(entry)) return;
    const { watcher, level } = this.core;
    const off = watcher.watch(entry, level, (settlement) => {
      this.#kept.delete(entry);
      if ("verdict" in settlement && settlement.verdict === "durable") this.#notify("durable", settlement);
    });
    this.#kept.set(entry, off);
  }

  #notify(kind: ListenerKind, verdict: TokenVerdict): void {
    for (const [wanted, listener] of this.#listeners) if (kind === wanted) callUser(() => listener(verdict));
  }
}
