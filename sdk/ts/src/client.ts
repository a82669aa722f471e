// The client, but for interactive transactions: options in, transactions and promises out. Owns what all of them share (endpoints,
// stream, listeners).
import { type PendingPromise, keep, makeEntry } from "./pending-set.ts";
import { type Committed, type Core } from "./core.ts";
import { endError } from "./errors.ts";
import { checkTransactionId, decodeToken, newTransactionId } from "./ids.ts";
import { type Exposure, type Subscriber } from "./live.ts";
import { type HighwaterOptions } from "./options.ts";
import { sharedOf } from "./shared.ts";
import { type DurableListener, DurabilityPromise, type LostListener } from "./promise.ts";
import { callUser, within } from "./runtime.ts";
import { Service } from "./service.ts";
import { OneShotSession, type SessionOptions } from "./session.ts";
import { type StatementInput } from "./sql.ts";
import { buildRequest, type CallOptions, Transaction, type TransactionOptions } from "./transaction.ts";
import { Watcher } from "./watcher.ts";
import {
  type Marks,
  type RefusedToken,
  type TokenVerdict,
  type TransactionResponse,
  type TransactionStateResponse,
} from "./wire.ts";

/** Of `Highwater.verdicts`. */
export interface VerdictsOptions {
  /** The level to judge at. Default: the client's. */
  readonly level?: string;
  /**
   * How long the tracker holds its answer while a verdict is pending, in milliseconds; a minute at
   * most. Default: 0.
   */
  readonly waitMs?: number;
  /**
   * For the whole question, in milliseconds. Default: the client's `totalTimeoutMs`, and `waitMs`
   * on top.
   */
  readonly timeout?: number;
  /** Ends the question. */
  readonly signal?: AbortSignal;
}

/** Of `Highwater.status`. */
export interface StatusOptions {
  /**
   * The level to judge at. Default: the service's own (`region` where there is one), not the
   * client's.
   */
  readonly level?: string;
  /**
   * How long the gateway holds its answer until the transaction is settled at the level, in
   * milliseconds. Default: 0.
   */
  readonly waitMs?: number;
  /**
   * For the whole question, in milliseconds. Default: the client's `totalTimeoutMs`, and `waitMs`
   * on top.
   */
  readonly timeout?: number;
  /** Ends the question. */
  readonly signal?: AbortSignal;
}

type ListenerKind = "lost" | "broken" | "durable";

/**
 * A client of one-shot transactions: what every client is made of, and all of it that a page or an edge worker needs. `Highwater`
 * has interactive transactions besides.
 */
export class OneShotClient {
  /** @internal */
  readonly core: Core;
  /** A key of its own for each call: the same listener given twice is called twice, and taken away once. */
  readonly #listeners = new Map<symbol, readonly [ListenerKind, LostListener]>();
  /** What keeps an entry watched while there are listeners on the client. */
  readonly #kept = new Map<PendingPromise, () => void>();

  constructor(options: HighwaterOptions) {
    const shared = sharedOf(options);
    const service = new Service(shared);
    const watcher = new Watcher(shared, service, (entry, verdict) => {
      if (verdict.verdict === "broken") this.#notify("broken", verdict);
      if (!entry.durable.has(shared.level)) this.#notify("lost", verdict);
    });
    this.core = {
      ...{ ...shared, service, watcher },
      transaction: (statements, own) => this.transaction(statements, own),
      committed: (...answer) => this.#committed(...answer),
    };
  }

