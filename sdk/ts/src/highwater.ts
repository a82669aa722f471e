// The client of the main entry, and its sessions: the one-shot client, and interactive transactions on top. Apart from it, because
// a page or an edge worker has better use for their bytes.
import { OneShotClient } from "./client.ts";
import { type Core } from "./core.ts";
import { type BeginOptions, InteractiveTransaction } from "./interactive.ts";
import { OneShotSession, type SessionOptions } from "./session.ts";
import { transact, type TransactBody, type TransactOptions } from "./transact.ts";

/**
 * A client: runs transactions, and knows of each whether it will survive. One is enough for a process. It holds one stream while
 * something is waited for, and else nothing. With `await using` it is closed at the end of its block.
 * Errors: `invalid_options` of the constructor, where there is no address or one is no URL.
 *
 * @example
 * ```ts
 * const hw = new Highwater({ url: "https://highwater.example" });
 * const tx = await hw.transaction(sql`UPDATE account SET balance = balance - ${10} WHERE id = ${1} RETURNING balance`);
 * console.log("committed:", tx.rows);
 * await tx.durable({ level: "region", timeout: 5_000 });
 * console.log("durable");
 * await hw.close();
 * ```
 */
export class Highwater extends OneShotClient {
  /**
   * An interactive transaction. Nothing is sent yet: its first statements open it.
   * Where one-shot transactions will do they are better: an open one holds locks and a session of the database.
   * Errors: `client_closed`.
   */
  async begin(options: BeginOptions = {}): Promise<InteractiveTransaction> {
    this.core.service.checkOpen();
    return new InteractiveTransaction(this.core, options);
  }

  /**
   * Runs the body as one transaction, and commits it when it returns. A conflict, and a loss before the answer, run it again
   * under a new id: with jitter, for `timeout` milliseconds in all, `maxAttempts` times at most. Exactly one run takes effect.
   * The body must not have effects elsewhere; those belong into `afterDurable`. With `ack: "durable"` this resolves when
   * the transaction is durable. A signal ends it: what is open then is rolled back, and a commit under way may take effect.
   * Errors: the body's own, after a rollback. `UnknownOutcomeError` if the outcome of the commit was
   * not known in time; the body did not run again. `DurabilityTimeoutError` with `ack: "durable"` if
   * it has committed and is pending. The last conflict, when time or attempts are over. Otherwise
   * those of `query` and `commit`.
   *
   * @param body Gets the open transaction; what it returns is what this resolves with.
   * @example
   * ```ts
   * const left = await hw.transact(async (tx) => {
   *   const { rows } = await tx.query<{ balance: bigint }>(sql`SELECT balance FROM account WHERE id = ${1}`);
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
   * A group of transactions that one wait covers, and that another process can take over. Nothing
   * is sent.
   */
  override session(options: SessionOptions = {}): Session {
    return new Session(this, this.core, options);
  }
}

/**
 * What one line of work commits and reads: waited for at once, seen by its later reads, handed on by its token. Made by
 * `Highwater.session`; several may share a client. It needs no closing.
 *
 * @example
 * ```ts
 * const session = hw.session({ causal: true });
 * await session.transaction(sql`INSERT INTO note VALUES (${"hello"})`);
 * const read = await session.transaction(sql`SELECT * FROM note`, { readOnly: true }); // sees it, on whatever node
 * console.log(read.rows.length > 0, read.served?.role);
 * const stored = session.token;
 * await session.durable({ timeout: 30_000 });
 *
 * // In the process that comes after this one:
 * for (const { verdict } of await hw.session().resume(stored)) console.log(verdict); // "lost" or "broken": it is gone
 * ```
 */
export class Session extends OneShotSession {
  readonly #hw: Highwater;

  /** @internal */
  constructor(hw: Highwater, core: Core, options: SessionOptions) {
    super(hw, core, options);
    this.#hw = hw;
  }

  /** Like `hw.begin`; remembered once it is committed. */
  begin(options: BeginOptions = {}): Promise<InteractiveTransaction> {
    return this.#hw.begin({ ...options, remember: this.remember });
  }

  /** Like `hw.transact`, and remembered by this session. */
  transact<T>(body: TransactBody<T>, options: TransactOptions = {}): Promise<T> {
    return this.#hw.transact(body, { ...options, remember: this.remember });
  }
}
