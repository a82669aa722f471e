// The client and the sessions of the main entry: the one-shot ones plus interactive transactions.
// They are separate because pages and edge workers should not load these bytes.
import { OneShotClient } from "./client.ts";
import { type Core } from "./core.ts";
import { type Row } from "./decode.ts";
import { type BeginOptions, InteractiveTransaction } from "./interactive.ts";
import { OneShotSession, type SessionOptions } from "./session.ts";
import { type LastRow, type ResultsOf, type RowOf, type StatementInput } from "./sql.ts";
import { transact, type TransactBody, type TransactOptions } from "./transact.ts";
import { type Transaction, type TransactionOptions } from "./transaction.ts";

type Statements = StatementInput | readonly StatementInput[];

/**
 * Runs transactions and tracks the durability of each. Create one client per process and share it.
 * While something waits for durability, the client keeps one event stream open; otherwise it holds
 * nothing. With `await using`, it is closed at the end of the block.
 * Errors: `invalid_options` if no address or both `url` and `endpoints` are set, or an address is
 * not an HTTP URL.
 *
 * @example
 * ```ts
 * const hw = new Highwater({ url: "https://highwater.example" });
 * const tx = await hw.transaction(
 *   sql`UPDATE account SET balance = balance - ${10} WHERE id = ${1} RETURNING balance`,
 * );
 * console.log("committed:", tx.rows);
 * await tx.durable({ level: "region", timeoutMs: 5_000 });
 * console.log("durable");
 * await hw.close();
 * ```
 */
export class Highwater extends OneShotClient {
  override transaction<const S extends readonly StatementInput[]>(
    statements: S,
    options?: TransactionOptions,
  ): Promise<Transaction<LastRow<S>, ResultsOf<S>>>;
  override transaction<R = Row>(
    statements: StatementInput<R> | readonly StatementInput[],
    options?: TransactionOptions,
  ): Promise<Transaction<RowOf<R>>>;
  override transaction<T>(body: TransactBody<T>, options?: TransactOptions): Promise<T>;
  override transaction(work: Statements | TransactBody<unknown>, options = {}): Promise<unknown> {
    return typeof work === "function" ? this.transact(work, options) : super.transaction(work, options);
  }

  /**
   * Returns an interactive transaction. Sends nothing: the first statements open the transaction.
   * Prefer one-shot transactions where they suffice, because an open transaction holds locks and a
   * database session.
   * Errors: `client_closed`.
   */
  async begin(options: BeginOptions = {}): Promise<InteractiveTransaction> {
    this.core.service.checkOpen();
    return new InteractiveTransaction(this.core, options);
  }

  /**
   * Runs the body as one transaction and commits when the body returns. If a conflict undoes a run,
   * `transact` runs the body again under a new id, after a random delay: at most `maxAttempts`
   * times, and within `timeoutMs` in total. Exactly one run takes effect.
   *
   * The body must not have effects elsewhere; put those in `afterDurable`. With `ack: "durable"`,
   * the call resolves once the transaction is durable, and a loss before that also causes another
   * run. Otherwise a loss rejects with `TransactionLostError`, because the service may bring the
   * transaction back. If the signal is aborted, an open
   * transaction is rolled back, and a commit that is under way may still take effect.
   * Errors: those of the body, after a rollback. `UnknownOutcomeError` if the outcome of the commit
   * was not known in time; the body is not run again. `DurabilityTimeoutError` with
   * `ack: "durable"`: the transaction has committed and is still pending. The last conflict, if
   * time or attempts run out. Otherwise those of `query` and `commit`.
   *
   * @param body Function that receives the open transaction. The call resolves with its result.
   * @example
   * ```ts
   * const left = await hw.transact(async (tx) => {
   *   const { rows } = await tx.query<{ balance: bigint }>(
   *     sql`SELECT balance FROM account WHERE id = ${1}`,
   *   );
   *   const balance = (rows[0]?.balance ?? 0n) - 10n;
   *   if (balance < 0n) throw new Error("not enough"); // rolls back
   *   await tx.query(sql`UPDATE account SET balance = ${balance} WHERE id = ${1}`);
   *   return balance;
   * });
   * console.log(left);
   * ```
   */
  transact<T>(body: TransactBody<T>, options: TransactOptions = {}): Promise<T> {
    return transact(this.core, body, options);
  }

  /**
   * Creates a session: a group of transactions that one call waits for, and that another process
   * can take over. Sends nothing.
   */
  override session(options: SessionOptions = {}): Session {
    return new Session(this, this.core, options);
  }
}

// Its base passes on whatever it is given.
// oxlint-disable-next-line typescript/no-unsafe-declaration-merging
export interface Session {
  /** Like `hw.transaction`; the session remembers the transaction. */
  transaction<const S extends readonly StatementInput[]>(
    statements: S,
    options?: TransactionOptions,
  ): Promise<Transaction<LastRow<S>, ResultsOf<S>>>;
  transaction<R = Row>(
    statements: StatementInput<R> | readonly StatementInput[],
    options?: TransactionOptions,
  ): Promise<Transaction<RowOf<R>>>;
  transaction<T>(body: TransactBody<T>, options?: TransactOptions): Promise<T>;
}

/**
 * Remembers what one line of work commits and reads: one call waits for all of it, later reads see
 * it (with `causal`), and its token hands it to another process. `Highwater.session` creates one.
 * Several sessions can share a client. A session needs no closing.
 *
 * @example
 * ```ts
 * const session = hw.session({ causal: true });
 * await session.transaction(sql`INSERT INTO note VALUES (${"hello"})`);
 * // This read sees the insert, on any node.
 * const read = await session.transaction(sql`SELECT * FROM note`, { readOnly: true });
 * console.log(read.rows.length > 0, read.served?.role);
 * const stored = session.token;
 * await session.durable({ timeoutMs: 30_000 });
 *
 * // Later, in another process:
 * for (const { verdict } of await hw.session().resume(stored))
 *   console.log(verdict); // "lost" or "broken": the transaction no longer exists
 * ```
 */
export class Session extends OneShotSession {
  readonly #hw: Highwater;

  /** @internal */
  constructor(hw: Highwater, core: Core, options: SessionOptions) {
    super(hw, core, options);
    this.#hw = hw;
  }

  /** Like `hw.begin`; the session remembers the transaction once it has committed. */
  begin(options: BeginOptions = {}): Promise<InteractiveTransaction> {
    return this.#hw.begin({ ...options, remember: this.remember });
  }

  /** Like `hw.transact`; the session remembers the transaction. */
  transact<T>(body: TransactBody<T>, options: TransactOptions = {}): Promise<T> {
    return this.transaction(body, options);
  }
}
