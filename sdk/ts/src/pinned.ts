// The numbered calls of one open transaction. All go to the gateway that holds it. After a lost
// reply a call is repeated there, and runs once. Owns what the loss of that gateway means: nothing
// was committed, unless a commit was on its way.
import { NoAnswerError, failure, HighwaterError, stateError } from "./errors.ts";
import { isSettled } from "./retry.ts";
import { sleep } from "./runtime.ts";
import type { Accepts, Budget, Call, CallOptions, Pin, Service, Sought } from "./service.ts";
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

/** How often a call is sent to a gateway that does not answer. */
const ATTEMPTS_MAX = 4;

/**
 * The calls of one transaction. `begin` comes first and goes to the best gateway; the others follow
 * it to the same one.
 */
export class PinnedCalls {
  readonly #service: Service;
  readonly #id: string;
  #pin: Pin | undefined;
  /** Number of the last call that ran. */
  #seq = 0;

  constructor(service: Service, id: string) {
    this.#service = service;
    this.#id = id;
  }

  get isBegun(): boolean {
    return this.#pin !== undefined;
  }

  /** Begins. Errors: typed; never with outcome `unknown`, because nothing is committed. */
  async begin(request: Omit<BeginRequest, "id">, options: CallOptions): Promise<OpenTransactionResponse> {
    const id = this.#id;
    const body = { id, ...request };
    const call = {
      pool: this.#service.deps.gateways,
      path: "/v1/transactions/begin",
      body,
      heldMs: 0,
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

  /** Runs statements. This commits nothing, so after any error the transaction is not applied. */
  statements(
    request: Omit<StatementsRequest, "seq">,
    options: CallOptions,
  ): Promise<OpenTransactionResponse> {
    return this.#run("statements", this.#call("statements", request, isOpenTransactionResponse), options);
  }

  /**
   * Rolls back, even after the client was closed. If the gateway has counted a call that this
   * client has not, the next number ends the transaction.
   */
  rollback(options: CallOptions): Promise<unknown> {
    return this.#service.run(options, { id: this.#id }, (budget) => {
      const send = (): Promise<unknown> =>
        this.#repeat(this.#call("rollback", {}, isRollbackResponse), budget);
      return send().catch((error: Partial<HighwaterError>) => {
        if (!error.open || error.code !== "out_of_sequence") throw error;
        this.#seq += 1;
        return send();
      });
    });
  }

  /**
   * Commits once. After a lost reply it repeats the commit; if the gateway is gone, it asks for the
   * state of the id. If the id is unknown, it settles the id so that the transaction never commits.
   * Errors: typed; `outcome_unknown` if time runs out and the transaction may have committed.
   */
  commit(request: Omit<CommitRequest, "seq">, options: CallOptions): Promise<TransactionResponse> {
    const call = this.#call("commit", request, isTransactionResponse);
    // Any gateway that knows the session's secret can do this.
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
      // The id is unknown, but its COMMIT may still be under way. Only a settled id never commits.
      const answer = await service.attempt(settle, budget);
      if (!(answer instanceof HighwaterError)) throw stateError(sought.id, answer.state) ?? held;
      if (isSettled(answer) && answer.open !== true) throw answer;
      await service.pause(budget, answer);
    }
  }

  #call<T>(name: string, request: Body, accepts: Accepts<T>): Call<T> {
    return {
      pool: this.#service.deps.gateways,
      path: `/v1/transactions/${this.#id}/${name}`,
      body: { seq: this.#seq + 1, ...request },
      heldMs: 0,
      accepts,
      pin: this.#pin as Pin,
    };
  }

  /**
   * Advances the number only if the call ran: a call that was refused before that has not used it.
   */
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

  /** Repeats the call until the gateway that holds the transaction answers or is gone. */
  async #repeat<T>(
    call: Call<T>,
    budget: Budget,
    onUncertain?: (budget: Budget, held: HighwaterError) => Promise<T>,
  ): Promise<T> {
    const service = this.#service;
    for (let faults = 0; ;) {
      const wasUncertain = budget.isUncertain;
      const answer = await service.attempt(call, budget);
      if (!(answer instanceof HighwaterError)) return answer;
      const { code, outcome, retry, open } = answer;
      // The call came to the wrong gateway, which says nothing about the calls before it.
      const isMisplaced = code === "wrong_gateway" || code === "transaction_not_open";
      if (isMisplaced) budget.isUncertain = wasUncertain;
      // The gateway that holds the transaction decides, but a temporary refusal is not an answer
      // yet.
      const isAnswered = isSettled(answer) || (open !== undefined && outcome === "not_applied");
      if (isAnswered && !isMisplaced && retry !== "wait") throw answer;
      const isUnreachable = isMisplaced || answer instanceof NoAnswerError;
      // A gateway that was silent for the whole attempt is asked only once more.
      if (isUnreachable) faults += code === "request_timeout" ? ATTEMPTS_MAX - 1 : 1;
      const decision = service.decide(answer, { ...call, isCommit: false }, budget);
      const isOver = decision.action !== "send" || faults >= ATTEMPTS_MAX;
      if (onUncertain && budget.isUncertain && (isOver || isMisplaced)) return onUncertain(budget, answer);
      // The COMMIT was never sent, so the transaction never commits.
      if (isOver)
        throw isUnreachable || outcome === "unknown"
          ? failure("gateway_lost", "its gateway is gone", {
              transactionId: this.#id,
              cause: answer,
              open: false,
            })
          : answer;
      await sleep(decision.delayMs, budget.signal);
    }
  }
}
