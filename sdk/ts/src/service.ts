// The calls of the v1 protocol with their retries. Owns which endpoint gets which attempt, and the
// time limit of all attempts together. `retry.ts` makes the decisions; `pinned.ts` has the calls of
// open transactions.
import { type EndpointPool } from "./endpoints.ts";
import {
  abortError,
  answerError,
  closedError,
  type ErrorDetails,
  failure,
  HighwaterError,
  unknownOutcome,
} from "./errors.ts";
import { type ObservedEvent } from "./observer.ts";
import { type Shared } from "./shared.ts";
import { decide, type Decision, isEndpointFault, isSettled, resolve } from "./retry.ts";
import { fullJitter, monotonicMs, sleep } from "./runtime.ts";
import { exchange, type Send } from "./transport.ts";
import {
  isTicketsResponse,
  isTransactionResponse,
  isTransactionStateResponse,
  isVerdictsResponse,
  type Ticket,
  type TransactionRequest,
  type TransactionResponse,
  type TransactionStateResponse,
  type VerdictsRequest,
  type VerdictsResponse,
} from "./wire.ts";

export interface CallOptions {
  /**
   * Time limit of all attempts together, in milliseconds. Default: the client's `totalTimeoutMs`.
   */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The gateway of an open transaction, and the header that leads there through a proxy. */
export interface Pin {
  readonly url: string;
  readonly session: string;
}

const SESSION_HEADER = "highwater-session";
/** How often conflicting statements run, unless the caller says so. */
const RUNS_MAX = 10;
/** How long the service may take to settle an id. */
const SETTLE_MS = 10_000;

/** Whether an answer has the expected shape. */
export type Accepts<T> = (body: unknown) => body is T;

export interface Call<T> {
  readonly pool: EndpointPool;
  readonly path: string;
  /** JSON body of a POST; absent for a GET. */
  readonly body?: object;
  /** How long the service may hold the request before it answers. */
  readonly heldMs: number;
  readonly accepts: Accepts<T>;
  /** Whether an attempt without an answer may have committed. */
  readonly isCommit?: boolean;
  /** How often the request may be sent, if conflicts undo it. Default: once. */
  readonly maxRuns?: number | undefined;
  /** The only endpoint to use. Default: the best one. */
  readonly pin?: Partial<Pin>;
  readonly onAnswer?: (pin: Pin) => void;
  /** Sends the request. Default: alone. */
  readonly send?: Send | undefined;
}

/** What to look for after the answer to a commit was lost. */
export interface Sought {
  readonly id: string;
  readonly ack?: "commit" | "durable" | undefined;
  readonly level?: string | undefined;
  /** Only with `ack: "durable"`. */
  readonly maxWaitMs?: number | undefined;
  readonly readOnly?: boolean | undefined;
}

/** What a call is about. The observer receives the calls that have a type. */
export type About = Partial<ObservedEvent>;

/** The time and the attempts that one call of the application has used. */
export interface Budget {
  readonly id: string | undefined;
  readonly deadlineMs: number;
  readonly signal: AbortSignal | undefined;
  /** Headers that the observer adds to the requests of the call. */
  readonly headers: Record<string, string>;
  attempt: number;
  /** Whether an attempt to commit may have been applied. */
  isUncertain: boolean;
  /** The previous attempt, if it failed. */
  failed?: ObservedEvent | undefined;
}

export class Service {
  declare readonly deps: Shared;
  readonly #inFlight = new Set<Promise<unknown>>();
  isClosed = false;

  constructor(deps: Shared) {
    this.deps = deps;
  }

