// The service's side of enlisted transactions: tickets before their COMMIT, tokens behind. Requests
// are self-clocked: one on its way, and what comes meanwhile goes together in the next.
import {
  type AckOptions,
  type DurableOptions,
  type Highwater,
  HighwaterError,
  type Transaction,
} from "../../index.ts";
import {
  type Ticket,
  type TicketEnd,
  type TicketRequest,
  type TransactionResponse,
} from "../../wire-types.ts";
import { aborted, isOfTransaction, unknownOutcome, withOutcome } from "./outcomes.ts";

/** Options of `enlist`, for every transaction of the connection or pool. */
export interface EnlistOptions extends AckOptions {
  /** Metadata that webhooks and events about the transactions carry. */
  readonly metadata?: Readonly<Record<string, string>>;
}

interface Answer {
  readonly status: number;
  readonly body: unknown;
}

interface Waiting {
  readonly item: object;
  readonly resolve: (body: unknown) => void;
  readonly reject: (cause: unknown) => void;
}

const PER_REQUEST_MAX = 256;
const AGAIN_MS = 200;

class Requests {
  readonly #hw: Highwater;
  readonly #path: string;
  readonly #field: string;
  #waiting: Waiting[] = [];
  #isRunning = false;

  constructor(hw: Highwater, path: string, field: string) {
    this.#hw = hw;
    this.#path = path;
    this.#field = field;
  }

  /** Resolves to the answer's body. Errors: those of the service. */
  ask(item: object): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      if (!this.#isRunning) void this.#run();
    });
  }

  /** Without others, because its answer may take long. */
  askAlone(item: object): Promise<unknown> {
    return new Promise((resolve, reject) => {
      void this.#send([{ item, resolve, reject }]);
    });
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    // What else begins in this tick goes along.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const taken = this.#waiting.slice(0, PER_REQUEST_MAX);
      this.#waiting = this.#waiting.slice(taken.length);
      await this.#send(taken);
    }
    this.#isRunning = false;
  }

  async #send(taken: readonly Waiting[]): Promise<void> {
    const { service, gateways, answerError } = this.#hw.core;
    const body = { [this.#field]: taken.map(({ item }) => item) };
    const accepts = (answer: unknown): answer is { answers: Answer[] } =>
      (answer as { answers?: Answer[] } | null)?.answers?.length === taken.length;
    const call = { pool: gateways, path: this.#path, body, heldMs: 0, accepts };
    try {
      const { answers } = await service.read(call, {});
      for (const [at, { status, body: own }] of answers.entries())
        if (status < 300) taken[at]?.resolve(own);
        else taken[at]?.reject(answerError(status, own, undefined));
    } catch (cause) {
      for (const { reject } of taken) reject(cause);
    }
  }
}

/** What is awaited before COMMIT resolves. */
interface Acknowledged {
  readonly id: string;
  durable(options?: DurableOptions): Promise<unknown>;
}

/** What is issued for one transaction; it commits before `untilMs`, or not at all. */
export interface Issued extends Ticket {
  readonly untilMs: number;
}

export class TicketService {
  readonly #hw: Highwater;
  readonly #options: EnlistOptions;
  readonly #tickets: Requests;
  readonly #ends: Requests;

  constructor(hw: Highwater, options: EnlistOptions) {
    this.#hw = hw;
    this.#options = options;
    this.#tickets = new Requests(hw, "/v1/tickets", "transactions");
    this.#ends = new Requests(hw, "/v1/tickets/ends", "tickets");
  }

  get level(): string {
    return this.#options.level ?? this.#hw.core.level;
  }

  /**
   * Waits as `ack` says. Errors: those of the transaction. Unless `onTimeout` is `pending`, also
   * the failure to wait, such as `DurabilityTimeoutError`. Its outcome is `applied`: the server has
   * answered COMMIT.
   */
  async acknowledge(transaction: Acknowledged): Promise<void> {
    const { ack, maxWaitMs, onTimeout } = this.#options;
    if (ack !== "durable") return;
    try {
      await transaction.durable(maxWaitMs === undefined ? {} : { timeoutMs: maxWaitMs });
    } catch (cause) {
      if (isOfTransaction(cause)) throw cause;
      if (onTimeout !== "pending") throw withOutcome(cause, transaction.id, "applied");
    }
  }

  /** Errors: those of the service. Without a ticket nothing is committed. */
  async issue(id: string): Promise<Issued> {
    const { metadata, maxDelayMs } = this.#options;
    const request = { id, level: this.level, metadata, maxDelayMs } as TicketRequest;
    const askedMs = performance.now();
    try {
      const ticket = (await this.#tickets.ask(request)) as Ticket;
      return { ...ticket, untilMs: askedMs + ticket.lifeMs };
    } catch (cause) {
      throw withOutcome(cause, id, "not_applied");
    }
  }

  /** Errors: why nothing may be committed with the ticket any more. */
  check({ id, untilMs }: Issued): void {
    this.#hw.core.service.checkOpen();
    if (performance.now() > untilMs) throw aborted(id, "the ticket's time is over");
  }

  /** It will never commit. If this does not arrive, the ticket's time ends by itself. */
  withdraw({ ticket }: Ticket): void {
    const end: TicketEnd = { ticket, ended: "rollback" };
    this.#ends.ask(end).catch(() => undefined);
  }

  /**
   * The committed transaction. Errors: those of the transaction. While the service does not say how
   * it ended, after the client's `totalTimeoutMs`: `outcome_unknown`, or where COMMIT was answered
   * the last failure to ask, with the outcome `applied`.
   */
  async committed({ id, ticket }: Ticket, isAnswered: boolean): Promise<Transaction> {
    const untilMs = performance.now() + this.#hw.core.totalMs;
    const end: TicketEnd = { ticket, ended: "commit" };
    for (;;) {
      try {
        const response = await (isAnswered ? this.#ends.ask(end) : this.#ends.askAlone(end));
        return this.#hw.core.committed(response as TransactionResponse, this.level, this.#options);
      } catch (cause) {
        if (isOfTransaction(cause)) throw cause;
        const isOpen =
          cause instanceof HighwaterError && (cause.retry === "wait" || cause.retry === "resolve_outcome");
        if (!isOpen || performance.now() + AGAIN_MS > untilMs)
          throw isAnswered ? withOutcome(cause, id, "applied") : unknownOutcome(id, cause);
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      }
    }
  }
}
