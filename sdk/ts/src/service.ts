// The calls of the v1 protocol with their retries. Owns which endpoint gets which attempt, and how long all attempts
// together may take; the decisions themselves are in `retry.ts`, the calls of open transactions in `pinned.ts`.
import { type EndpointPool } from "./endpoints.ts";
import { HighwaterError, unknownOutcome } from "./errors.ts";
import { type ObservedEvent } from "./observer.ts";
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

const SESSION_HEADER = "highwater-session";

export interface Call<T> {
  readonly pool: EndpointPool;
  readonly path: string;
  /** Of a POST; absent for a GET. */
  readonly body?: unknown;
  /** How long the service may hold the request before it answers. */
  readonly heldMs: number;
  readonly accepts: (body: unknown) => body is T;
  /** The only endpoint that will do; the best one unless given. */
  readonly pin?: Partial<Pin>;
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
  /** What the observer has to say to the service. */
  readonly headers: Record<string, string>;
  attempt: number;
  /** The attempt before, if that failed. */
  failed?: ObservedEvent | undefined;
}

export class Service {
  readonly deps: ServiceDeps;

  constructor(deps: ServiceDeps) {
    this.deps = deps;
  }

  /** Runs a call of the user's within its time, and tells the observer when it begins and how it ends. */
  async run<T>(
    options: CallOptions,
    event: ObservedEvent | undefined,
    call: (budget: Budget) => Promise<T>,
  ): Promise<T> {
    const headers: Record<string, string> = {};
    const { observe, monotonicMs } = this.deps.runtime;
    const end = event && observe({ ...event, headers });
    const deadlineMs = monotonicMs() + options.timeoutMs;
    try {
      const answer = await call({ deadlineMs, signal: options.signal, headers, attempt: 0 });
      end?.({ state: (answer as { state?: string }).state });
      return answer;
    } catch (error) {
      end?.({ error });
      throw error;
    }
  }

  /**
   * Runs a one-shot transaction to a settled answer: the same id and body until there is one. The gateway runs an id
   * once, so a lost reply costs a resend and nothing else.
   * Errors: every typed error of the service; `outcome_unknown` when time is over and an attempt may have been applied.
   */
  transaction(request: TransactionRequest, options: CallOptions): Promise<TransactionResponse> {
    const { id, statements, level } = request;
    const call: Call<TransactionResponse> = {
      ...{ pool: this.deps.gateways, path: "/v1/transactions", body: request },
      heldMs: heldMs(request),
      accepts: isTransactionResponse,
    };
    const event = { type: "commit", id, level, statements: statements.length } as const;
    return this.run(options, event, async (budget) => {
      let isUncertain = false;
      for (;;) {
        const answer = await this.attempt(call, budget);
        if (!(answer instanceof HighwaterError)) return answer;
        isUncertain ||= answer.outcome !== "not_applied";
        const decision = this.decide(answer, call, budget, isUncertain);
        if (decision.action === "throw") throw answer;
        if (decision.action === "give_up") throw isUncertain ? unknownOutcome(id, answer) : answer;
        await sleep(decision.delayMs, budget.signal);
        if (decision.action === "send") continue;
        const isDefinite = answer.retry === "never" || answer.retry === "transaction";
        const resolved = await this.resolve(request, budget, answer, isDefinite);
        if (resolved !== "send") return resolved;
      }
    });
  }

  /** Asks what became of an id until it is settled, or says that sending it again is the way to find out. */
  async resolve(
    request: Sought,
    budget: Budget,
    held: HighwaterError,
    isDefinite = false,
  ): Promise<TransactionResponse | "send"> {
    let cause = held;
    for (;;) {
      const waitMs = Math.min(heldMs(request), this.remaining(budget));
      const call = this.#statusCall(request.id, waitMs, request.level);
      const state = await this.attempt(call, budget);
      let delayMs: number;
      let isConflict = false;
      if (state instanceof HighwaterError) {
        cause = state;
        const decision = this.decide(state, call, budget);
        if (!("delayMs" in decision)) throw unknownOutcome(request.id, cause);
        delayMs = decision.delayMs;
      } else {
        const resolution = resolve(state, isDefinite ? held : undefined);
        if (resolution.action === "adopt") return adopt(state, request);
        if (resolution.action === "throw") throw resolution.error;
        // A conflict of a resend. Not at once: those that conflicted with each other would meet again.
        isConflict = resolution.action === "send";
        if (isConflict && !isDefinite) return "send";
        delayMs = this.backoff(budget);
      }
      await this.pause(delayMs, request.id, budget, cause);
      if (isConflict) return "send";
    }
  }

  /** Sleeps, unless there is no time for another attempt: then the outcome stays unknown. */
  async pause(delayMs: number, id: string, budget: Budget, cause: unknown): Promise<void> {
    if (delayMs + this.deps.tuning.attemptMinMs > this.remaining(budget)) throw unknownOutcome(id, cause);
    await sleep(delayMs, budget.signal);
  }

  backoff({ attempt }: Budget): number {
    const { runtime, tuning } = this.deps;
    return fullJitter(attempt, tuning.backoffBaseMs, tuning.backoffMaxMs, runtime.random());
  }