  /**
   * Runs the statements as one transaction and resolves when it has committed, or, with `ack: "durable"`, when it is
   * durable at the level or the wait for that is over (then `state` is `pending`, which is not a loss).
   * A lost answer is resolved with the same id: it never runs twice. A conflict is the caller's to rerun, unless an
   * earlier copy of the request was never answered: that one may still commit, so the same id is sent again.
   * When `timeout` is over or the signal is aborted, it may commit all the same.
   * Errors: `StatementError` and below if the database refused it. `UnavailableError` if the
   * service could not do it in time, and did not. `UnknownOutcomeError`, with the id to ask about,
   * if the outcome was not known in time. `InvalidRequestError`. `TransactionAbortedError` or
   * `TransactionLostError` for an `id` that was settled so. `AbortError`.
   *
   * @param statements One, or several that run in their order.
   * @example
   * ```ts
   * const insert = sql`INSERT INTO note VALUES (${"hello"})`;
   * const count = sql`SELECT count(*) AS notes FROM note`;
   * const tx = await hw.transaction([insert, count], { ack: "durable", level: "region", timeout: 10_000 });
   * console.log(tx.state, tx.rows); // "pending" would say: not yet, and not lost
   * ```
   */
  async transaction(
    statements: StatementInput | readonly StatementInput[],
    options: TransactionOptions = {},
  ): Promise<Transaction> {
    const core = this.core;
    const id = checkTransactionId(options.id ?? newTransactionId());
    const { level = core.level, timeout = core.totalMs } = options;
    const request = buildRequest([statements].flat<(typeof statements)[], 1>(), {
      ...options,
      id,
      level,
      attemptMs: core.attemptMs,
      totalMs: timeout,
    });
    return this.#committed(await core.service.transaction(request, options), level, options);
  }

