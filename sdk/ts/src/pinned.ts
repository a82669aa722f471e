// The calls of one open transaction: numbered, all to the gateway that has it, and repeated there when a reply is lost, which
// runs nothing twice. Owns what a gateway that died means: nothing was committed, unless a commit was on its way.
import { failure, HighwaterError, stateError } from "./errors.ts";
import { type ObservedEvent } from "./observer.ts";
import { isConnectionFault, isSettled } from "./retry.ts";
import { sleep } from "./runtime.ts";
import { type Budget, type Call, type CallOptions, heldMs, type Pin, type Service } from "./service.ts";
import {
  type BeginRequest,
  type CommitRequest,
  isMarks,
  isResults,
  isText,
  isTransactionResponse,
  type OpenTransactionResponse,
  oneOf,
  orNull,
  type RollbackResponse,
  shape,
  type StatementsRequest,
  type TransactionResponse,
} from "./wire.ts";

export const isOpenTransactionResponse = shape<OpenTransactionResponse>({
  ...{ state: oneOf("active"), results: isResults, expiresAt: isText, marks: orNull(isMarks) },
});

export const isRollbackResponse = shape<RollbackResponse>({ state: oneOf("aborted") });

/** The gateway that had the open transaction does not answer any more. Its COMMIT was never sent, so it never commits. */
function gatewayLost(transactionId: string, cause: unknown): HighwaterError {
  const message = `the gateway of ${transactionId} is gone; use a new id`;
  return failure("gateway_lost", message, { transactionId, cause, open: false });
}

/** The calls of one transaction. `begin` is the first, on whichever gateway is best; the others go where that one is. */
export class PinnedCalls {
  readonly #service: Service;
  readonly #id: string;
  #pin: Pin | undefined;

  constructor(service: Service, id: string) {
    this.#service = service;
    this.#id = id;
  }

  get isBegun(): boolean {
    return this.#pin !== undefined;
  }

  /** Errors: typed; never `unknown`, for nothing is committed. */
  async begin(request: Omit<BeginRequest, "id">, options: CallOptions): Promise<OpenTransactionResponse> {
    const body = { id: this.#id, ...request };
    const call = {
      ...{ pool: this.#service.deps.gateways, path: "/v1/transactions/begin", body, heldMs: 0 },
      accepts: isOpenTransactionResponse,
      onAnswer: (pin: Pin) => (this.#pin = pin),
    };
    try {
      return await this.#service.read(call, options, this.#event("begin", request));
    } catch (cause) {
      if (cause instanceof HighwaterError && cause.outcome === "unknown")
        Object.assign(cause, { outcome: "not_applied" });
      throw cause;
    }
  }

  statements(request: StatementsRequest, options: CallOptions): Promise<OpenTransactionResponse> {
    const call = this.#call("statements", request, isOpenTransactionResponse);
    return this.#step(call, options, this.#event("statements", request));
  }

  rollback(seq: number, options: CallOptions): Promise<RollbackResponse> {
    return this.#step(this.#call("rollback", { seq }, isRollbackResponse), options);
  }

  /**
   * Commits, once. A lost reply is resolved by repetition, and where the gateway is gone by the state of the id; if nobody
   * has heard of it, it is settled so that it never commits.
   * Errors: typed; `outcome_unknown` when time is over and it may have committed.
   */
  commit(request: CommitRequest, options: CallOptions): Promise<TransactionResponse> {
    const service = this.#service;
    const call = this.#call("commit", request, isTransactionResponse, heldMs(request));
    return service.run(options, this.#event("commit", request), async (budget) => {
      let isUncertain = false;
      for (let faults = 0; ;) {
        const answer = await service.attempt(call, budget);
        if (!(answer instanceof HighwaterError)) return answer;
        const { code, outcome, retry } = answer;
        // Says that the call came to the wrong place, and nothing about calls before it.
        const isMisplaced = code === "wrong_gateway" || code === "transaction_not_open";
        const isTold = answer.open !== undefined && outcome === "not_applied";
        // What the gateway that has it says is so; but a refusal for now is no answer yet.
        if (!isMisplaced && (isTold || isSettled(answer)) && retry !== "wait") throw answer;
        isUncertain ||= !isMisplaced && outcome !== "not_applied";
        if (!isUncertain && (retry === "never" || code === "transaction_not_open"))
          throw isMisplaced ? gatewayLost(this.#id, answer) : answer;
        if (isMisplaced || isConnectionFault(answer)) faults += this.#weight(answer);
        const decision = service.decide(answer, call, budget);
        const isOver = !("delayMs" in decision) || faults >= service.deps.tuning.pinnedAttempts;
        if (isUncertain && (isOver || isMisplaced || retry !== "wait"))
          return await this.#resolve(request, budget, answer);
        if (isOver) throw faults > 0 ? gatewayLost(this.#id, answer) : answer;
        await sleep(decision.delayMs, options.signal);
      }
    });
  }

  async #resolve(request: CommitRequest, budget: Budget, held: HighwaterError): Promise<TransactionResponse> {
    const service = this.#service;
    const id = this.#id;
    // At any gateway that knows the session's secret.
    const call = this.#call("rollback", { seq: request.seq + 1 }, isRollbackResponse);
    const settle = { ...call, pin: { session: this.#pin?.session ?? "" } };
    for (;;) {
      const resolved = await service.resolve({ ...request, id }, budget, held);
      if (resolved !== "send") return resolved;
      // Nobody has heard of it, but its COMMIT may be under way yet: only when the id is settled it never commits.
      const answer = await service.attempt(settle, budget);
      if (!(answer instanceof HighwaterError)) throw stateError(id, "aborted") ?? held;
      if (isSettled(answer) && answer.open !== true) throw answer;
      await service.pause(service.backoff(budget), id, budget, answer);
    }
  }

  #event(type: ObservedEvent["type"], { statements }: { statements?: readonly unknown[] }): ObservedEvent {
    return { type, id: this.#id, statements: statements?.length ?? 0 };
  }

  #call<T>(name: string, body: unknown, accepts: (answer: unknown) => answer is T, held = 0): Call<T> {
    const path = `/v1/transactions/${this.#id}/${name}`;
    const pin = this.#pin as Pin;
    return { pool: this.#service.deps.gateways, path, body, heldMs: held, accepts, pin };
  }

  /** A gateway that was silent for all its time is asked once more, and not again and again. */
  #weight({ code }: HighwaterError): number {
    return code === "request_timeout" ? this.#service.deps.tuning.pinnedAttempts - 1 : 1;
  }

  /** A call that commits nothing: so whatever is wrong, the transaction is not applied. */
  #step<T>(call: Call<T>, options: CallOptions, event?: ObservedEvent): Promise<T> {
    const service = this.#service;
    return service.run(options, event, async (budget) => {
      for (let faults = 0; ;) {
        const answer = await service.attempt(call, budget);
        if (!(answer instanceof HighwaterError)) return answer;
        const isGone = answer.code === "wrong_gateway" || isConnectionFault(answer);
        if (isGone) faults += this.#weight(answer);
        const decision = service.decide(answer, call, budget);
        if (decision.action === "send" && faults < service.deps.tuning.pinnedAttempts)
          await sleep(decision.delayMs, options.signal);
        else throw isGone || answer.outcome === "unknown" ? gatewayLost(this.#id, answer) : answer;
      }
    });
  }
}
