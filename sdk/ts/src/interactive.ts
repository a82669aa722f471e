// An interactive transaction as the user holds it: one call at a time, begun with the first of them, and ended in one of
// four ways. Owns its state; what a call means on the wire is the business of `pinned.ts`.
import { type Core } from "./core.ts";
import { type Row, type StatementResult } from "./decode.ts";
import { AbortError, abortError, endError, failure, HighwaterError } from "./errors.ts";
import { newTransactionId } from "./ids.ts";
import { PinnedCalls } from "./pinned.ts";
import { type DurableOptions } from "./promise.ts";
import { within } from "./runtime.ts";
import { sql, type StatementInput, toStatement } from "./sql.ts";
import {
  acknowledgement,
  type AckOptions,
  type CallOptions,
  executionFields,
  type ExecutionOptions,
  type Remember,
  type Transaction,
} from "./transaction.ts";
import { type TokenVerdict } from "./wire.ts";

/** Of an interactive transaction. `timeout` (milliseconds) and `signal` are for each of its calls, unless the call has its own. */
export interface BeginOptions extends CallOptions, ExecutionOptions {
  /** Default of the commit's level. Default of this one: the client's. */
  readonly level?: string;
  /** @internal The time that is left for a call that has none of its own. */
  readonly leftMs?: () => number;
  /** @internal Gets the commit. */
  readonly remember?: Remember | undefined;
}

/** Of the commit of an interactive transaction. */
export interface CommitOptions extends CallOptions, AckOptions {
  /** Run before the commit, in the same round trip; their results are those of the committed transaction. */
  readonly statements?: readonly StatementInput[];
}

/**
 * A transaction that is open. Nothing is sent before its first statements: they ride on the begin, so that a transaction of
 * n calls costs n + 1 round trips, and one whose statements all go with `commit` costs a single one.
 * Calls made at the same time run one after another. With `await using` it is rolled back where it is left open. Made by
 * `Highwater.begin`, and given to the body of `Highwater.transact`.
 *
 * @example
 * ```ts
 * await using tx = await hw.begin({ isolation: "read committed" });
 * const { rows } = await tx.query<{ balance: bigint }>(sql`SELECT balance FROM account WHERE id = ${1} FOR UPDATE`);
 * console.log(rows[0]?.balance);
 * const committed = await tx.commit({ statements: [sql`UPDATE account SET balance = balance - 10 WHERE id = 1`] });
 * await committed.durable({ level: "region" });
 * ```
 */
export class InteractiveTransaction {
  /** A UUIDv7; the committed transaction has the same. */
  readonly id: string = newTransactionId();
  readonly #core: Core;
  readonly #options: BeginOptions;
  readonly #calls: PinnedCalls;
  #queue: Promise<unknown> = Promise.resolve();
  #isOpen = true;
  #failure: Error | undefined;
  #committed: Transaction | undefined;
  #expiresAt: Date | undefined;

  /** @internal */
  constructor(core: Core, options: BeginOptions) {
    this.#core = core;
    this.#options = options;
    this.#calls = new PinnedCalls(core.service, this.id);
  }

  /** False once it was committed, rolled back, or ended by an error. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** When the service rolls it back unless another call comes before; by the service's clock. Unknown before the first call. */
  get expiresAt(): Date | undefined {
    return this.#expiresAt;
  }

  /** The committed transaction; undefined before the commit. */
  get committed(): Transaction | undefined {
    return this.#committed;
  }

  /** The error that ended it; undefined while it is open, and when it was committed or rolled back. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  /**
   * Runs one statement. After one that failed, only ROLLBACK TO a savepoint or `rollback()` helps, as in PostgreSQL; if the
   * first statement fails, or a conflict is met, the transaction is over.
   * When the call's time is over or its signal is aborted, the transaction is over too, and what it did is not committed.
   * Errors: `StatementError` and below; `TransactionAbortedError`: `transaction_expired` when too long nothing was called,
   * `gateway_lost` when what had it is gone; `transaction_ended` for a call behind the end; `AbortError`.
   *
   * @param statement Made by `sql`, or spelled out.
   */
  async query<R = Row>(statement: StatementInput, options: CallOptions = {}): Promise<StatementResult<R>> {
    const [result] = await this.execute([statement], options);
    return result as StatementResult<R>;
  }

