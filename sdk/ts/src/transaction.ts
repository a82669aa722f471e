// A committed transaction with its results and its promise, and the options of transactions. Owns
// what `ack: "durable"` means for all calls that commit.
import { type Decoder, type Row, type StatementResult } from "./decode.ts";
import { failure } from "./errors.ts";
import { type PendingPromise } from "./pending-set.ts";
import { DurabilityPromise, type DurableOptions } from "./promise.ts";
import { monotonicMs } from "./runtime.ts";
import { type StatementInput, toStatement } from "./sql.ts";
import { type Watcher } from "./watcher.ts";
import {
  type BeginRequest,
  type CommitRequest,
  type Isolation,
  type Served,
  type TransactionRequest,
  type TransactionResponse,
  type TransactionState,
  type ValueAtRisk,
  WAIT_MS_MAX,
} from "./wire.ts";

/** Time limit and cancellation of a call. */
export interface CallOptions {
  /**
   * Time limit of all attempts together, in milliseconds. Default: the client's `totalTimeoutMs`.
   */
  readonly timeoutMs?: number;
  /**
   * Signal that ends the call with an `AbortError`, whose `cause` is the signal's reason. It ends
   * the wait for the answer, not the transaction: a commit may still take effect.
   */
  readonly signal?: AbortSignal;
}

/** Execution options of a transaction. */
export interface ExecutionOptions {
  /**
   * Isolation level. Default: `serializable`; `repeatable read` if a replica may serve the read.
   */
  readonly isolation?: Isolation;
  /** Read-only; the database enforces it. Required for `after` and `mode`. Default: false. */
  readonly readOnly?: boolean;
  /**
   * With `readOnly` and `serializable`: wait for a snapshot that no later transaction makes unsafe.
   */
  readonly deferrable?: boolean;
  /**
   * Milliseconds after which trackers send `transaction.delayed` if it is not durable at its level.
   */
  readonly maxDelayMs?: number;
  /** Metadata that webhooks and events about the transaction carry, and errors of waits for it. */
  readonly metadata?: Readonly<Record<string, string>>;
  /**
   * Whether trackers keep the contents, so that they can be read if the transaction is lost.
   * Default: the gateway's setting.
   */
  readonly keep?: boolean;
  /**
   * `replay`: if a failover loses the transaction, the service brings it back before it admits
   * writes. Never run it again yourself. Implies `keep`, and has no effect with `ack: "durable"`.
   */
  readonly onLost?: "replay";
  /**
   * What the application loses if a failure discards the transaction after its commit was answered:
   * an exact decimal as text, and its unit. It counts toward the service's limits of the unit until
   * it is durable. With `ack: "durable"` nothing is at risk.
   */
  readonly atRisk?: ValueAtRisk;
}

/** When a commit resolves, and at which level. */
export interface AckOptions {
  /**
   * When the call resolves: at the commit point (`commit`, the default), or once the transaction is
   * `durable` at the level. If it does not become durable in time, the call rejects with a
   * `DurabilityTimeoutError`, which has the token. The transaction has committed then, and is not
   * lost.
   */
  readonly ack?: "commit" | "durable";
  /** Level of the transaction, also for its `durable()` and `onLost()`. Default: the client's. */
  readonly level?: string;
  /**
   * With `ack: "durable"`: how long to wait after the commit, in milliseconds; at most a minute,
   * and never longer than the call may take. Default: as long as the call may take; with
   * `onTimeout: "pending"` half of the client's `requestTimeoutMs`.
   */
  readonly maxWaitMs?: number;
  /**
   * With `ack: "durable"`: what ends a wait without durability. `error` rejects with a
   * `DurabilityTimeoutError`; `pending` resolves, and the transaction's `state` is `pending`.
   * Default: `error`.
   */
  readonly onTimeout?: "error" | "pending";
  /**
   * Milliseconds after which trackers send `transaction.delayed` if it is not durable at its level.
   */
  readonly maxDelayMs?: number;
}

export type Remember = (transaction: DurabilityPromise) => void;

/** Options of a one-shot transaction. */
export interface TransactionOptions extends CallOptions, ExecutionOptions, AckOptions {
  /** A UUIDv7. An earlier id continues an attempt whose outcome is unknown. Default: a new one. */
  readonly id?: string;
  /** With `readOnly`: token, or transaction, whose effects the read must see. */
  readonly after?: string | { readonly token: string };
  /**
   * With `readOnly`: `local` may read from a replica near the gateway; `primary` never does.
   * Default: `local` if `after` or `reads: "durable"` is set, otherwise `primary`.
   */
  readonly mode?: "primary" | "local";
  /**
   * With `readOnly`: `durable` resolves only with rows that a failure covered by the level cannot
   * take back, from a replica near the gateway if one can serve them. It waits as `ack: "durable"`
   * does. Reads of one session with it never go back. `served.ageMs` is the age of the state.
   * Default: `committed`, which resolves as `ack` says.
   */
  readonly reads?: "committed" | "durable";
  /**
   * Maximum number of runs: after a conflict, the statements run again under the same id. Nothing
   * was read here in between, so the same statements are still right. Default: 10.
   */
  readonly maxAttempts?: number;
  /** @internal Called with the committed transaction. */
  readonly remember?: Remember | undefined;
}

