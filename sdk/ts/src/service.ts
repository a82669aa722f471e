// The calls of the v1 protocol with their retries. Owns which endpoint gets which attempt, and how long all attempts
// together may take; the decisions themselves are in `retry.ts`, the calls of open transactions in `pinned.ts`.
import { type EndpointPool } from "./endpoints.ts";
import { HighwaterError, unknownOutcome } from "./errors.ts";
import { decide, type Decision, isEndpointFault, resolve } from "./retry.ts";
import { fullJitter, type Runtime, sleep } from "./runtime.ts";
import { badAnswer, exchange } from "./transport.ts";
import { type Tuning } from "./tuning.ts";
import {
  isTransactionResponse,
  isTransactionStateResponse,
  isVerdictsResponse,
  type TransactionRequest,
  type TransactionResponse,
  type TransactionStateResponse,
  type VerdictsRequest,
  type VerdictsResponse,
} from "./wire.ts";

export interface ServiceDeps {
  readonly runtime: Runtime;
  readonly gateways: EndpointPool;
  readonly trackers: EndpointPool;
  readonly tuning: Tuning;
  readonly headers: Readonly<Record<string, string>>;
  readonly requestTimeoutMs: number;
}

export interface CallOptions {
  /** For all attempts together. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** Where an open transaction is, and the header that leads there through a proxy. */
export interface Pin {
  readonly url: string;
  readonly session: string;
}

export const SESSION_HEADER = "highwater-session";

export interface Call<T> {
  readonly pool: EndpointPool;
  readonly path: string;
  /** Of a POST; absent for a GET. */
  readonly body?: unknown;
  /** How long the service may hold the request before it answers. */
  readonly heldMs: number;
  readonly accepts: (body: unknown) => body is T;
  /** The only endpoint that will do; the best one unless given. */
  readonly url?: string | undefined;
  readonly session?: string | undefined;
  readonly onAnswer?: (pin: Pin) => void;
}

/** What is looked for when the answer to a commit was lost. */
export interface Sought {
  readonly id: string;
  readonly ack?: "commit" | "durable" | undefined;
  readonly level?: string | undefined;
  readonly maxWaitMs?: number | undefined;
}

/** The time and the attempts that one call of the user has spent. */
export interface Budget {
  readonly deadlineMs: number;
  readonly signal: AbortSignal | undefined;
  attempt: number;
}

export class Service {
  readonly deps: ServiceDeps;

  constructor(deps: ServiceDeps) {
    this.deps = deps;
  }

  /**
   * Runs a one-shot transaction to a settled answer: the same id and body until there is one. The gateway runs an id
   * once, so a lost reply costs a resend and nothing else.
   * Errors: every typed error of the service; `outcome_unknown` when time is over and an attempt may have been applied.
   */
  async transaction(request: TransactionRequest, options: CallOptions): Promise<TransactionResponse> {
    const call: Call<TransactionResponse> = {
      ...{ pool: this.deps.gateways, path: "/v1/transactions", body: request },
      heldMs: heldMs(request),
      accepts: isTransactionResponse,
    };
    const budget = this.budget(options);
    let uncertain = false;
    for (;;) {
      const answer = await this.attempt(call, budget);
      if (!(answer instanceof HighwaterError)) return answer;
      uncertain ||= answer.outcome !== "not_applied";
      const decision = this.decide(answer, { pool: call.pool, budget, uncertain });
      if (decision.action === "throw") throw answer;
      if (decision.action === "give_up") throw uncertain ? unknownOutcome(request.id, answer) : answer;
      await sleep(decision.delayMs, options.signal);
      if (decision.action === "send") continue;
      const definite = answer.retry === "never" || answer.retry === "transaction";
      const resolved = await this.resolve(request, { budget, held: answer, definite });
      if (resolved !== "send") return resolved;
    }
  }

  /** Asks what became of an id until it is settled, or says that sending it again is the way to find out. */
  async resolve(
    request: Sought,
    options: { budget: Budget; held: HighwaterError; definite: boolean },
  ): Promise<TransactionResponse | "send"> {
    const { budget, held, definite } = options;
    let cause = held;
    for (;;) {
      const waitMs = Math.min(heldMs(request), this.remaining(budget));
      const call = this.#statusCall(request.id, { waitMs, level: request.level });
      const state = await this.attempt(call, budget);
      let delayMs: number;
      let isConflict = false;
      if (state instanceof HighwaterError) {
        cause = state;
        const decision = this.decide(state, { pool: call.pool, budget, uncertain: false });
        if (decision.action === "throw" || decision.action === "give_up")
          throw unknownOutcome(request.id, cause);
        delayMs = decision.delayMs;
      } else {
        const resolution = resolve(state, definite ? held : undefined);
        if (resolution.action === "adopt") return adopt(state, request);
        if (resolution.action === "throw") throw resolution.error;
        if (resolution.action === "send" && !definite) return "send";
        // A conflict of a resend. Not at once: those that conflicted with each other would meet again.
        isConflict = resolution.action === "send";
        delayMs = this.backoff(budget.attempt);
      }
      await this.pause(delayMs, request.id, { budget, cause });
      if (isConflict) return "send";
    }
  }

  /** Sleeps, unless there is no time for another attempt: then the outcome stays unknown. */
  async pause(
    delayMs: number,
    id: string,
    { budget, cause }: { budget: Budget; cause: unknown },
  ): Promise<void> {
    if (delayMs + this.deps.tuning.attemptMinMs > this.remaining(budget)) throw unknownOutcome(id, cause);
    await sleep(delayMs, budget.signal);
  }

