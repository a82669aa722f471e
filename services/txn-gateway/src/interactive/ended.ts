// What is remembered of interactive transactions that have ended: how, and the calls that may yet
// be repeated.
import {
  HighwaterError,
  type OwnedId,
  ownedName,
  type StatementResult,
  type TxnId,
} from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";

export interface End {
  /**
   * `unknown`: its COMMIT was sent, and the answer did not come; only its receipt shows the
   * outcome.
   */
  readonly how: "committed" | "rolled_back" | "expired" | "aborted" | "unknown";
  readonly detail: string;
  readonly limit?: { readonly name: string; readonly value: number } | undefined;
}

interface Ended<T> {
  readonly entry: T;
  readonly end: End;
  readonly atMs: number;
  readonly bytes: number;
}

/** For a client that comes back late. Still later calls are answered by the receipt. */
const KEEP_MS = 5 * 60_000;
/**
 * The oldest go first when there are more, or when the answers that are kept with them have become
 * too large.
 */
const KEPT_MAX = 20_000;
const KEPT_BYTES_MAX = 64 * 1_048_576;
/** What an entry costs besides the text in it. */
const ENTRY_BYTES = 1_024;
const CELL_BYTES = 16;

export class EndedTransactions<T> {
  readonly #clock: Clock;
  /** By `ownedName`. */
  readonly #ended = new Map<string, Ended<T>>();
  #bytes = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#ended.size;
  }

  /** `results`: those of the answer that is kept. */
  add(of: OwnedId, entry: T, end: End, results: readonly StatementResult[]): void {
    const name = ownedName(of);
    const nowMs = this.#clock.monotonicMs();
    const bytes = bytesOf(results);
    this.#delete(name);
    this.#ended.set(name, { entry, end, atMs: nowMs, bytes });
    this.#bytes += bytes;
    for (const [oldest, { atMs }] of this.#ended) {
      const isFull = this.#ended.size > KEPT_MAX || this.#bytes > KEPT_BYTES_MAX;
      if (nowMs - atMs < KEEP_MS && !isFull) break;
      this.#delete(oldest);
    }
  }

  /** Some owner's is remembered under the id. */
  isKnown(id: TxnId): boolean {
    return [...this.#ended.keys()].some((name) => name.startsWith(id));
  }

  get(of: OwnedId): { readonly entry: T; readonly end: End } | undefined {
    const ended = this.#ended.get(ownedName(of));
    return ended !== undefined && this.#clock.monotonicMs() - ended.atMs < KEEP_MS ? ended : undefined;
  }

  #delete(name: string): void {
    const ended = this.#ended.get(name);
    if (ended === undefined) return;
    this.#bytes -= ended.bytes;
    this.#ended.delete(name);
  }
}

function bytesOf(results: readonly StatementResult[]): number {
  let bytes = ENTRY_BYTES;
  for (const { rows } of results)
    for (const row of rows) for (const value of row) bytes += CELL_BYTES + 2 * (value?.length ?? 0);
  return bytes;
}

/** The answer to a call to a transaction that has ended, if it does not repeat the last one. */
export function endedError(id: TxnId, { how, detail, limit }: End): HighwaterError {
  const about = { detail, limit, transactionId: id, open: false };
  switch (how) {
    case "expired":
      return new HighwaterError("transaction_expired", about);
    case "aborted":
      return new HighwaterError("transaction_aborted", about);
    case "rolled_back":
      return new HighwaterError("out_of_sequence", about);
    case "committed":
      return new HighwaterError("out_of_sequence", { ...about, outcome: "applied" });
    case "unknown":
      return new HighwaterError("commit_unconfirmed", about);
  }
}