/** @internal The parts of the client that a transaction uses. */
interface TransactionCore {
  readonly decode: Decoder;
  readonly watcher: Watcher;
}

/**
 * A committed transaction with its results and its promise. `Highwater.transaction` and `commit` of
 * an interactive transaction return one. `R` is the type of the last statement's rows.
 */
export class Transaction<R = Row, S = readonly StatementResult[]> extends DurabilityPromise {
  /**
   * One result per statement. Null if the answer is `replayed`: the service does not keep results.
   */
  declare readonly results: S | null;
  /** Whether the outcome is that of an earlier attempt of this id, whose answer was lost. */
  declare readonly replayed: boolean;
  /** Whether a tracker had this transaction on disk when the answer came. */
  declare readonly announced: boolean;
  /**
   * Whether a tracker had the contents on disk when the answer came. Undefined if they were not to
   * be kept, or after a replay.
   */
  declare readonly kept: boolean | undefined;
  /**
   * The strongest level at which it was durable when the answer came; null: none yet. A key's
   * minimum level can raise it above what was asked for.
   */
  declare readonly achieved: string | null | undefined;
  /**
   * For a read with `after`, `mode` or `reads`: its node, and how far that may be behind the
   * primary.
   */
  declare readonly served: Served | undefined;
  readonly #answered: TransactionState;

  /** @internal */
  constructor(
    { watcher, decode }: TransactionCore,
    entry: PendingPromise,
    response: TransactionResponse,
    level: string,
  ) {
    super(watcher, entry, response.position, level);
    this.results = (response.results?.map(decode) as S | undefined) ?? null;
    this.replayed = response.replayed === true;
    this.announced = response.announced;
    this.kept = response.kept;
    this.served = response.served;
    this.achieved = response.achieved;
    this.#answered = response.state;
  }

  /** `committed` or `pending` at first, then the verdict at its level: `durable`, `lost`, ... */
  get state(): TransactionState {
    return this.verdict()?.verdict ?? this.#answered;
  }

  /**
   * Decoded rows of the last statement.
   * Errors: `results_not_kept` after a replay, because an empty list would be wrong.
   */
  get rows(): readonly R[] {
    const results = this.results as readonly StatementResult<R>[] | null;
    if (results === null)
      throw failure("results_not_kept", "a replay has no rows: read again", {
        transactionId: this.id,
      });
    return results.at(-1)?.rows ?? [];
  }
}

/**
 * @internal The request fields of the execution options. JSON has no `undefined`, so unset options
 * are not sent.
 */
export function executionFields(options: ExecutionOptions): Omit<BeginRequest, "id" | "statements"> {
  const { isolation, readOnly, deferrable, maxDelayMs, metadata, keep, onLost, atRisk } = options;
  const fields = { isolation, readOnly, deferrable, maxDelayMs, metadata, keep, onLost, atRisk };
  return fields as Omit<BeginRequest, "id">;
}

/**
 * @internal Waits for durability as the options say, and returns the transaction: the service may
 * have stopped waiting before.
 */
export async function acknowledged<T extends DurabilityPromise>(
  transaction: T,
  { ack, onTimeout, maxWaitMs, signal }: AckOptions & Pick<CallOptions, "signal">,
  untilMs: number,
): Promise<T> {
  // A wait with a time of its own is over when the service has answered.
  const timeoutMs = maxWaitMs === undefined ? untilMs - monotonicMs() : 0;
  if (ack === "durable" && onTimeout !== "pending")
    await transaction.durable({ timeoutMs, signal } as DurableOptions);
  return transaction;
}

/** @internal Times and level of the client, for options that the caller did not set. */
export interface AckLimits {
  readonly level: string;
  readonly attemptMs: number;
  readonly totalMs: number;
}

/** @internal */
export function acknowledgement(
  { ack, maxDelayMs, maxWaitMs: wantedMs }: AckOptions,
  { level, attemptMs, totalMs }: AckLimits,
): Omit<CommitRequest, "seq"> {
  if (ack !== "durable") return { ack, maxDelayMs } as Omit<CommitRequest, "seq">;
  // Leaves a quarter of the time, at most a second, for the answer to travel.
  const limitMs = Math.min(WAIT_MS_MAX, totalMs - Math.min(1_000, totalMs / 4));
  const maxWaitMs = Math.max(0, Math.floor(Math.min(wantedMs ?? attemptMs / 2, limitMs)));
  return { ack, level, maxWaitMs, maxDelayMs } as Omit<CommitRequest, "seq">;
}

/** @internal The request in wire format. Every attempt sends the same bytes. */
export function buildRequest(
  statements: readonly StatementInput[],
  options: TransactionOptions & AckLimits & { id: string },
): TransactionRequest {
  const { id, after, mode, reads } = options;
  return {
    id,
    statements: statements.map(toStatement),
    ...executionFields(options),
    ...acknowledgement(options, options),
    after: typeof after === "object" ? after.token : after,
    mode,
    reads,
  } as TransactionRequest;
}
