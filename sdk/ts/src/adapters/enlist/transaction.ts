// A transaction that the application committed on its own connection, and its promise. The token
// comes from the gateway a little after COMMIT's answer; nothing waits for it before it is needed.
import {
  type DurableOptions,
  HighwaterError,
  type LostListener,
  type TokenVerdict,
  type Transaction,
  TransactionLostError,
} from "../../index.ts";
import { callUser, DURABLE_TIMEOUT_MS, monotonicMs, within } from "../../runtime.ts";
import { abortedWait, lateToken } from "./outcomes.ts";
import { type TicketService, type Issued } from "./ticket-service.ts";

/** A transaction that has committed on the application's own connection. */
export class EnlistedTransaction {
  /** Transaction id, a UUIDv7. */
  readonly id: string;
  readonly #service: TicketService;
  readonly #ticket: Issued;
  #asked: Promise<Transaction> | undefined;

  /** @internal */
  constructor(service: TicketService, ticket: Issued, known?: Transaction) {
    this.id = ticket.id;
    this.#service = service;
    this.#ticket = ticket;
    if (known) this.#asked = Promise.resolve(known);
    else this.promise().catch(() => undefined);
  }

  /**
   * The transaction with its token. Resolves when the gateway has found its receipt and read a
   * position behind it. Errors: `TransactionLostError` if a failover discarded it before;
   * `UnavailableError` if no gateway answers in the client's `totalTimeoutMs`; ask again then. Its
   * outcome is `applied`, because the server has answered COMMIT.
   */
  promise(): Promise<Transaction> {
    this.#asked ??= this.#service.committed(this.#ticket, true).catch((cause: unknown) => {
      if (!isOver(cause)) this.#asked = undefined;
      // The server had answered COMMIT: without a receipt in the current history it is lost.
      throw isOver(cause) ? lost(this.id, this.#service.level, cause) : cause;
    });
    return this.#asked;
  }

  /**
   * Like `Transaction.durable`. `timeoutMs` and `signal` also limit the wait for the token; without
   * a token the `DurabilityTimeoutError` has an empty one. Errors: those of `promise` too.
   */
  async durable(options: DurableOptions = {}): Promise<TokenVerdict> {
    const { level = this.#service.level, timeoutMs = DURABLE_TIMEOUT_MS, signal } = options;
    const untilMs = monotonicMs() + timeoutMs;
    const transaction = await within(this.promise(), timeoutMs, signal, (isAborted) =>
      isAborted ? abortedWait(this.id, signal?.reason) : lateToken(this.id, level),
    );
    return transaction.durable({ ...options, timeoutMs: Math.max(0, untilMs - monotonicMs()) });
  }

  /** Like `Transaction.afterDurable`. */
  async afterDurable<T>(
    run: (verdict: TokenVerdict) => T | Promise<T>,
    options: DurableOptions = {},
  ): Promise<T> {
    return run(await this.durable(options));
  }

  /**
   * Like `Transaction.onLost`. A transaction that was lost before it had a token has no verdict of
   * a tracker: the listener then gets the rule `client:no_receipt`, and no token.
   */
  onLost(listener: LostListener, options: { level?: string } = {}): () => void {
    let off = (): void => undefined;
    let isOff = false;
    this.promise().then(
      (transaction) => {
        if (!isOff) off = transaction.onLost(listener, options);
      },
      (cause: unknown) => {
        if (!isOff && cause instanceof TransactionLostError) callUser(() => listener(this.#verdict()));
      },
    );
    return () => {
      isOff = true;
      off();
    };
  }

  #verdict(): TokenVerdict {
    const { id, epoch } = this.#ticket;
    const about = { verdict: "lost", level: this.#service.level, rule: "client:no_receipt" } as const;
    return { id, token: "", position: { epoch, offset: "0" }, ...about };
  }
}

function isOver(cause: unknown): cause is HighwaterError {
  return cause instanceof HighwaterError && /^transaction_(lost|aborted)$/.test(cause.code);
}

function lost(id: string, level: string, cause: HighwaterError): TransactionLostError {
  const about = { outcome: "not_applied", retry: "transaction", transactionId: id, level } as const;
  const message = "the transaction was committed, and a failure discarded it: run it again";
  return new TransactionLostError(message, { code: "transaction_lost", ...about, cause });
}
