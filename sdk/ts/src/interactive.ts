// An interactive transaction as the application holds it: calls run one at a time, the first one
// begins it, and it ends in one of four ways. Owns its state; `pinned.ts` maps its calls to
// requests.
import { type Core } from "./core.ts";
import { type Row, type StatementResult } from "./decode.ts";
import { AbortError, abortError, endError, failure, HighwaterError } from "./errors.ts";
import { newTransactionId } from "./ids.ts";
import { PinnedCalls } from "./pinned.ts";
import { type DurableOptions } from "./promise.ts";
import { monotonicMs, within } from "./runtime.ts";
import { type ResultsOf, type RowOf, sql, type StatementInput, toStatement } from "./sql.ts";
import {
  acknowledged,
  acknowledgement,
  type AckOptions,
  type CallOptions,
  executionFields,
  type ExecutionOptions,
  type Remember,
  type Transaction,
  type TransactionOptions,
} from "./transaction.ts";
import { type Outcome, type TokenVerdict } from "./wire.ts";

/**
 * Options of an interactive transaction. `timeoutMs` (milliseconds) and `signal` apply to each call
 * that sets none.
 */
export interface BeginOptions extends CallOptions, ExecutionOptions {
  /** Default level of the commit. Default: the client's. */
  readonly level?: string;
  /** @internal Milliseconds that are left for a call without a time limit of its own. */
  readonly leftMs?: () => number;
  /** @internal Called with the committed transaction. */
  readonly remember?: Remember | undefined;
}

/** Options of the commit of an interactive transaction. */
export interface CommitOptions extends CallOptions, AckOptions {
  /** Statements to run before the commit, in its round trip. The transaction has their results. */
  readonly statements?: readonly StatementInput[];
}

/**
 * An open transaction. Nothing is sent before its first statements, which travel with the begin. A
 * transaction of n calls therefore costs n + 1 round trips, and one whose statements all go with
 * `commit` costs a single one. Concurrent calls run one after another. With `await using`, a
 * transaction that is still open is rolled back at the end of the block. `Highwater.begin` returns
 * one, and the body of `Highwater.transact` receives one.
 *
 * @example
 * ```ts
 * await using tx = await hw.begin({ isolation: "read committed" });
 * const { rows } = await tx.query<{ balance: bigint }>(
 *   sql`SELECT balance FROM account WHERE id = ${1} FOR UPDATE`,
 * );
 * console.log(rows[0]?.balance);
 * const update = sql`UPDATE account SET balance = balance - 10 WHERE id = 1`;
 * const committed = await tx.commit({ statements: [update] });
 * await committed.durable({ level: "region" });
 * ```
 */
export class InteractiveTransaction {
  /** Transaction id, a UUIDv7. The committed transaction has the same id. */
  readonly id: string = newTransactionId();
  readonly #core: Core;
  readonly #options: BeginOptions;
  readonly #calls: PinnedCalls;
  #queue: Promise<unknown> = Promise.resolve();
  #isOpen = true;
  #failure: Error | undefined;
  #committed: Transaction | undefined;
  /** Of the transaction, once it has ended. */
  #outcome: Outcome = "not_applied";
  /** Commits that run or wait for their turn. */
  #commits = 0;
  #expiresAt: Date | undefined;

  /** @internal */
  constructor(core: Core, options: BeginOptions) {
    this.#core = core;
    this.#options = options;
    this.#calls = new PinnedCalls(core.service, this.id);
  }

  /**
   * Whether the transaction is open: false after a commit, a rollback, or an error that ended it.
   */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /**
   * When the service rolls the transaction back if no other call comes before, by the service's
   * clock. Undefined before the first call.
   */
  get expiresAt(): Date | undefined {
    return this.#expiresAt;
  }

  /** The committed transaction; undefined before the commit. */
  get committed(): Transaction | undefined {
    return this.#committed;
  }

  /** The error that ended the transaction; undefined if it is open, committed or rolled back. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  /**
   * Runs one statement. After a failed statement, only ROLLBACK TO a savepoint or `rollback()`
   * works, as in PostgreSQL. If the first statement fails, or there is a conflict, the transaction
   * is over. If the call times out or its signal is aborted, the transaction is over too, and
   * nothing is committed.
   * Errors: `StatementError` or a subclass. `TransactionAbortedError` with code
   * `transaction_expired` if no call came for too long, or `gateway_lost` if the transaction's
   * gateway is gone. `transaction_ended` if the transaction had already ended. `AbortError`.
   *
   * @param statement Statement made by `sql`, or an object with `sql` and `params`.
   */
  async query<R = Row>(
    statement: StatementInput<R>,
    options: CallOptions = {},
  ): Promise<StatementResult<RowOf<R>>> {
    const [result] = await this.execute([statement], options);
    return result as StatementResult<RowOf<R>>;
  }

