// The client: options in, transactions and promises out. Owns what all of them share (endpoints, stream, listeners).
import { type Entry, makeEntry } from "./book.ts";
import { EndpointPool } from "./endpoints.ts";
import { closedError, usageError } from "./errors.ts";
import { checkTransactionId, decodeToken, newTransactionId } from "./ids.ts";
import { DurabilityPromise, type LostListener } from "./promise.ts";
import { callUser, type FetchLike, type Log, type Runtime } from "./runtime.ts";
import { Service } from "./service.ts";
import { Session } from "./session.ts";
import { type StatementInput } from "./sql.ts";
import { buildRequest, Transaction, type TransactionOptions } from "./transaction.ts";
import { DEFAULT_TUNING, type Tuning } from "./tuning.ts";
import { type Exposure, Watcher } from "./watcher.ts";
import {
  type Marks,
  type RefusedToken,
  type TokenVerdict,
  type TransactionResponse,
  type TransactionStateResponse,
} from "./wire.ts";

export interface Endpoint {
  readonly gateway: string;
  readonly tracker: string;
}

export interface HighwaterOptions {
  /** One address, or one for each region and the nearest first, that serves gateway and tracker alike. */
  readonly url?: string | readonly string[];
  /** Instead of `url`, where gateway and tracker have addresses of their own. Nearest first. */
  readonly endpoints?: readonly Endpoint[];
  /** The level that `durable`, `onLost` and `verdicts` mean unless told otherwise: `region` unless given. */
  readonly level?: string;
  /** For one attempt. */
  readonly requestTimeoutMs?: number;
  /** For all attempts of one call together. */
  readonly totalTimeoutMs?: number;
  /** An API key or a JSON Web Token: sent to gateways and trackers as `Authorization: Bearer`. */
  readonly apiKey?: string;
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly fetch?: FetchLike;
  /** For the jitter of retries. Ids come from `crypto`. */
  readonly random?: () => number;
  /** `console` fits. Nothing is logged unless given. */
  readonly log?: Log;
  /** @internal Delays and bounds that tests shorten. */
  readonly tuning?: Partial<Tuning>;
}

export interface VerdictsOptions {
  readonly level?: string;
  /** How long the tracker waits for verdicts that are pending. */
  readonly waitMs?: number;
  readonly signal?: AbortSignal;
}

export interface StatusOptions {
  readonly level?: string;
  /** How long the gateway waits until the transaction is settled at the level. */
  readonly waitMs?: number;
  readonly signal?: AbortSignal;
}

export class Highwater {
  readonly #level: string;
  readonly #requestTimeoutMs: number;
  readonly #totalTimeoutMs: number;
  readonly #tuning: Tuning;
  readonly #runtime: Runtime;
  readonly #service: Service;
  readonly #watcher: Watcher;
  readonly #lostListeners = new Set<LostListener>();
  readonly #brokenListeners = new Set<LostListener>();
  /** What keeps an entry watched while there are listeners on the client. */
  readonly #kept = new Map<Entry, () => void>();
  readonly #inFlight = new Set<Promise<unknown>>();
  #closed = false;

  constructor(options: HighwaterOptions) {
    const endpoints = endpointsOf(options);
    const { fetch: ownFetch } = options;
    this.#level = options.level ?? "region";
    this.#requestTimeoutMs = options.requestTimeoutMs ?? 10_000;
    this.#totalTimeoutMs = options.totalTimeoutMs ?? 30_000;
    this.#tuning = { ...DEFAULT_TUNING, ...options.tuning };
    this.#runtime = {
      fetch: ownFetch ?? ((url, init) => globalThis.fetch(url, init)),
      random: options.random ?? Math.random,
      monotonicMs: () => performance.now(),
      log: options.log ?? {},
    };
    const shared = {
      ...{ runtime: this.#runtime, tuning: this.#tuning, requestTimeoutMs: this.#requestTimeoutMs },
      headers: {
        ...(options.apiKey === undefined ? {} : { authorization: `Bearer ${options.apiKey}` }),
        ...options.headers,
      },
      trackers: new EndpointPool(unique(endpoints.map((endpoint) => endpoint.tracker)), this.#tuning),
    };
    const gateways = new EndpointPool(unique(endpoints.map((endpoint) => endpoint.gateway)), this.#tuning);
    this.#service = new Service({ ...shared, gateways });
    this.#watcher = new Watcher({
      ...shared,
      service: this.#service,
      onGone: (entry, verdict) => {
        this.#tellGone(entry, verdict);
      },
    });
  }