  /** `GET /v1/transactions/{id}`, held by the gateway for `waitMs` until the id is settled at the level. */
  status(
    id: string,
    options: CallOptions & { waitMs?: number | undefined; level?: string | undefined },
  ): Promise<TransactionStateResponse> {
    return this.read(this.#statusCall(id, options.waitMs ?? 0, options.level), options);
  }

  /** One request for verdicts; at most `LIMITS.tokensPerRequest` tokens. */
  verdicts(request: VerdictsRequest, options: CallOptions): Promise<VerdictsResponse> {
    const call: Call<VerdictsResponse> = {
      ...{ pool: this.deps.trackers, path: "/v1/durability/verdicts", body: request },
      heldMs: request.waitMs ?? 0,
      accepts: isVerdictsResponse,
    };
    return this.read(call, options);
  }

  #statusCall(id: string, waitMs: number, level: string | undefined): Call<TransactionStateResponse> {
    const seconds = Math.max(0, Math.ceil(waitMs / 1_000));
    const query = [seconds > 0 && `wait=${String(seconds)}`, level && `level=${encodeURIComponent(level)}`];
    return {
      ...{ pool: this.deps.gateways, heldMs: seconds * 1_000 },
      path: `/v1/transactions/${id}?${query.filter(Boolean).join("&")}`,
      accepts: isTransactionStateResponse,
    };
  }

  /** A call that changes nothing, or the same thing each time: again until it succeeds, is refused, or time is over. */
  read<T>(call: Call<T>, options: CallOptions, event?: ObservedEvent): Promise<T> {
    return this.run(options, event, async (budget) => {
      for (;;) {
        const answer = await this.attempt(call, budget);
        if (!(answer instanceof HighwaterError)) return answer;
        const decision = this.decide(answer, call, budget);
        if (!("delayMs" in decision)) throw answer;
        await sleep(decision.delayMs, options.signal);
      }
    });
  }

  /** One attempt on the endpoint that is best now. A failure that has a type is returned, anything else is thrown. */
  async attempt<T>(call: Call<T>, budget: Budget): Promise<T | HighwaterError> {
    const { runtime, headers, requestTimeoutMs, tuning } = this.deps;
    const { pool, path, pin, body, accepts } = call;
    const base = pin?.url ?? pool.pick(runtime.monotonicMs());
    if (budget.failed !== undefined) runtime.observe(budget.failed);
    budget.failed = undefined;
    budget.attempt += 1;
    try {
      const answer = await exchange(runtime, {
        ...{ url: base + path, body, signal: budget.signal },
        headers: { ...headers, ...budget.headers, ...(pin?.session && { [SESSION_HEADER]: pin.session }) },
        // A request that is held on purpose still has half of the usual time besides.
        timeoutMs: Math.min(
          Math.max(requestTimeoutMs, call.heldMs + requestTimeoutMs / 2),
          this.remaining(budget),
        ),
        probeMs: pool.size > 1 ? tuning.probeMs : undefined,
        // Nobody else has an open transaction, and its gateway rolls it back when the connection is closed.
        patience: pin?.url ? tuning.pinnedPatience : 1,
      });
      if (!accepts(answer.body)) throw badAnswer(`${path}: not the shape of an answer`);
      pool.succeeded(base);
      call.onAnswer?.({ url: base, session: answer.headers.get(SESSION_HEADER) ?? "" });
      return answer.body;
    } catch (error) {
      if (!(error instanceof HighwaterError)) throw error;
      if (isEndpointFault(error)) pool.failed(base, runtime.monotonicMs());
      else pool.succeeded(base);
      // Told when another attempt follows.
      const id = (body as { id?: string } | undefined)?.id ?? /[\da-f-]{36}/.exec(path)?.[0];
      budget.failed = { type: "retry", id, url: base + path, attempt: budget.attempt, error };
      return error;
    }
  }

  decide(error: HighwaterError, { pool }: Call<unknown>, budget: Budget, uncertain = false): Decision {
    const { runtime, tuning } = this.deps;
    const elsewhere = budget.attempt < pool.size && pool.hasAwake(runtime.monotonicMs());
    const remainingMs = this.remaining(budget);
    const situation = { attempt: budget.attempt - 1, uncertain, elsewhere, remainingMs };
    return decide(error, { ...situation, random: runtime.random() }, tuning);
  }

  remaining({ deadlineMs }: Budget): number {
    return Math.max(0, deadlineMs - this.deps.runtime.monotonicMs());
  }
}

/** How long the service may hold the answer to a commit back. */
export function heldMs({ ack, maxWaitMs = 0 }: Pick<Sought, "ack" | "maxWaitMs">): number {
  return ack === "durable" ? maxWaitMs : 0;
}

/** The answer that a committed transaction would have given, as far as its state tells. */
function adopt(answer: TransactionStateResponse, { ack, level: asked }: Sought): TransactionResponse {
  const { id, token, position, marks, state, level = asked } = answer;
  if (!token || !position) throw badAnswer("a committed transaction has no token");
  return {
    ...{ id, token, position, marks, results: null, announced: false, replayed: true },
    state: ack === "durable" && state === "committed" ? "pending" : state,
    ...(level && { level }),
  };
}