  #committed(
    response: TransactionResponse,
    ownLevel: string,
    { metadata, remember }: Committed,
  ): Transaction {
    const { watcher, monotonicMs, observe } = this.core;
    const { id, token, position, state, marks, level = ownLevel } = response;
    const entry =
      watcher.pendingSet.find(token) ?? makeEntry(token, { id, position, nowMs: monotonicMs(), metadata });
    if (state === "durable")
      observe({ type: state, id, level, verdict: keep(entry, level, "client:acknowledged") });
    const transaction = new Transaction(this.core, entry, response, ownLevel);
    watcher.learnMarks(marks);
    this.#keep(entry);
    remember?.(transaction);
    return transaction;
  }

  /**
   * The promise of a token that was stored by this or another process, in whatever language. Nothing is sent: the trackers are
   * asked once it is waited for.
   * Errors: `invalid_token`, where the text is none.
   *
   * @param token Of a transaction; a session's goes to `Session.resume`.
   * @param options `level`: the one that its waits and listeners mean. Default: the client's.
   * @example
   * ```ts
   * const { token } = await hw.transaction(sql`INSERT INTO note VALUES (${"hello"})`);
   * // In another process, which was given the token:
   * await hw.promise(token).durable({ timeout: 10_000 });
   * ```
   */
  promise(token: string, options: { level?: string } = {}): DurabilityPromise {
    const { watcher, monotonicMs } = this.core;
    const content = decodeToken(token);
    const entry = watcher.pendingSet.find(token) ?? makeEntry(token, { ...content, nowMs: monotonicMs() });
    this.#keep(entry);
    return new DurabilityPromise(watcher, entry, content.position, options.level ?? this.core.level);
  }

  /**
   * A group of transactions that one wait covers, and that another process can take over. Nothing
   * is sent.
   */
  session(options: SessionOptions = {}): OneShotSession {
    return new OneShotSession(this, this.core, options);
  }

  /**
   * A tracker's verdict for each token, in the order of the tokens; for one that is no token, or another owner's, the
   * `error` that says so. With `waitMs` the answer is held until none is pending, or for so long.
   * Errors: `unknown_level`; `UnavailableError` when no tracker answers.
   *
   * @param tokens Any number: they are asked about in parts of 1,000, each of which has the client's `totalTimeoutMs` beside `waitMs`.
   * @example
   * ```ts
   * const { token } = await hw.transaction(sql`INSERT INTO note VALUES (${"hello"})`);
   * for (const each of await hw.verdicts([token], { waitMs: 5_000 })) console.log(each.level, each.verdict);
   * ```
   */
  async verdicts(
    tokens: readonly string[],
    options: VerdictsOptions = {},
  ): Promise<(TokenVerdict | RefusedToken)[]> {
    const { service, watcher, verdictBatch, monotonicMs, level: ownLevel } = this.core;
    const { waitMs = 0, level = ownLevel, timeout } = options;
    const startedMs = monotonicMs();
    const byToken = new Map<string, TokenVerdict | RefusedToken>();
    for (let at = 0; at < tokens.length; at += verdictBatch) {
      const request = { tokens: tokens.slice(at, at + verdictBatch), level, waitMs };
      const left = timeout === undefined ? {} : { timeout: startedMs + timeout - monotonicMs() };
      const { verdicts, marks } = await service.verdicts(request, { ...options, ...left });
      watcher.learnMarks(marks);
      for (const verdict of verdicts) byToken.set(verdict.token, verdict);
    }
    return tokens.flatMap((token) => byToken.get(token) ?? []);
  }

  /**
   * The state of a transaction, by its id: also one whose token was never received. State `unknown`
   * is that of an id that the service does not know (yet): it may still be on its way.
   * Errors: `invalid_id`; `UnavailableError` when no gateway answers within the client's `totalTimeoutMs`, beside `waitMs`.
   *
   * @param id Of the transaction, as in `UnknownOutcomeError.transactionId`.
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
   * Calls back once for each transaction that turns out lost (or broken) before it is durable at the client's level:
   * those this client commits from now on, and tokens given to `promise()`. Returns what takes the listener away; until then the
   * stream stays open while one of them is pending.
   *
   * @example
   * ```ts
   * const off = hw.onLost(({ id, level, rule }) => console.error("lost:", id, level, rule));
   * await hw.transaction(sql`INSERT INTO note VALUES (${"hello"})`);
   * off();
   * ```
   */
  onLost(listener: LostListener): () => void {
    return this.#listen("lost", listener);
  }

  /**
   * Calls back once for each promise found broken: durable at a level, and then violated by a
   * failure it covers. Transactions that `onLost` reports. Returns what takes the listener away.
   */
  onBroken(listener: LostListener): () => void {
    return this.#listen("broken", listener);
  }

  /**
   * Calls back once for each transaction, of those that `onLost` is about, when it is durable at the client's level. Returns what
   * takes the listener away.
   */
  onDurable(listener: DurableListener): () => void {
    return this.#listen("durable", listener);
  }

  /**
   * Calls back with marks and exposure, now and after every change, for as long as it is
   * subscribed: the stream stays open for it. Changes of one moment are reported once. Returns what
   * ends that.
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

  /** The newest marks that are known of the current epoch, or null before the first. */
  get marks(): Marks | null {
    return this.core.watcher.pendingSet.marks;
  }

  /** Promises that somebody waits for, by `durable()`, `onLost()` or a listener on the client. */
  get exposure(): Exposure {
    return this.core.watcher.exposure;
  }

  /**
   * Ends waits with `client_closed`, drops listeners, closes the stream, and resolves when calls under way have their
   * answer. Stored tokens can be judged by another client. Where time or signal ends the wait for that, it goes on by itself.
   * Errors: `request_timeout` and `AbortError`, only with options.
   */
  async close({ timeout = Infinity, signal }: CallOptions = {}): Promise<void> {
    this.#listeners.clear();
    this.#unkeep();
    const { service, watcher } = this.core;
    const closed = Promise.all([service.close(), watcher.close()]);
    await within(closed, timeout, signal, (isAborted) => endError(isAborted, signal, "unknown"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #listen(kind: ListenerKind, listener: LostListener): () => void {
    const key = Symbol();
    this.#listeners.set(key, [kind, listener]);
    return () => {
      this.#listeners.delete(key);
      if (this.#listeners.size === 0) this.#unkeep();
    };
  }

  #unkeep(): void {
    for (const unwatch of this.#kept.values()) unwatch();
    this.#kept.clear();
  }

  /** Keeps the entry watched for the listeners on the client until it is settled at the client's level. */
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
    for (const [wanted, listener] of this.#listeners.values())
      if (kind === wanted)
        callUser(() => {
          listener(verdict);
        });
  }
}