  backoff(attempt: number): number {
    const { runtime, tuning } = this.deps;
    const { backoffBaseMs: baseMs, backoffMaxMs: maxMs } = tuning;
    return fullJitter(attempt, { baseMs, maxMs, random: runtime.random() });
  }

  /** `GET /v1/transactions/{id}`, held by the gateway for `waitMs` until the id is settled at the level. */
  async status(
    id: string,
    options: CallOptions & { waitMs?: number | undefined; level?: string | undefined },
  ): Promise<TransactionStateResponse> {
    return this.read(this.#statusCall(id, { waitMs: options.waitMs ?? 0, level: options.level }), options);
  }

  /** One request for verdicts; at most `LIMITS.tokensPerRequest` tokens. */
  async verdicts(request: VerdictsRequest, options: CallOptions): Promise<VerdictsResponse> {
    const call: Call<VerdictsResponse> = {
      ...{ pool: this.deps.trackers, path: "/v1/durability/verdicts", body: request },
      heldMs: request.waitMs ?? 0,
      accepts: isVerdictsResponse,
    };
    return this.read(call, options);
  }

  #statusCall(
    id: string,
    options: { waitMs: number; level: string | undefined },
  ): Call<TransactionStateResponse> {
    const query = new URLSearchParams();
    const waitSeconds = Math.max(0, Math.ceil(options.waitMs / 1_000));
    if (waitSeconds > 0) query.set("wait", String(waitSeconds));
    if (options.level !== undefined) query.set("level", options.level);
    return {
      ...{ pool: this.deps.gateways, heldMs: waitSeconds * 1_000 },
      path: `/v1/transactions/${id}?${query.toString()}`.replace(/\?$/, ""),
      accepts: isTransactionStateResponse,
    };
  }

  /** A call that changes nothing, or the same thing each time: again until it succeeds, is refused, or time is over. */
  async read<T>(call: Call<T>, options: CallOptions): Promise<T> {
    const budget = this.budget(options);
    for (;;) {
      const answer = await this.attempt(call, budget);
      if (!(answer instanceof HighwaterError)) return answer;
      const decision = this.decide(answer, { pool: call.pool, budget, uncertain: false });
      if (decision.action === "throw" || decision.action === "give_up") throw answer;
      await sleep(decision.delayMs, options.signal);
    }
  }

  /** One attempt on the endpoint that is best now. A failure that has a type is returned, anything else is thrown. */
  async attempt<T>(call: Call<T>, budget: Budget): Promise<T | HighwaterError> {
    const { runtime, headers, requestTimeoutMs, tuning } = this.deps;
    const { pool, path, body, session } = call;
    const base = call.url ?? pool.pick(runtime.monotonicMs());
    const url = `${base}${path}`;
    budget.attempt += 1;
    try {
      const answer = await exchange(runtime, {
        ...{ url, body, signal: budget.signal },
        headers: session === undefined ? headers : { ...headers, [SESSION_HEADER]: session },
        timeoutMs: Math.min(attemptMs(requestTimeoutMs, call.heldMs), this.remaining(budget)),
        probeMs: pool.size > 1 ? tuning.probeMs : undefined,
      });
      if (!call.accepts(answer.body)) throw badAnswer(`the answer of ${path} has not the shape it must have`);
      pool.succeeded(base);
      call.onAnswer?.({ url: base, session: answer.headers.get(SESSION_HEADER) ?? "" });
      return answer.body;
    } catch (error) {
      if (!(error instanceof HighwaterError)) throw error;
      if (isEndpointFault(error)) pool.failed(base, runtime.monotonicMs());
      else pool.succeeded(base);
      runtime.log.debug?.("attempt failed", { url, attempt: budget.attempt, error });
      return error;
    }
  }

  decide(
    error: HighwaterError,
    options: { pool: EndpointPool; budget: Budget; uncertain: boolean },
  ): Decision {
    const { runtime, tuning } = this.deps;
    const { pool, budget, uncertain } = options;
    const elsewhere = budget.attempt < pool.size && pool.hasAwake(runtime.monotonicMs());
    const situation = { attempt: budget.attempt - 1, uncertain, elsewhere, random: runtime.random() };
    return decide(error, { ...situation, remainingMs: this.remaining(budget) }, tuning);
  }

  budget(options: CallOptions): Budget {
    const deadlineMs = this.deps.runtime.monotonicMs() + options.timeoutMs;
    return { deadlineMs, signal: options.signal, attempt: 0 };
  }

  remaining(budget: Budget): number {
    return Math.max(0, budget.deadlineMs - this.deps.runtime.monotonicMs());
  }
}

/** How long the service may hold the answer to a commit back. */
export function heldMs({ ack, maxWaitMs }: Pick<Sought, "ack" | "maxWaitMs">): number {
  return ack === "durable" ? (maxWaitMs ?? 0) : 0;
}

/** How long one attempt may take: a request that is held on purpose still has half of the usual time besides. */
function attemptMs(requestTimeoutMs: number, held: number): number {
  return Math.max(requestTimeoutMs, held + requestTimeoutMs / 2);
}

/** The answer that a committed transaction would have given, as far as its state tells. */
function adopt(state: TransactionStateResponse, request: Sought): TransactionResponse {
  const { id, token, position, marks } = state;
  if (token === undefined || position === undefined) throw badAnswer("a committed transaction has no token");
  const safe = request.ack === "durable";
  const level = state.level ?? request.level;
  return {
    ...{ id, token, position, marks, results: null, announced: false, replayed: true },
    state: safe && state.state === "committed" ? "pending" : state.state,
    ...(level === undefined ? {} : { level }),
  };
}
