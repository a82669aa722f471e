// The calls of one open transaction: numbered, all to the gateway that has it, and repeated there when a reply is lost, which
// runs nothing twice. Owns what a gateway that died means: nothing was committed, unless a commit was on its way.
import { failure, HighwaterError, stateError } from "./errors.ts";
import { isConnectionFault, isSettled } from "./retry.ts";
import { sleep } from "./runtime.ts";
import {
  type Accepts,
  type Budget,
  type Call,
  type CallOptions,
  type Pin,
  type Service,
  type Sought,
} from "./service.ts";
import {
  type BeginRequest,
  type CommitRequest,
  isOpenTransactionResponse,
  isRollbackResponse,
  isTransactionResponse,
  type OpenTransactionResponse,
  type StatementsRequest,
  type TransactionResponse,
} from "./wire.ts";

type Body = Partial<CommitRequest>;

/** The calls of one transaction. `begin` is the first, on whichever gateway is best; the others go where that one is. */
export class PinnedCalls {
  readonly #service: Service;
  readonly #id: string;
  #pin: Pin | undefined;
  /** Of the last call that was run. */
  #seq = 0;

  constructor(service: Service, id: string) {
    this.#service = service;
    this.#id = id;
  }

  get isBegun(): boolean {
    return this.#pin !== undefined;
  }

  /** Errors: typed; never `unknown`, for nothing is committed. */
  async begin(request: Omit<BeginRequest, "id">, options: CallOptions): Promise<OpenTransactionResponse> {
    const id = this.#id;
    const body = { id, ...request };
    const call = {
      ...{ pool: this.#service.deps.gateways, path: "/v1/transactions/begin", body, heldMs: 0 },
      accepts: isOpenTransactionResponse,
      onAnswer: (pin: Pin) => (this.#pin = pin),
    };
    const about = { type: "begin", id, statements: request.statements?.length } as const;
    try {
      return await this.#service.read(call, options, about);
    } catch (cause) {
      if (cause instanceof HighwaterError && cause.outcome === "unknown")
        Object.assign(cause, { outcome: "not_applied" });
      throw cause;
    }
  }

  /** Commits nothing: so whatever is wrong, the transaction is not applied. */
  statements(
    request: Omit<StatementsRequest, "seq">,
    options: CallOptions,
  ): Promise<OpenTransactionResponse> {
    return this.#run("statements", this.#call("statements", request, isOpenTransactionResponse), options);
  }

  /** Also after the client was closed. */
  rollback(options: CallOptions): Promise<unknown> {
    const call = this.#call("rollback", {}, isRollbackResponse);
    return this.#service.run(options, { id: this.#id }, (budget) => this.#repeat(call, budget));
  }

  /**
   * Commits, once. A lost reply is resolved by repetition, and where the gateway is gone by the
   * state of the id; if that is unknown, the id is settled so that it never commits.
   * Errors: typed; `outcome_unknown` when time is over and it may have committed.
   */
  commit(request: Omit<CommitRequest, "seq">, options: CallOptions): Promise<TransactionResponse> {
    const call = this.#call("commit", request, isTransactionResponse);
    // At any gateway that knows the session's secret.
    const settle = this.#call("rollback", { seq: this.#seq + 2 }, isRollbackResponse);
    const anywhere = { ...settle, pin: { session: this.#pin?.session ?? "" } };
    const commit = { ...call, heldMs: request.maxWaitMs ?? 0, isCommit: true };
    return this.#run("commit", commit, options, (budget, held) =>
      this.#resolve({ ...request, id: this.#id }, anywhere, budget, held),
    );
  }

  async #resolve(
    sought: Sought,
    settle: Call<{ state: string }>,
    budget: Budget,
    held: HighwaterError,
  ): Promise<TransactionResponse> {
    const service = this.#service;
    for (;;) {
      const found = await service.resolve(sought, budget, held);
      if (found) return found;
      // The id is unknown, but its COMMIT may be under way yet: only when the id is settled it
      // never commits.
      const answer = await service.attempt(settle, budget);
      if (!(answer instanceof HighwaterError)) throw stateError(sought.id, answer.state) ?? held;
      if (isSettled(answer) && answer.open !== true) throw answer;
      await service.pause(budget, answer);
    }
  }

  #call<T>(name: string, request: Body, accepts: Accepts<T>): Call<T> {
    return {
      ...{ pool: this.#service.deps.gateways, path: `/v1/transactions/${this.#id}/${name}` },
      ...{ body: { seq: this.#seq + 1, ...request }, heldMs: 0, accepts, pin: this.#pin as Pin },
    };
  }

  /** The number counts only when the call was run: what was refused before has not used it up. */
  async #run<T>(
    type: "statements" | "commit",
    call: Call<T>,
    options: CallOptions,
    onUncertain?: (budget: Budget, held: HighwaterError) => Promise<T>,
  ): Promise<T> {
    const { statements } = call.body as Body;
    const about = { type, id: this.#id, statements: statements?.length ?? 0 };
    try {
      const answer = await this.#service.runOpen(options, about, (budget) =>
        this.#repeat(call, budget, onUncertain),
      );
      this.#seq += 1;
      return answer;
    } catch (error) {
      const { open, retry, code } = error as Partial<HighwaterError>;
      if (open && retry !== "wait" && code !== "out_of_sequence") this.#seq += 1;
      throw error;
    }
  }

  /** Attempts until the gateway that has the transaction answers, or is gone. */
  async #repeat<T>(
    call: Call<T>,
    budget: Budget,
    onUncertain?: (budget: Budget, held: HighwaterError) => Promise<T>,
  ): Promise<T> {
    const service = this.#service;
    const { pinnedAttempts } = service.deps;
    for (let faults = 0; ;) {
      const wasUncertain = budget.isUncertain;
      const answer = await service.attempt(call, budget);
      if (!(answer instanceof HighwaterError)) return answer;
      const { code, outcome, retry, open } = answer;
      // Says that the call came to the wrong place, and nothing about calls before it.
      const isMisplaced = code === "wrong_gateway" || code === "transaction_not_open";
      if (isMisplaced) budget.isUncertain = wasUncertain;
      // What the gateway that has it says is so; but a refusal for now is no answer yet.
      const isAnswered = isSettled(answer) || (open !== undefined && outcome === "not_applied");
      if (isAnswered && !isMisplaced && retry !== "wait") throw answer;
      const isUnreachable = isMisplaced || isConnectionFault(answer);
      // One that was silent for all its time is asked once more, and not again and again.
      if (isUnreachable) faults += code === "request_timeout" ? pinnedAttempts - 1 : 1;
      const decision = service.decide(answer, { ...call, isCommit: false }, budget);
      const isOver = decision.action !== "send" || faults >= pinnedAttempts;
      if (onUncertain && budget.isUncertain && (isOver || isMisplaced)) return onUncertain(budget, answer);
      // Its COMMIT was never sent, so it never commits.
      if (isOver)
        throw isUnreachable || outcome === "unknown"
          ? failure("gateway_lost", "the gateway of the open transaction is gone: begin another one", {
              ...{ transactionId: this.#id, cause: answer, open: false },
            })
          : answer;
      await sleep(decision.delayMs, budget.signal);
    }
  }
}