  /**
   * Runs statements in one round trip, in their order, up to the first that fails.
   * Errors: as `query`; `statement` is the index of the one at fault.
   *
   * @param statements Made by `sql`, or spelled out.
   */
  execute(
    statements: readonly StatementInput[],
    options: CallOptions = {},
  ): Promise<readonly StatementResult[]> {
    return this.#call(options, async (call) => {
      const request = { statements: statements.map(toStatement) };
      const answer = this.#calls.isBegun
        ? await this.#calls.statements(request, call)
        : await this.#calls.begin({ ...request, ...executionFields(this.#options) }, call);
      this.#expiresAt = new Date(answer.expiresAt);
      this.#core.watcher.learnMarks(answer.marks);
      return answer.results.map(this.#core.decode);
    });
  }

  /**
   * Commits, and with `ack: "durable"` waits at the service. A lost answer is resolved: it never commits twice, nor under
   * another id. `exposure_limit` leaves the transaction open: commit again, or roll back. Where it has committed before, it resolves
   * with the same transaction.
   * Errors: `UnknownOutcomeError` when the outcome is not known in time; else those of `query`.
   * After an `AbortError` it may have committed: `Highwater.status` of the id shows it.
   */
  commit(options: CommitOptions = {}): Promise<Transaction> {
    const { statements = [], ...given } = { ...this.#options, ...options };
    const { level = this.#core.level } = given;
    if (this.#committed) return Promise.resolve(this.#committed);
    return this.#call(options, async (call) => {
      let committed: Transaction;
      if (this.#calls.isBegun) {
        const request = {
          ...acknowledgement(options, { ...this.#core, level, totalMs: call.timeout }),
          ...(statements.length > 0 && { statements: statements.map(toStatement) }),
        };
        const response = await this.#calls.commit(request, call);
        committed = this.#core.committed(response, level, given);
      } else {
        // Nothing was sent yet: all of it is one request.
        const own = { ...given, ...call, id: this.id };
        committed = await this.#core.transaction(statements.length > 0 ? statements : [sql`SELECT`], own);
      }
      this.#isOpen = false;
      return (this.#committed = committed);
    });
  }

  /**
   * Rolls back. Resolves also where the service cannot be reached: it will never commit, and it
   * ends by itself at `expiresAt`. On a transaction that has ended it does nothing; on a committed
   * one it rejects.
   * Errors: `transaction_ended` after a commit; `AbortError`.
   */
  rollback({ timeout = this.#core.totalMs, signal }: CallOptions = {}): Promise<void> {
    return this.#inTurn({ timeout, ...(signal && { signal }) }, async (call) => {
      if (this.#committed) throw ended();
      if (!this.#isOpen) return;
      this.#isOpen = false;
      if (this.#calls.isBegun) await this.#calls.rollback(call).catch(() => undefined);
      if (signal?.aborted) throw abortError(signal.reason, "not_applied", this.id);
    });
  }

  /** As `Transaction.durable`, once it is committed. Errors: `not_committed` before. */
  async durable(options: DurableOptions = {}): Promise<TokenVerdict> {
    if (!this.#committed) throw failure("not_committed", "call `await tx.commit()` before `durable()`");
    return this.#committed.durable(options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#queue;
    if (this.#isOpen) await this.rollback();
  }

  /** One call after another; an error that ends the transaction is kept as its reason. */
  #call<T>(options: CallOptions, run: (call: TimedCall) => Promise<T>): Promise<T> {
    const { leftMs, timeout: ownMs = this.#core.totalMs, signal: ownSignal } = this.#options;
    const { timeout: callMs = leftMs?.() ?? ownMs, signal = ownSignal } = options;
    return this.#inTurn({ timeout: callMs, ...(signal && { signal }) }, async (call) => {
      if (!this.#isOpen) throw ended(this.#failure);
      try {
        return await run(call);
      } catch (error) {
        if (!isStillOpen(error, this.#calls.isBegun)) {
          this.#isOpen = false;
          this.#failure = error as Error;
        }
        throw error;
      }
    });
  }

  /** Behind the calls that were made before, which is part of its time: if that is over, or the signal ends it, nothing is sent. */
  #inTurn<T>(call: TimedCall, run: (call: TimedCall) => Promise<T>): Promise<T> {
    const { monotonicMs } = this.#core;
    const { timeout, signal } = call;
    const untilMs = monotonicMs() + timeout;
    const before = this.#queue;
    const turn = within(before, timeout, signal, (isAborted) =>
      endError(isAborted, signal, "not_applied", this.id),
    );
    const called = turn.then(() => run({ ...call, timeout: untilMs - monotonicMs() }));
    this.#queue = Promise.allSettled([before, called]);
    return called;
  }
}

interface TimedCall extends CallOptions {
  readonly timeout: number;
}

function ended(cause?: Error): HighwaterError {
  return failure("transaction_ended", "the transaction has ended: begin another one", { cause });
}

/** Whether the transaction goes on after the error: the service says so, or has refused the call unseen. */
function isStillOpen(error: unknown, isBegun: boolean): boolean {
  if (!(error instanceof HighwaterError) || error instanceof AbortError) return false;
  if (error.open !== undefined) return error.open;
  if (error.code === "invalid_parameter") return true;
  return isBegun && error.retry === "never" && error.outcome === "not_applied";
}
