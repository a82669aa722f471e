// A session: what one line of work has committed or read, so that all of it can be waited for at once, be seen by its later
// reads, and be asked about by the process that comes after this one.
import { type PendingPromise } from "./pending-set.ts";
import { type Core } from "./core.ts";
import { failure, type HighwaterError } from "./errors.ts";
import { type DurabilityPromise, type DurableOptions } from "./promise.ts";
import { type StatementInput } from "./sql.ts";
import { type Transaction, type TransactionOptions } from "./transaction.ts";
import { type RefusedToken, type TokenVerdict } from "./wire.ts";

/** Of `Highwater.session`. */
export interface SessionOptions {
  /**
   * Its `readOnly` transactions see everything that it has committed or read before: `after` is
   * filled in. Default: false.
   */
  readonly causal?: boolean;
}

/** Of `Session.resume`. */
export interface ResumeOptions {
  /** The level to judge at. Default: the client's. */
  readonly level?: string;
  /**
   * How long a tracker holds its answer while a verdict is pending, in milliseconds; a minute at
   * most. Default: 0.
   */
  readonly waitMs?: number;
  /**
   * For the whole question, in milliseconds. Default: the client's `totalTimeoutMs`, and `waitMs`
   * on top.
   */
  readonly timeout?: number;
  /** Ends the question. */
  readonly signal?: AbortSignal;
}

/** @internal The client, as its sessions use it. */
interface SessionClient {
  transaction(
    statements: StatementInput | readonly StatementInput[],
    options: TransactionOptions,
  ): Promise<Transaction>;
  promise(token: string): DurabilityPromise;
  verdicts(tokens: readonly string[], options: ResumeOptions): Promise<(TokenVerdict | RefusedToken)[]>;
}

/**
 * Promises that a session remembers one by one. Beyond, it keeps of those that are durable at the client's level only
 * the furthest of each epoch, which stands for the others at stronger levels.
 */
const REMEMBERED_MAX = 10_000;
const TOKEN_PREFIX = "hws1";

/** A session of one-shot transactions: what every session is made of. */
export class OneShotSession {
  readonly #hw: SessionClient;
  readonly #core: Core;
  readonly #options: SessionOptions;
  /** By token. */
  readonly #entries = new Map<string, PendingPromise>();
  /** The furthest of the newest epoch: who sees it, sees all before it. */
  #latest: PendingPromise | undefined;
  #rememberedMax = REMEMBERED_MAX;
  /** @internal */
  readonly remember = ({ entry }: Transaction): void => {
    this.#add(entry);
  };

  /** @internal */
  constructor(hw: SessionClient, core: Core, options: SessionOptions) {
    this.#hw = hw;
    this.#core = core;
    this.#options = options;
  }

  /** Like `hw.transaction`, and remembered by this session. */
  async transaction(
    statements: StatementInput | readonly StatementInput[],
    options: TransactionOptions = {},
  ): Promise<Transaction> {
    const after = this.#latest?.token;
    const isCausal = this.#options.causal && options.readOnly && after;
    return this.#hw.transaction(statements, {
      ...(isCausal && { after }),
      ...options,
      remember: this.remember,
    });
  }

  /**
   * Waits until everything this session has committed or read so far is durable at the level. With
   * nothing to wait for it resolves at once. It does not wait for later commits.
   * Errors: as `DurabilityPromise.durable`. A transaction that is reported lost or broken is then forgotten: the
   * next call is about the others.
   */
  async durable(options: DurableOptions = {}): Promise<void> {
    const entries = [...this.#entries.values()];
    try {
      await this.#core.watcher.wait(entries, options, this.#core.level);
    } catch (error) {
      const { verdict } = error as Partial<HighwaterError>;
      if (verdict && /lost|broken/.test(verdict.verdict)) this.#entries.delete(verdict.token);
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
    return [TOKEN_PREFIX, ...this.#entries.keys()].join(".");
  }

  /**
   * Takes over the token's session, and returns the verdict on each transaction in it, in the order
   * of their answers. Transactions that are `durable` or `pending` exist (the latter may yet be
   * lost), and this session remembers them. The `lost` and `broken` ones are gone. A transaction
   * that a later `durable` one stands for is not listed by itself.
   * Errors: `invalid_token`, where it is none of a session; those of `hw.verdicts`.
   *
   * @param token What `Session.token` was.
   */
  async resume(token: string, options: ResumeOptions = {}): Promise<(TokenVerdict | RefusedToken)[]> {
    const [prefix, ...tokens] = token.split(".");
    if (prefix !== TOKEN_PREFIX)
      throw failure("invalid_token", "the text is no session token: pass what `session.token` was");
    const entries = tokens.map((each) => this.#hw.promise(each).entry);
    const verdicts = await this.#hw.verdicts(tokens, options);
    for (const [at, verdict] of verdicts.entries()) {
      const entry = entries[at];
      if (entry && /durable|pending/.test(verdict.verdict)) this.#add(entry);
    }
    return verdicts;
  }

  #add(entry: PendingPromise): void {
    this.#entries.set(entry.token, entry);
    const { logPosition } = this.#latest ?? entry;
    if (logPosition.epoch !== entry.logPosition.epoch || logPosition.offset <= entry.logPosition.offset)
      this.#latest = entry;
    if (this.#entries.size <= this.#rememberedMax) return;
    this.#compact();
    // What is left may be pending for long: not every further one is a reason to look through all of them.
    this.#rememberedMax = Math.max(REMEMBERED_MAX, 2 * this.#entries.size);
  }

  #compact(): void {
    const furthest = new Map<string, PendingPromise>();
    const { watcher, level } = this.#core;
    for (const entry of this.#entries.values()) {
      if (watcher.pendingSet.known(entry, level)?.verdict !== "durable") continue;
      const { epoch, offset } = entry.logPosition;
      const other = furthest.get(epoch) ?? entry;
      const [near, far] = offset > other.logPosition.offset ? [other, entry] : [entry, other];
      if (near !== far) this.#entries.delete(near.token);
      furthest.set(epoch, far);
    }
  }
}