  /**
   * Runs the statements as one transaction and resolves when it has committed, or, with `ack: "durable"`, when it is
   * durable at the level or the wait for that is over (then `state` is `pending`, which is not a loss).
   * A lost answer is resolved with the same id: it never runs twice. A conflict is the caller's to rerun, unless an
   * earlier copy of the request was never answered: that one may still commit, so the same id is sent again.
   * Errors: see the tree in the module `errors`; `UnknownOutcomeError` carries the id to ask about.
   */
  async transaction(
    statements: StatementInput | readonly StatementInput[],
    options: TransactionOptions = {},
  ): Promise<Transaction> {
    if (this.#closed) throw closedError();
    const id = options.id === undefined ? newTransactionId() : checkTransactionId(options.id);
    const level = options.level ?? this.#level;
    const totalMs = options.timeout ?? this.#totalTimeoutMs;
    const list = isList(statements) ? statements : [statements];
    const request = buildRequest(list, {
      ...options,
      id,
      level,
      totalMs,
      waitMs: this.#requestTimeoutMs / 2,
    });
    const call = this.#service.transaction(request, { timeoutMs: totalMs, signal: options.signal });
    const response = await this.#track(call);
    return this.#begin(response, level);
  }

  #begin(response: TransactionResponse, level: string): Transaction {
    const { id, token, position } = response;
    const entry = makeEntry(token, { id, position, nowMs: this.#runtime.monotonicMs() });
    if (response.state === "durable") {
      const reached = response.level ?? level;
      entry.durable.set(reached, {
        ...{ token, id, position, verdict: "durable", level: reached, rule: "client:acknowledged" },
      });
    }
    const transaction = new Transaction(this.#watcher, entry, { response, level });
    this.#watcher.learnMarks(response.marks);
    this.#keep(entry);
    return transaction;
  }

  /**
   * The promise of a token that was stored by this or another process.
   * Errors: `invalid_token`.
   */
  promise(token: string, options: { level?: string } = {}): DurabilityPromise {
    const { id, position } = decodeToken(token);
    const entry = makeEntry(token, { id, position, nowMs: this.#runtime.monotonicMs() });
    this.#keep(entry);
    return new DurabilityPromise(this.#watcher, entry, { position, level: options.level ?? this.#level });
  }

  /** A line of work of which everything can be waited for at once. */
  session(): Session {
    return new Session({
      watcher: this.#watcher,
      level: this.#level,
      transaction: (statements, options) => this.transaction(statements, options),
    });
  }

  /**
   * A tracker's verdict for each token, in the order of the tokens; for one that is no token, or another owner's, the
   * `error` that says so. With `waitMs` the answer is held until none is pending, or for so long.
   * Errors: `unknown_level`; `UnavailableError` when no tracker answers.
   */
  async verdicts(
    tokens: readonly string[],
    options: VerdictsOptions = {},
  ): Promise<(TokenVerdict | RefusedToken)[]> {
    if (this.#closed) throw closedError();
    const { waitMs = 0, signal } = options;
    const level = options.level ?? this.#level;
    const byToken = new Map<string, TokenVerdict | RefusedToken>();
    const { verdictBatch } = this.#tuning;
    for (let at = 0; at < tokens.length; at += verdictBatch) {
      const request = { tokens: tokens.slice(at, at + verdictBatch), level, waitMs };
      const timeoutMs = this.#totalTimeoutMs + waitMs;
      const answer = await this.#track(this.#service.verdicts(request, { timeoutMs, signal }));
      this.#watcher.learnMarks(answer.marks);
      for (const verdict of answer.verdicts) byToken.set(verdict.token, verdict);
    }
    return tokens.flatMap((token) => byToken.get(token) ?? []);
  }

  /** What became of a transaction, by its id: also one whose token was never received. */
  async status(id: string, options: StatusOptions = {}): Promise<TransactionStateResponse> {
    if (this.#closed) throw closedError();
    const timeoutMs = this.#totalTimeoutMs + (options.waitMs ?? 0);
    const state = await this.#track(
      this.#service.status(checkTransactionId(id), {
        ...{ timeoutMs, signal: options.signal, waitMs: options.waitMs, level: options.level },
      }),
    );
    this.#watcher.learnMarks(state.marks);
    return state;
  }

  /**
   * Calls back once for each transaction that turns out lost (or broken) before it is durable at the client's level:
   * those this client commits from now on, and tokens given to `promise()`. Returns what takes the listener away.
   */
  onLost(listener: LostListener): () => void {
    return this.#listen(this.#lostListeners, listener);
  }

  /** Calls back once for each promise found broken: durable at a level, and then violated by a failure it covers. */
  onBroken(listener: LostListener): () => void {
    return this.#listen(this.#brokenListeners, listener);
  }

  /** The newest marks that are known of the current epoch, or null before the first. */
  get marks(): Marks | null {
    return this.#watcher.marks;
  }

  /** Promises that somebody waits for, by `durable()`, `onLost()` or a listener on the client. */
  get exposure(): Exposure {
    return this.#watcher.exposure;
  }

  /**
   * Ends waits with `client_closed`, drops listeners, closes the stream, and resolves when calls under way have their
   * answer. Stored tokens can be judged by another client.
   */
  async close(): Promise<void> {
    this.#closed = true;
    this.#lostListeners.clear();
    this.#brokenListeners.clear();
    for (const unwatch of [...this.#kept.values()]) unwatch();
    this.#kept.clear();
    await this.#watcher.close();
    await Promise.allSettled(this.#inFlight);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #listen(listeners: Set<LostListener>, listener: LostListener): () => void {
    // A function of its own for each call: the same listener given twice is called twice, and taken away once.
    const own: LostListener = (verdict) => {
      listener(verdict);
    };
    listeners.add(own);
    return () => {
      listeners.delete(own);
      if (this.#lostListeners.size + this.#brokenListeners.size > 0) return;
      for (const unwatch of [...this.#kept.values()]) unwatch();
      this.#kept.clear();
    };
  }

  /** Keeps the entry watched for the listeners on the client until it is settled at the client's level. */
  #keep(entry: Entry): void {
    if (this.#closed || this.#lostListeners.size + this.#brokenListeners.size === 0) return;
    if (this.#watcher.known(entry, this.#level) !== undefined) return;
    const unwatch = this.#watcher.watch(entry, this.#level, () => this.#kept.delete(entry));
    this.#kept.set(entry, unwatch);
  }

  #tellGone(entry: Entry, verdict: TokenVerdict): void {
    const broken = verdict.verdict === "broken" ? [...this.#brokenListeners] : [];
    const lost = entry.durable.has(this.#level) ? [] : [...this.#lostListeners];
    for (const listener of [...broken, ...lost]) callUser(() => listener(verdict));
  }

  async #track<T>(call: Promise<T>): Promise<T> {
    this.#inFlight.add(call);
    try {
      return await call;
    } finally {
      this.#inFlight.delete(call);
    }
  }
}

function endpointsOf(options: HighwaterOptions): Endpoint[] {
  const { url, endpoints } = options;
  if ((url === undefined) === (endpoints === undefined))
    throw usageError("invalid_options", "give either url or endpoints");
  const urls = typeof url === "string" ? [url] : (url ?? []);
  const list = endpoints ?? urls.map((each) => ({ gateway: each, tracker: each }));
  if (list.length === 0) throw usageError("invalid_options", "at least one endpoint is needed");
  return list.map(({ gateway, tracker }) => ({ gateway: baseUrl(gateway), tracker: baseUrl(tracker) }));
}

function baseUrl(text: string): string {
  if (!URL.canParse(text)) throw usageError("invalid_options", `not a URL: ${text}`);
  return text.replace(/\/+$/, "");
}

function unique(urls: readonly string[]): string[] {
  return [...new Set(urls)];
}

function isList(
  statements: StatementInput | readonly StatementInput[],
): statements is readonly StatementInput[] {
  return Array.isArray(statements);
}