  /** Refuses further calls, and resolves when those under way have been answered. */
  async close(): Promise<void> {
    this.isClosed = true;
    await Promise.allSettled(this.#inFlight);
  }

  checkOpen(details?: Partial<ErrorDetails>): void {
    if (this.isClosed) throw closedError(details);
  }

  /** Like `run`, but refuses calls after the client was closed. */
  async runOpen<T>(options: CallOptions, about: About, call: (budget: Budget) => Promise<T>): Promise<T> {
    this.checkOpen();
    const running = this.run(options, about, call);
    this.#inFlight.add(running);
    return running.finally(() => this.#inFlight.delete(running));
  }

  /** Runs a call within its time limit, and reports its begin and its end to the observer. */
  async run<T>(
    { timeoutMs = this.deps.totalMs, signal }: CallOptions,
    about: About,
    call: (budget: Budget) => Promise<T>,
  ): Promise<T> {
    const headers: Record<string, string> = {};
    const { observe } = this.deps;
    const { id, type } = about;
    const end = type && observe({ ...about, type, headers });
    const budget: Budget = {
      id,
      deadlineMs: monotonicMs() + timeoutMs,
      signal,
      headers,
      attempt: 0,
      isUncertain: false,
    };
    try {
      const answer = await call(budget);
      end?.({ state: (answer as { state?: string }).state });
      return answer;
    } catch (cause) {
      const isAborted = signal?.aborted && !isAnswer(cause, signal);
      const error = isAborted ? abortError(cause, budget.isUncertain ? "unknown" : "not_applied", id) : cause;
      end?.({ error });
      throw error;
    }
  }

  /**
   * Sends a one-shot transaction until its outcome is settled, always with the same id and body.
   * The gateway commits an id once, so a lost reply costs only a resend, and so does a conflict.
   * Errors: every typed error of the service. `outcome_unknown` if time runs out and an attempt may
   * have been applied.
   */
  transaction(
    request: TransactionRequest,
    options: CallOptions & { readonly maxAttempts?: number },
  ): Promise<TransactionResponse> {
    const { id, statements, level } = request;
    const call: Call<TransactionResponse> = {
      pool: this.deps.gateways,
      path: "/v1/transactions",
      body: request,
      isCommit: true,
      maxRuns: options.maxAttempts ?? RUNS_MAX,
      heldMs: request.maxWaitMs ?? 0,
      accepts: isTransactionResponse,
      // Alone, its end cancels the transaction at the gateway.
      send: options.signal ? undefined : this.deps.share,
    };
    return this.runOpen(options, { type: "commit", id, level, statements: statements.length }, (budget) =>
      this.repeat(call, budget, (error) => {
        const isDefinite = error.retry === "never" || error.retry === "transaction";
        return this.resolve(request, budget, error, isDefinite);
      }),
    );
  }

  /** Asks for the state of an id until it is settled. Returns undefined if a resend is needed. */
  async resolve(
    sought: Sought,
    budget: Budget,
    held: HighwaterError,
    isDefinite = false,
  ): Promise<TransactionResponse | undefined> {
    for (;;) {
      const waitMs = Math.min(sought.maxWaitMs ?? 0, this.remaining(budget));
      const state = await this.repeat(this.#statusCall(sought.id, waitMs, sought.level), budget);
      const resolution = resolve(state, isDefinite ? held : undefined);
      if (resolution instanceof HighwaterError) throw resolution;
      if (resolution === "adopt") return adopt(state, sought);
      if (resolution === "send") return undefined;
      if (resolution === "settle") await this.#settle(sought, budget, held);
      await this.pause(budget, held);
    }
  }

  /**
   * Settles the id, so that no copy of the request can commit, and throws `held`. Resolves if the
   * id must be looked up again. Throws `outcome_unknown` if the id cannot be settled.
   */
  async #settle({ id, readOnly }: Sought, budget: Budget, held: HighwaterError): Promise<void> {
    // There is nothing that a copy could apply.
    if (readOnly) throw held;
    let answer = await this.#ask("/v1/tickets", { transactions: [{ id }] }, budget);
    // Without a receipt, the end of a ticket settles the id.
    if (!(answer instanceof HighwaterError)) {
      const end = { ticket: (answer as Ticket).ticket, ended: "commit" };
      answer = await this.#ask("/v1/tickets/ends", { tickets: [end] }, budget);
    }
    const { code, retry } = answer as Partial<HighwaterError>;
    if (code === "transaction_aborted") throw held;
    if (retry === "never" && !isSettled(answer as HighwaterError)) throw unknownOutcome(id, held);
  }

  /** Sends a list of one item. Returns the item's own answer, or the error of either. */
  async #ask(path: string, body: object, budget: Budget): Promise<object> {
    const call = { pool: this.deps.gateways, path, body, heldMs: SETTLE_MS, accepts: isTicketsResponse };
    const answer = await this.attempt(call, budget);
    if (answer instanceof HighwaterError) return answer;
    const { status = 0, body: own = {} } = answer.answers[0] ?? {};
    return status === 200 ? own : answerError(status, own, undefined);
  }

  /** Sleeps before the next attempt. Throws `outcome_unknown` if no time is left for it. */
  async pause(budget: Budget, cause: unknown): Promise<void> {
    const { deps } = this;
    const delayMs = fullJitter(budget.attempt, deps);
    if (delayMs + deps.attemptMinMs > this.remaining(budget)) throw unknownOutcome(budget.id, cause);
    await sleep(delayMs, budget.signal);
  }

  /**
   * Sends `GET /v1/transactions/{id}`, held for up to `waitMs` until the id is settled at the
   * level.
   */
  status(
    id: string,
    options: CallOptions & { waitMs?: number | undefined; level?: string | undefined },
  ): Promise<TransactionStateResponse> {
    return this.read(this.#statusCall(id, options.waitMs ?? 0, options.level), options, { id });
  }

  /**
   * Sends one request for verdicts, of at most 10,000 tokens. If a tracker is blind, the next one
   * is asked about pending promises.
   */
  verdicts(request: VerdictsRequest, options: CallOptions): Promise<VerdictsResponse> {
    const { trackers } = this.deps;
    let url = "";
    const call: Call<VerdictsResponse> = {
      pool: trackers,
      path: "/v1/durability/verdicts",
      body: request,
      heldMs: request.waitMs ?? 0,
      accepts: isVerdictsResponse,
      onAnswer: (pin) => (url = pin.url),
    };
    return this.read(call, options, {}, async (budget) => {
      for (;;) {
        const answer = await this.repeat(call, budget);
        if (!answer.blind) return answer;
        trackers.failed(url);
        const isOpen = answer.verdicts.some(({ verdict }) => verdict === "pending" || verdict === "unknown");
        if (!isOpen || budget.attempt >= trackers.size || !trackers.hasAwake()) return answer;
      }
    });
  }

  #statusCall(id: string, waitMs: number, level: string | undefined): Call<TransactionStateResponse> {
    // The service takes no more than six decimals of a second.
    const wait = Math.ceil(waitMs);
    return {
      pool: this.deps.gateways,
      heldMs: wait,
      path: `/v1/transactions/${id}?wait=${wait / 1_000}${level ? `&level=${encodeURIComponent(level)}` : ""}`,
      accepts: isTransactionStateResponse,
    };
  }

  /**
   * Repeats a call that is safe to repeat, until it succeeds, is refused, or time runs out. If the
   * caller sets no time limit, the time that the service may hold the call is added.
   */
  read<T>(
    call: Call<T>,
    options: CallOptions,
    about: About = {},
    run = (budget: Budget): Promise<T> => this.repeat(call, budget),
  ): Promise<T> {
    const { timeoutMs = this.deps.totalMs + call.heldMs, signal } = options;
    return this.runOpen({ timeoutMs, signal }, about, run);
  }

  /**
   * Repeats attempts until one is answered or `decide` says stop. `onUncertain` may find an answer
   * where another attempt would not.
   */
  async repeat<T>(
    call: Call<T>,
    budget: Budget,
    onUncertain?: (error: HighwaterError) => Promise<T | undefined>,
  ): Promise<T> {
    for (;;) {
      const answer = await this.attempt(call, budget);
      if (!(answer instanceof HighwaterError)) return answer;
      const decision = this.decide(answer, call, budget);
      if (decision.delayMs === undefined)
        // The outcome is unknown if the look-up gets no answer, or if there is no time left for it.
        throw budget.isUncertain && !(call.isCommit && decision.action === "throw")
          ? unknownOutcome(budget.id, answer)
          : answer;
      await sleep(decision.delayMs, budget.signal);
      const found = decision.action === "resolve" && (await onUncertain?.(answer));
      if (found) return found;
    }
  }

  /** Makes one attempt on the best endpoint. Returns typed errors and throws all others. */
  async attempt<T>(call: Call<T>, budget: Budget): Promise<T | HighwaterError> {
    const { deps } = this;
    const { pool, path, pin, heldMs: held, isCommit = false } = call;
    const { id, signal } = budget;
    const base = pin?.url ?? pool.pick();
    const url = base + path;
    if (budget.failed) deps.observe(budget.failed);
    budget.failed = undefined;
    budget.attempt += 1;
    signal?.throwIfAborted();
    try {
      const answer = await exchange(deps, {
        ...call,
        url,
        signal,
        headers: {
          ...deps.headers,
          ...budget.headers,
          ...(pin?.session && { [SESSION_HEADER]: pin.session }),
        },
        // A request that the service holds on purpose gets half of the usual time in addition.
        timeoutMs: Math.min(Math.max(deps.attemptMs, held + deps.attemptMs / 2), this.remaining(budget)),
        probeMs: pool.size > 1 ? deps.probeMs : undefined,
        // No other process has an open transaction, and its gateway rolls it back when the
        // connection closes.
        patience: pin?.url ? deps.pinnedPatience : 1,
      });
      if (!call.accepts(answer.body)) throw failure("bad_answer", `bad answer to ${path}`);
      pool.succeeded(base);
      call.onAnswer?.({ url: base, session: answer.headers?.get(SESSION_HEADER) ?? "" });
      return answer.body;
    } catch (error) {
      const isTyped = isAnswer(error, signal);
      budget.isUncertain ||= isCommit && !(isTyped && error.outcome === "not_applied");
      if (!isTyped) throw error;
      if (isEndpointFault(error)) pool.failed(base);
      else pool.succeeded(base);
      // Reported when another attempt follows.
      budget.failed = { type: "retry", id, url, attempt: budget.attempt, error };
      return error;
    }
  }

  decide(
    error: HighwaterError,
    { pool, isCommit = false, maxRuns = 1 }: Call<unknown>,
    budget: Budget,
  ): Decision {
    const { deps } = this;
    const { attempt, isUncertain } = budget;
    const situation = {
      attempt: attempt - 1,
      remainingMs: this.remaining(budget),
      elsewhere: attempt < pool.size && pool.hasAwake(),
      repeatable: attempt < maxRuns,
      uncertain: isCommit && isUncertain,
    };
    return decide(error, situation, deps);
  }

  remaining({ deadlineMs }: Budget): number {
    return Math.max(0, deadlineMs - monotonicMs());
  }
}

/**
 * Whether the error is an answer to the call. The reason of a signal is none, although it may be
 * the error of another call.
 */
function isAnswer(error: unknown, signal: AbortSignal | undefined): error is HighwaterError {
  return error instanceof HighwaterError && !(signal?.aborted && error === signal.reason);
}

/** The answer that the committed transaction would have given, as far as its state shows. */
function adopt(answer: TransactionStateResponse, { ack, level }: Sought): TransactionResponse {
  const { state } = answer;
  return {
    level,
    results: null,
    announced: false,
    replayed: true,
    ...answer,
    state: ack === "durable" && state === "committed" ? "pending" : state,
  } as TransactionResponse;
}
