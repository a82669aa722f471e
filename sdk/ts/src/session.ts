// A session: what one line of work has committed or read, so that all of it can be waited for at once, be seen by its later
// reads, and be asked about by the process that comes after this one.
import { type Entry } from "./book.ts";
import { failure, type HighwaterError } from "./errors.ts";
import type { BeginOptions, InteractiveTransaction } from "./interactive.ts";
import { type DurableOptions, DURABLE_TIMEOUT_MS } from "./promise.ts";
import { type StatementInput } from "./sql.ts";
import type { TransactBody, TransactOptions } from "./transact.ts";
import { type Transaction, type TransactionOptions } from "./transaction.ts";
import { type Watcher } from "./watcher.ts";
import { type RefusedToken, type TokenVerdict } from "./wire.ts";

type Remember = (transaction: Transaction) => void;

/** Of `Highwater.session`. */
export interface SessionOptions {
  /** Its `readOnly` transactions see everything that it has committed or read before: `after` is filled in. False unless given. */
  readonly causal?: boolean;
}

/** Of `Session.resume`. */
export interface ResumeOptions {
  /** The level to judge at; the client's unless given. */
  readonly level?: string;
  /** How long a tracker holds its answer while a verdict is pending, in milliseconds; 0 unless given, a minute at most. */
  readonly waitMs?: number;
  /** Ends the question, and rejects with its reason. */
  readonly signal?: AbortSignal;
}

/** @internal */
export interface SessionDeps {
  readonly watcher: Watcher;
  readonly level: string;
  readonly transaction: (
    statements: StatementInput | readonly StatementInput[],
    options: TransactionOptions,
  ) => Promise<Transaction>;
  readonly begin: (options: BeginOptions, remember: Remember) => Promise<InteractiveTransaction>;
  readonly transact: <T>(body: TransactBody<T>, options: TransactOptions, remember: Remember) => Promise<T>;
  readonly verdicts: (
    tokens: readonly string[],
    options: ResumeOptions,
  ) => Promise<(TokenVerdict | RefusedToken)[]>;
  readonly entry: (token: string) => Entry;
}

/**
 * Promises that a session remembers one by one. Beyond, it keeps of those that are durable at the client's level only
 * the furthest of each epoch, which stands for the others at stronger levels.
 */
const REMEMBERED_MAX = 10_000;
const TOKEN_PREFIX = "hws1";

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
export class Session {
  readonly #deps: SessionDeps;
  readonly #options: SessionOptions;
  readonly #entries = new Set<Entry>();
  /** The furthest of the newest epoch: who sees it, sees all before it. */
  #latest: Entry | undefined;
  #rememberedMax = REMEMBERED_MAX;
  readonly #remember: Remember = ({ entry }) => {
    this.#add(entry);
  };

  /** @internal */
  constructor(deps: SessionDeps, options: SessionOptions) {
    this.#deps = deps;
    this.#options = options;
  }

  /** Like `hw.transaction`, and remembered by this session. */
  async transaction(
    statements: StatementInput | readonly StatementInput[],
    options: TransactionOptions = {},
  ): Promise<Transaction> {
    const after = this.#latest?.token;
    const isCausal = this.#options.causal === true && options.readOnly === true && after !== undefined;
    const transaction = await this.#deps.transaction(statements, isCausal ? { after, ...options } : options);
    this.#remember(transaction);
    return transaction;
  }

  /** Like `hw.begin`; remembered once it is committed. */
  begin(options: BeginOptions = {}): Promise<InteractiveTransaction> {
    return this.#deps.begin(options, this.#remember);
  }

  /** Like `hw.transact`, and remembered by this session. */
  transact<T>(body: TransactBody<T>, options: TransactOptions = {}): Promise<T> {
    return this.#deps.transact(body, options, this.#remember);
  }

  /**
   * Waits until everything this session has committed or read so far is durable at the level. With nothing to wait
   * for it resolves at once. What is committed meanwhile is not waited for.
   * Errors: as `DurabilityPromise.durable`. A transaction that is reported lost or broken is then forgotten: the
   * next call is about the others.
   */
  async durable(options: DurableOptions = {}): Promise<void> {
    const { level = this.#deps.level, timeout: timeoutMs = DURABLE_TIMEOUT_MS, signal } = options;
    const entries = [...this.#entries];
    try {
      await this.#deps.watcher.wait(entries, { level, timeoutMs, signal });
    } catch (error) {
      const { verdict } = error as Partial<HighwaterError>;
      if (verdict && /lost|broken/.test(verdict.verdict))
        for (const entry of entries) if (entry.token === verdict.token) this.#entries.delete(entry);
      throw error;
    }
  }

  /**
   * All that this session remembers, as text for another process. It holds the token of every transaction that is not known to
   * be durable at the client's level, and of those that are, the furthest of each epoch; so it stays short where work becomes
   * durable as it goes. Store it with, or before, what depends on it.
   */
  get token(): string {
    this.#compact();
    return [TOKEN_PREFIX, ...[...this.#entries].map((entry) => entry.token)].join(".");
  }

  /**
   * Takes over the session that the token is of, and says what became of each transaction in it, in the order of their answers:
   * `durable` and `pending` ones exist (the latter may yet be lost), and are remembered from here on; `lost` and `broken` ones
   * are gone. One that `durable` stands for is not listed by itself.
   * Errors: `invalid_token`, where it is none of a session; those of `hw.verdicts`.
   *
   * @param token What `Session.token` was.
   */
  async resume(token: string, options: ResumeOptions = {}): Promise<(TokenVerdict | RefusedToken)[]> {
    const [prefix, ...tokens] = token.split(".");
    if (prefix !== TOKEN_PREFIX) throw failure("invalid_token", "not a token of a session");
    const entries = tokens.map((each) => this.#deps.entry(each));
    const verdicts = tokens.length === 0 ? [] : await this.#deps.verdicts(tokens, options);
    for (const [at, verdict] of verdicts.entries()) {
      const entry = entries[at];
      if (entry && /durable|pending/.test(verdict.verdict)) this.#add(entry);
    }
    return verdicts;
  }

  #add(entry: Entry): void {
    this.#entries.add(entry);
    const { place } = this.#latest ?? entry;
    if (place.epoch !== entry.place.epoch || place.offset <= entry.place.offset) this.#latest = entry;
    if (this.#entries.size <= this.#rememberedMax) return;
    this.#compact();
    // What is left may be pending for long: not every further one is a reason to look through all of them.
    this.#rememberedMax = Math.max(REMEMBERED_MAX, 2 * this.#entries.size);
  }

  #compact(): void {
    const furthest = new Map<string, Entry>();
    for (const entry of this.#entries) {
      if (this.#deps.watcher.book.known(entry, this.#deps.level)?.verdict !== "durable") continue;
      const { epoch, offset } = entry.place;
      const other = furthest.get(epoch) ?? entry;
      const [near, far] = offset > other.place.offset ? [other, entry] : [entry, other];
      if (near !== far) this.#entries.delete(near);
      furthest.set(epoch, far);
    }
  }
}