  /**
   * Runs statements in one round trip, in order, up to the first that fails.
   * Errors: those of `query`; `statement` is the index of the failed statement.
   *
   * @param statements Statements made by `sql`, or objects with `sql` and `params`.
   */
  execute<const S extends readonly StatementInput[]>(
    statements: S,
    options: CallOptions = {},
  ): Promise<ResultsOf<S>> {
    return this.#call(options, async (call) => {
      const request = { statements: statements.map(toStatement) };
      const answer = this.#calls.isBegun
        ? await this.#calls.statements(request, call)
        : await this.#calls.begin({ ...request, ...executionFields(this.#options) }, call);
      this.#expiresAt = new Date(answer.expiresAt);
      this.#core.watcher.learnMarks(answer.marks);
      return answer.results.map(this.#core.decode) as ResultsOf<S>;
    });
  }

  /**
   * Commits the transaction. With `ack: "durable"`, resolves once it is durable. After a lost
   * answer the client finds out the outcome: the transaction never commits twice, nor under another
   * id. After `exposure_limit` the transaction is still open: commit again, or roll back. If the
   * transaction has already committed, the call resolves with the same `Transaction`, and waits for
   * it as `ack` says.
   * Errors: `UnknownOutcomeError` if the outcome is not known in time. With `ack: "durable"`, those
   * of `Transaction.durable`. Otherwise those of `query`. After an `AbortError` the transaction may
   * have committed: look up its id with `Highwater.status`.
   */
  async commit<R = Row>(options: CommitOptions = {}): Promise<Transaction<R>> {
    const untilMs = monotonicMs() + this.#limitMs(options);
    const { statements = [], ...given } = { ...this.#options, ...options };
    const { level = this.#core.level } = given;
    const run = async (call: TimedCall): Promise<Transaction> => {
      let committed: Transaction;
      if (this.#calls.isBegun) {
        const request = {
          ...acknowledgement(options, { ...this.#core, level, totalMs: call.timeoutMs }),
          ...(statements.length > 0 && { statements: statements.map(toStatement) }),
        };
        const response = await this.#calls.commit(request, call);
        committed = this.#core.committed(response, level, given);
      } else {
        // Nothing was sent yet: the whole transaction is one request.
        const own = { ...given, ...call, id: this.id } as TransactionOptions;
        committed = await this.#core.transaction(statements.length > 0 ? statements : [sql`SELECT`], own);
      }
      this.#isOpen = false;
      this.#outcome = "applied";
      return (this.#committed = committed);
    };
    const called = this.#call(options, run, () => this.#committed);
    this.#commits += 1;
    const committed = await called.finally(() => (this.#commits -= 1));
    return acknowledged(committed as Transaction<R>, given, untilMs);
  }

  /** The time limit of a call. */
  #limitMs({ timeoutMs }: CallOptions): number {
    const { leftMs, timeoutMs: ownMs = this.#core.totalMs } = this.#options;
    return timeoutMs ?? leftMs?.() ?? ownMs;
  }

  /**
   * Rolls the transaction back. Also resolves if the service cannot be reached: the transaction
   * will never commit, and it ends by itself at `expiresAt`. Does nothing if the transaction has
   * ended; rejects if it has committed.
   * Errors: `transaction_ended` after a commit. `AbortError`.
   */
  rollback({ timeoutMs = this.#core.totalMs, signal }: CallOptions = {}): Promise<void> {
    return this.#inTurn({ timeoutMs, signal }, async (call) => {
      if (this.#committed) throw this.#ended();
      if (!this.#isOpen) return;
      this.#isOpen = false;
      if (this.#calls.isBegun) await this.#calls.rollback(call).catch(() => undefined);
      if (signal?.aborted) throw abortError(signal.reason, "not_applied", this.id);
    });
  }

  /** Like `Transaction.durable`, after the commit. Errors: `not_committed` before the commit. */
  async durable(options: DurableOptions = {}): Promise<TokenVerdict> {
    if (!this.#committed) throw failure("not_committed", "commit first");
    return this.#committed.durable(options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#queue;
    if (this.#isOpen) await this.rollback();
  }

  #ended(): HighwaterError {
    const outcome = this.#outcome;
    return failure("transaction_ended", "it has ended: begin a new one", {
      outcome,
      ...(outcome === "unknown" && { retry: "resolve_outcome", transactionId: this.id }),
      cause: this.#failure,
    });
  }

  /**
   * Runs calls one after another, and keeps the error that ends the transaction as its failure.
   * `committed`, of a commit, is what an earlier one has committed.
   */
  #call<T>(
    options: CallOptions,
    run: (call: TimedCall) => Promise<T>,
    committed?: () => T | undefined,
  ): Promise<T> {
    const { signal = this.#options.signal } = options;
    // The answer to a repeated commit is there: nothing ends the call before it.
    const ender = committed?.() ? undefined : signal;
    return this.#inTurn({ timeoutMs: this.#limitMs(options), signal: ender }, async (call) => {
      const found = committed?.();
      if (found) return found;
      if (!this.#isOpen) throw this.#ended();
      try {
        return await run(call);
      } catch (error) {
        if (!isStillOpen(error, this.#calls.isBegun)) {
          this.#isOpen = false;
          this.#failure = error as Error;
          const other = committed ? "unknown" : "not_applied";
          this.#outcome = error instanceof HighwaterError ? error.outcome : other;
        }
        throw error;
      }
    });
  }

  /**
   * Waits for the calls that were made before, which counts towards the call's time limit. If it
   * times out or its signal is aborted in the meantime, nothing is sent.
   */
  #inTurn<T>(call: TimedCall, run: (call: TimedCall) => Promise<T>): Promise<T> {
    const { timeoutMs, signal } = call;
    const untilMs = monotonicMs() + timeoutMs;
    const before = this.#queue;
    const outcome = this.#commits > 0 ? "unknown" : this.#outcome;
    const turn = within(before, timeoutMs, signal, (isAborted) =>
      endError(isAborted, signal, outcome, this.id),
    );
    const called = turn.then(() => run({ ...call, timeoutMs: untilMs - monotonicMs() }));
    this.#queue = Promise.allSettled([before, called]);
    return called;
  }
}

interface TimedCall {
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
}

/**
 * Whether the transaction is open after the error: the service says so, or did not run the call.
 */
function isStillOpen(error: unknown, isBegun: boolean): boolean {
  if (!(error instanceof HighwaterError) || error instanceof AbortError) return false;
  if (error.open !== undefined) return error.open;
  if (error.code === "invalid_parameter") return true;
  return isBegun && error.retry === "never" && error.outcome === "not_applied";
}
