// A transaction that has committed: its results and its promise.
import { decodeResult, type Row, type StatementResult } from "./decode.ts";
import { HighwaterError } from "./errors.ts";
import { type Entry } from "./book.ts";
import { DurabilityPromise } from "./promise.ts";
import { type StatementInput, toStatement } from "./sql.ts";
import {
  LIMITS,
  type Isolation,
  type TransactionRequest,
  type TransactionResponse,
  type TransactionState,
} from "./wire.ts";
import { type Watcher } from "./watcher.ts";

export interface TransactionOptions {
  /** When to answer: at the commit point (`commit`, the default) or when durable at the level (`durable`). */
  readonly ack?: "commit" | "durable";
  /** The level that this transaction is about, also for `durable()` and `onLost()` afterwards. */
  readonly level?: string;
  /**
   * For `ack: "durable"`: how long the service waits before it answers `pending`, which is not a loss. Unless given,
   * half of the client's request timeout; never more than a minute, nor than the call may take.
   */
  readonly maxWaitMs?: number;
  readonly isolation?: Isolation;
  readonly readOnly?: boolean;
  /** Comes back in webhooks about this transaction. */
  readonly metadata?: Readonly<Record<string, string>>;
  /** A UUIDv7, to continue an earlier attempt whose outcome is unknown. A new one unless given. */
  readonly id?: string;
  /** Gives up on the answer, not on the transaction: it may still commit. */
  readonly signal?: AbortSignal;
  /** Milliseconds for all attempts together; the client's total timeout unless given. */
  readonly timeout?: number;
}

/** A committed transaction. */
export class Transaction extends DurabilityPromise {
  /** By statement. Null when the answer was `replayed`: results are not kept. */
  readonly results: readonly StatementResult[] | null;
  /** The id had been run before, by an attempt whose answer was lost; this is that attempt's outcome. */
  readonly replayed: boolean;
  /** A tracker had this transaction on disk when the answer came. */
  readonly announced: boolean;
  readonly #answered: TransactionState;

  /** @internal */
  constructor(watcher: Watcher, entry: Entry, options: { response: TransactionResponse; level: string }) {
    const { response, level } = options;
    super(watcher, entry, { position: response.position, level });
    this.results = response.results?.map(decodeResult) ?? null;
    this.replayed = response.replayed === true;
    this.announced = response.announced;
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
      throw new HighwaterError("the answer is a replay, and results are not kept; read the rows again", {
        ...{ code: "results_not_kept", outcome: "applied", retry: "never", transactionId: this.id },
      });
    return this.results.at(-1)?.rows ?? [];
  }
}

/** The request as the wire carries it. The same bytes go out with every attempt. */
export function buildRequest(
  statements: readonly StatementInput[],
  options: TransactionOptions & { id: string; level: string; waitMs: number; totalMs: number },
): TransactionRequest {
  const { id, isolation, readOnly, ack, metadata } = options;
  // Leaves a quarter of the time, at most a second, for the answer to travel in.
  const waitLimitMs = Math.min(LIMITS.waitMs, options.totalMs - Math.min(1_000, options.totalMs / 4));
  const maxWaitMs = Math.max(0, Math.floor(Math.min(options.maxWaitMs ?? options.waitMs, waitLimitMs)));
  return {
    id,
    statements: statements.map(toStatement),
    ...(isolation === undefined ? {} : { isolation }),
    ...(readOnly === undefined ? {} : { readOnly }),
    ...(ack === undefined ? {} : { ack }),
    ...(ack === "durable" ? { level: options.level, maxWaitMs } : {}),
    ...(metadata === undefined ? {} : { metadata: { ...metadata } }),
  };
}
