// What is remembered of interactive transactions that have ended: how, and the calls that may yet be repeated.
import { HighwaterError, type TxnId } from "@highwater/protocol";
import { type Clock } from "@highwater/store";

export interface End {
  readonly how: "committed" | "rolled_back" | "expired" | "aborted";
  readonly detail: string;
  readonly limit?: { readonly name: string; readonly value: number } | undefined;
}

/** For a client that comes back late; docs/reference/http.md promises it. */
const KEEP_MS = 5 * 60_000;
/** The oldest go first when there are more. */
const KEPT_MAX = 20_000;

export class EndedTransactions<T> {
  readonly #clock: Clock;
  readonly #ended = new Map<TxnId, { readonly entry: T; readonly end: End; readonly atMs: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#ended.size;
  }

  add(id: TxnId, entry: T, end: End): void {
    const nowMs = this.#clock.monotonicMs();
    for (const [oldest, { atMs }] of this.#ended) {
      if (nowMs - atMs < KEEP_MS && this.#ended.size < KEPT_MAX) break;
      this.#ended.delete(oldest);
    }
    this.#ended.delete(id);
    this.#ended.set(id, { entry, end, atMs: nowMs });
  }

  get(id: TxnId): { readonly entry: T; readonly end: End } | undefined {
    const ended = this.#ended.get(id);
    return ended !== undefined && this.#clock.monotonicMs() - ended.atMs < KEEP_MS ? ended : undefined;
  }
}

/** What a call to a transaction is told that has ended, unless it repeats the last one. */
export function goneError(id: TxnId, { how, detail, limit }: End): HighwaterError {
  const about = { detail, limit, transactionId: id, open: false };
  if (how === "expired") return new HighwaterError("transaction_expired", about);
  if (how === "aborted") return new HighwaterError("transaction_aborted", about);
  return new HighwaterError("out_of_sequence", about);
}
