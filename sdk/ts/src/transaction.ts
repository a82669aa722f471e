// A transaction that has committed: its results and its promise. And the options of those that are to run.
import { type Row, type StatementResult } from "./decode.ts";
import { failure } from "./errors.ts";
import { type PendingPromise } from "./pending-set.ts";
import { DurabilityPromise } from "./promise.ts";
import { type Shared } from "./shared.ts";
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
  WAIT_MS_MAX,
} from "./wire.ts";

/** How long a call may take. */
export interface CallOptions {
  /** Milliseconds for all attempts together. Default: the client's `totalTimeoutMs`. */
  readonly timeout?: number;
  /** Gives up on the answer, not on the transaction: a commit may still take effect. The call rejects with its reason. */
  readonly signal?: AbortSignal;
}

/** How a transaction runs. */
export interface ExecutionOptions {
  /** Default: `serializable`, or `repeatable read` for a read that may run on a replica. */
  readonly isolation?: Isolation;
  /**
   * The transaction changes nothing, and the database holds it to that. Needed for `after` and
   * `mode`. Default: false.
   */
  readonly readOnly?: boolean;
  /** With `readOnly` and `serializable`: waits for a snapshot that no later transaction makes unsafe. */
  readonly deferrable?: boolean;
  /**
   * The trackers send an event `transaction.delayed` if it is not durable at its level after so
   * many milliseconds.
   */
  readonly maxDelayMs?: number;
  /** Comes back in webhooks and events about this transaction, and in errors of waits for it. */
  readonly metadata?: Readonly<Record<string, string>>;
}

/** When a commit is answered. */
export interface AckOptions {
  /** When to answer: at the commit point (`commit`, the default) or when durable at the level (`durable`). */
  readonly ack?: "commit" | "durable";
  /** The level that this transaction is about, also for `durable()` and `onLost()` afterwards. */
  readonly level?: string;
  /**
   * For `ack: "durable"`: how many milliseconds the service waits before it answers `pending`,
   * which is not a loss. Never more than a minute, nor than the call may take. Default: half of the
   * client's `requestTimeoutMs`.
   */
  readonly maxWaitMs?: number;
  /**
   * The trackers send an event `transaction.delayed` if it is not durable at its level after so
   * many milliseconds.
   */
  readonly maxDelayMs?: number;
}

export type Remember = (transaction: Transaction) => void;

/** Of a one-shot transaction. */
export interface TransactionOptions extends CallOptions, ExecutionOptions, AckOptions {
  /** A UUIDv7, to continue an earlier attempt whose outcome is unknown. Default: a new one. */
  readonly id?: string;
  /** With `readOnly`: a token, or a transaction, whose effects the read must see. */
  readonly after?: string | { readonly token: string };
  /** With `readOnly`: `local` may read from a replica near the gateway, `primary` never does. `local` with `after`. */
  readonly mode?: "primary" | "local";
  /** @internal Gets the commit. */
  readonly remember?: Remember | undefined;
}

/** @internal What it has of the client. */
interface TransactionCore extends Pick<Shared, "decode"> {
  readonly watcher: Watcher;
}

/**
 * A committed transaction: its results, and its promise. Made by `Highwater.transaction` and by the `commit` of an interactive one.
 */
export class Transaction extends DurabilityPromise {
  /** By statement. Null when the answer was `replayed`: results are not kept. */
  readonly results: readonly StatementResult[] | null;
  /** The id had been run before, by an attempt whose answer was lost; this is that attempt's outcome. */
  readonly replayed: boolean;
  /** A tracker had this transaction on disk when the answer came. */
  readonly announced: boolean;
  /** Of a read with `after` or `mode`: which node served it, and how far that may be behind the primary. */
  readonly served: Served | undefined;
  readonly #answered: TransactionState;

  /** @internal */
  constructor(
    { watcher, decode }: TransactionCore,
    entry: PendingPromise,
    response: TransactionResponse,
    level: string,
  ) {
    super(watcher, entry, response.position, level);
    this.results = response.results?.map(decode) ?? null;
    this.replayed = response.replayed === true;
    this.announced = response.announced;
    this.served = response.served;
    this.#answered = response.state;
  }

  /** `committed` or `pending` at first, then what is known at the transaction's level: `durable`, `lost`, ... */
  get state(): TransactionState {
    return this.verdict()?.verdict ?? this.#answered;
  }

  /**
   * Rows of the last statement, decoded.
   * Errors: `results_not_kept` after a replay, for an empty list would be a wrong answer.
   */
  get rows(): readonly Row[] {
    if (this.results === null)
      throw failure("results_not_kept", "results of a replay are not kept: read the rows again", {
        transactionId: this.id,
      });
    return this.results.at(-1)?.rows ?? [];
  }
}

/** @internal What a request takes over from options; what was not given does not go out, for JSON has no `undefined`. */
export function executionFields(options: ExecutionOptions): Omit<BeginRequest, "id" | "statements"> {
  const { isolation, readOnly, deferrable, maxDelayMs, metadata } = options;
  return { isolation, readOnly, deferrable, maxDelayMs, metadata } as Omit<BeginRequest, "id">;
}

/** @internal The client's own times and level, for what the user did not give. */
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
  // Leaves a quarter of the time, at most a second, for the answer to travel in.
  const limitMs = Math.min(WAIT_MS_MAX, totalMs - Math.min(1_000, totalMs / 4));
  const maxWaitMs = Math.max(0, Math.floor(Math.min(wantedMs ?? attemptMs / 2, limitMs)));
  return { ack, level, maxWaitMs, maxDelayMs } as Omit<CommitRequest, "seq">;
}

/** @internal The request as the wire carries it. The same bytes go out with every attempt. */
export function buildRequest(
  statements: readonly StatementInput[],
  options: TransactionOptions & AckLimits & { id: string },
): TransactionRequest {
  const { id, after, mode } = options;
  return {
    ...{ id, statements: statements.map(toStatement) },
    ...executionFields(options),
    ...acknowledgement(options, options),
    ...{ after: typeof after === "object" ? after.token : after, mode },
  } as TransactionRequest;
}
