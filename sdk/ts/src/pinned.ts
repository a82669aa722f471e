// The calls of one open transaction: numbered, all to the gateway that has it, and repeated there when a reply is lost, which
// runs nothing twice. Owns what a gateway that died means: nothing was committed, unless a commit was on its way.
import { gatewayLost, connectionError, HighwaterError, stateError } from "./errors.ts";
import { isConnectionFault, isSettled } from "./retry.ts";
import { sleep } from "./runtime.ts";
import { type Budget, type Call, type CallOptions, heldMs, type Pin, type Service } from "./service.ts";
import {
  type BeginRequest,
  type CommitRequest,
  isOpenTransactionResponse,
  isRollbackResponse,
  isTransactionResponse,
  type OpenTransactionResponse,
  type RollbackResponse,
  type StatementsRequest,
  type TransactionResponse,
} from "./wire.ts";

/** Opens a transaction on whichever gateway is best. Errors: typed; never `unknown`, for nothing is committed. */
export async function begin(
  service: Service,
  request: BeginRequest,
  options: CallOptions,
): Promise<{ pin: Pin; answer: OpenTransactionResponse }> {
  let pin: Pin = { url: "", session: "" };
  try {
    const call = {
      ...{ pool: service.deps.gateways, path: "/v1/transactions/begin", body: request, heldMs: 0 },
      accepts: isOpenTransactionResponse,
      onAnswer: (answered: Pin) => (pin = answered),
    };
    const answer = await service.read(call, options);
    return { pin, answer };
  } catch (cause) {
    if (!(cause instanceof HighwaterError) || cause.outcome !== "unknown") throw cause;
    throw connectionError(cause.code, cause.message, { sent: false, cause });
  }
}

/** The calls of one transaction, once it is open. */
export class PinnedCalls {
  readonly #service: Service;
  readonly #id: string;
  readonly #pin: Pin;

  constructor(service: Service, id: string, pin: Pin) {
    this.#service = service;
    this.#id = id;
    this.#pin = pin;
  }

  statements(request: StatementsRequest, options: CallOptions): Promise<OpenTransactionResponse> {
    return this.#step(this.#call("statements", request, isOpenTransactionResponse), options);
  }

  rollback(seq: number, options: CallOptions): Promise<RollbackResponse> {
    return this.#step(this.#call("rollback", { seq }, isRollbackResponse), options);
  }

  /**
   * Commits, once. A lost reply is resolved by repetition, and where the gateway is gone by the state of the id; if nobody
   * has heard of it, it is settled so that it never commits.
   * Errors: typed; `outcome_unknown` when time is over and it may have committed.
   */
  async commit(request: CommitRequest, options: CallOptions): Promise<TransactionResponse> {
    const service = this.#service;
    const budget = service.budget(options);
    const call = this.#call("commit", request, isTransactionResponse, heldMs(request));
    let uncertain = false;
    for (let faults = 0; ;) {
      const answer = await service.attempt(call, budget);
      if (!(answer instanceof HighwaterError)) return answer;
      const { code } = answer;
      // Says that the call came to the wrong place, and nothing about calls before it.
      const misplaced = code === "wrong_gateway" || code === "transaction_not_open";
      const isTold = answer.open !== undefined && answer.outcome === "not_applied";
      // What the gateway that has it says is so; but a refusal for now is no answer yet.
      if (!misplaced && (isTold || isSettled(answer)) && answer.retry !== "wait") throw answer;
      uncertain ||= !misplaced && answer.outcome !== "not_applied";
      if (!uncertain && (answer.retry === "never" || code === "transaction_not_open"))
        throw misplaced ? gatewayLost(this.#id, answer) : answer;
      if (misplaced || isConnectionFault(answer)) faults += 1;
      const decision = service.decide(answer, { pool: call.pool, budget, uncertain: false });
      const ended = decision.action === "throw" || decision.action === "give_up";
      if (!uncertain) {
        if (!ended && faults < service.deps.tuning.pinnedAttempts)
          await sleep(decision.delayMs, options.signal);
        else throw faults > 0 ? gatewayLost(this.#id, answer) : answer;
      } else if (
        ended ||
        misplaced ||
        answer.retry !== "wait" ||
        faults >= service.deps.tuning.pinnedAttempts
      )
        return this.#resolve(request, { budget, held: answer });
      else await sleep(decision.delayMs, options.signal);
    }
  }

  async #resolve(
    request: CommitRequest,
    options: { budget: Budget; held: HighwaterError },
  ): Promise<TransactionResponse> {
    const service = this.#service;
    const { budget, held } = options;
    const sought = { ...request, id: this.#id };
    const { url: _anywhere, ...settle } = this.#call(
      "rollback",
      { seq: request.seq + 1 },
      isRollbackResponse,
    );
    for (;;) {
      const resolved = await service.resolve(sought, { budget, held, definite: false });
      if (resolved !== "send") return resolved;
      // Nobody has heard of it, but its COMMIT may be under way yet: only when the id is settled it never commits.
      const answer = await service.attempt(settle, budget);
      if (!(answer instanceof HighwaterError)) throw stateError(this.#id, "aborted") ?? held;
      if (isSettled(answer) && answer.open !== true) throw answer;
      await service.pause(service.backoff(budget.attempt), this.#id, { budget, cause: answer });
    }
  }

  #call<T>(name: string, body: unknown, accepts: (answer: unknown) => answer is T, held = 0): Call<T> {
    const { url, session } = this.#pin;
    const path = `/v1/transactions/${this.#id}/${name}`;
    return { pool: this.#service.deps.gateways, path, body, heldMs: held, accepts, url, session };
  }

  /** A call that commits nothing: so whatever is wrong, the transaction is not applied. */
  async #step<T>(call: Call<T>, options: CallOptions): Promise<T> {
    const service = this.#service;
    const budget = service.budget(options);
    for (let faults = 0; ;) {
      const answer = await service.attempt(call, budget);
      if (!(answer instanceof HighwaterError)) return answer;
      const isGone = answer.code === "wrong_gateway" || isConnectionFault(answer);
      if (isGone) faults += 1;
      const decision = service.decide(answer, { pool: call.pool, budget, uncertain: false });
      const isOver = decision.action !== "send" || faults >= service.deps.tuning.pinnedAttempts;
      if (!isOver) await sleep(decision.delayMs, options.signal);
      else if (isGone || answer.outcome === "unknown") throw gatewayLost(this.#id, answer);
      else throw answer;
    }
  }
}
