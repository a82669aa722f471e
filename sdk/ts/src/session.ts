// A session remembers what one line of work has committed or read. One call waits for all of it,
// later reads of the session see it, and the next process can ask about it.
import { type PendingPromise } from "./pending-set.ts";
import { type Core } from "./core.ts";
import { type Row } from "./decode.ts";
import { failure, type HighwaterError } from "./errors.ts";
import { type DurabilityPromise, type DurableOptions } from "./promise.ts";
import { type LastRow, type ResultsOf, type RowOf, type StatementInput } from "./sql.ts";
import { type Transaction, type TransactionOptions } from "./transaction.ts";
import { type RefusedToken, type TokenVerdict } from "./wire.ts";

/** Options of `Highwater.session`. */
export interface SessionOptions {
  /**
   * Whether `readOnly` transactions see everything that the session has committed or read before;
   * the session then sets `after`. Default: false.
   */
  readonly causal?: boolean;
}

/** Options of `Session.resume`. */
export interface ResumeOptions {
  /** Level to judge at. Default: the client's. */
  readonly level?: string;
  /**
   * Time that the tracker may hold its answer while a verdict is pending, in milliseconds; at most
   * 60,000. Default: 0.
   */
  readonly waitMs?: number;
  /**
   * Time limit of the call, in milliseconds. Default: the client's `totalTimeoutMs` plus `waitMs`.
   */
  readonly timeoutMs?: number;
  /** Signal that ends the call. */
  readonly signal?: AbortSignal;
}

/** @internal The client as its sessions use it. */
interface SessionClient {
  transaction(
    statements: StatementInput | readonly StatementInput[],
    options: TransactionOptions,
  ): Promise<Transaction>;
  promise(token: string): DurabilityPromise;
  verdicts(tokens: readonly string[], options: ResumeOptions): Promise<(TokenVerdict | RefusedToken)[]>;
}

/**
 * How many promises a session remembers one by one. Beyond that, of the promises that are durable
 * at the client's level, it keeps only the furthest of each epoch, which stands for the others at
 * stronger levels.
 */
const REMEMBERED_MAX = 10_000;
const TOKEN_PREFIX = "hws1";

interface Remembered {
  readonly entry: PendingPromise;
  /**
   * Number of the transaction in the order in which the session's began; 0 if another session made
   * it.
   */
  readonly begun: number;
}

/** A session of one-shot transactions: the base of every session. */
export class OneShotSession {
  readonly #hw: SessionClient;
  readonly #core: Core;
  readonly #options: SessionOptions;
  /** Remembered promises by token. */
  readonly #entries = new Map<string, PendingPromise>();
  /** The furthest promise of the newest epoch: a read that sees it sees all before it. */
  #latest: Remembered | undefined;
  /** The furthest read with `reads: "durable"`: the next one does not show less. */
  #floor: Remembered | undefined;
  /** Number of the session's transactions so far. */
  #begun = 0;
  #rememberedMax = REMEMBERED_MAX;
  /** @internal */
  readonly remember = ({ entry }: DurabilityPromise): void => {
    this.#add({ entry, begun: ++this.#begun });
  };

  /** @internal */
  constructor(hw: SessionClient, core: Core, options: SessionOptions) {
    this.#hw = hw;
    this.#core = core;
    this.#options = options;
  }

  /** Like `hw.transaction`; the session remembers the transaction. */
  transaction<const S extends readonly StatementInput[]>(
    statements: S,
    options?: TransactionOptions,
  ): Promise<Transaction<LastRow<S>, ResultsOf<S>>>;
  transaction<R = Row>(
    statements: StatementInput<R> | readonly StatementInput[],
    options?: TransactionOptions,
  ): Promise<Transaction<RowOf<R>>>;
  async transaction(
    statements: StatementInput | readonly StatementInput[],
    options: TransactionOptions = {},
  ): Promise<Transaction> {
    const begun = ++this.#begun;
    const isDurable = options.reads === "durable";
    const isCausal = this.#options.causal && options.readOnly;
    const seen = isCausal ? this.#latest : isDurable ? this.#floor : undefined;
    return this.#hw.transaction(statements, {
      ...(seen && { after: seen.entry.token }),
      ...options,
      remember: ({ entry }) => {
        const added = { entry, begun };
        this.#add(added);
        if (isDurable) this.#floor = this.#furthest(added, this.#floor);
      },
    });
  }

  /**
   * Waits until everything that the session has committed or read so far is durable at the level.
   * Resolves at once if there is nothing to wait for. Does not wait for later commits.
   * Errors: those of `DurabilityPromise.durable`. The session then forgets a transaction that is
   * reported lost or broken, so the next call waits for the others.
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
   * Everything that the session remembers, as text for another process. It holds the token of every
   * transaction that is not known to be durable at the client's level. Of the durable ones it holds
   * the furthest of each epoch, so it stays short if work becomes durable as it goes. Store it
   * with, or before, the data that depends on it.
   */
  get token(): string {
    this.#compact();
    return [TOKEN_PREFIX, ...this.#entries.keys()].join(".");
  }

  /**
   * Takes over the session of a stored token and resolves with the verdict of each transaction in
   * it, in the order in which their commits were answered. `durable` and `pending` transactions
   * exist, and this session remembers them; a pending one may still be lost. `lost` and `broken`
   * transactions no longer exist. A transaction that a durable one stands for is not listed.
   * Errors: `invalid_token` if the text is not a session's token. Those of `hw.verdicts`.
   *
   * @param token Value of `Session.token`.
   */
  async resume(token: string, options: ResumeOptions = {}): Promise<(TokenVerdict | RefusedToken)[]> {
    const [prefix, ...tokens] = token.split(".");
    if (prefix !== TOKEN_PREFIX) throw failure("invalid_token", "pass the `token` of a session");
    const entries = tokens.map((each) => this.#hw.promise(each).entry);
    const verdicts = await this.#hw.verdicts(tokens, options);
    for (const [at, verdict] of verdicts.entries()) {
      const entry = entries[at];
      if (entry && /durable|pending/.test(verdict.verdict)) this.#add({ entry, begun: 0 });
    }
    return verdicts;
  }

  #add(added: Remembered): void {
    const { entry } = added;
    this.#entries.set(entry.token, entry);
    this.#latest = this.#furthest(added, this.#latest);
    if (this.#entries.size <= this.#rememberedMax) return;
    this.#compact();
    // The remaining promises may be pending for long: do not go through all of them for each new
    // one.
    this.#rememberedMax = Math.max(REMEMBERED_MAX, 2 * this.#entries.size);
  }

  /**
   * The further of two promises. If the order of two epochs is not known, the transaction that
   * began later is likely to be in the later epoch.
   */
  #furthest(added: Remembered, known: Remembered | undefined): Remembered {
    if (!known) return added;
    const [own, other] = [added.entry.logPosition, known.entry.logPosition];
    const isBehind =
      own.epoch === other.epoch
        ? own.offset < other.offset
        : (this.#core.watcher.pendingSet.isOlder(own.epoch, other.epoch) ?? added.begun < known.begun);
    return isBehind ? known : added;
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
