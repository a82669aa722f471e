// The transactions that run here, by owner and id. An id runs once at a time on a gateway, and not
// for ever.
import { HighwaterError, type OwnedId, ownedName, type TxnId } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { RETRY_MS } from "../retry.ts";

interface Entry {
  readonly ended: Promise<void>;
  readonly end: () => void;
}

interface Deadline {
  readonly atMs: number;
  readonly expire: () => void;
}

const SWEEP_MS = 500;

/** The refusal of an id that is under way here. */
export function idInUse(id: TxnId): HighwaterError {
  return new HighwaterError("transaction_in_progress", { transactionId: id, retryAfterMs: RETRY_MS.sameId });
}

export class ActiveTransactions {
  readonly #clock: Clock;
  /** By `ownedName`. */
  readonly #entries = new Map<string, Entry>();
  /** By owner; those of whom none is under way are not in it. */
  readonly #owners = new Map<bigint, number>();
  readonly #deadlines = new Set<Deadline>();
  #sweeping = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#entries.size;
  }

  countOf(owner: bigint): number {
    return this.#owners.get(owner) ?? 0;
  }

  /** The function that ends it, or null when it is under way already. */
  begin(of: OwnedId): (() => void) | null {
    const { owner } = of;
    const name = ownedName(of);
    if (this.#entries.has(name)) return null;
    let resolve = (): void => undefined;
    const ended = new Promise<void>((done) => {
      resolve = done;
    });
    const end = (): void => {
      if (!this.#entries.delete(name)) return;
      const left = this.countOf(owner) - 1;
      if (left > 0) this.#owners.set(owner, left);
      else this.#owners.delete(owner);
      resolve();
    };
    this.#owners.set(owner, this.countOf(owner) + 1);
    this.#entries.set(name, { ended, end });
    return end;
  }

  /** Resolves when it is no longer under way; null when it is not. */
  ended(of: OwnedId): Promise<void> | null {
    return this.#entries.get(ownedName(of))?.ended ?? null;
  }

  /** Calls `expire` about `limitMs` from now unless it is called off. One timer serves all. */
  limit(limitMs: number, expire: () => void): () => void {
    const deadline = { atMs: this.#clock.monotonicMs() + limitMs, expire };
    this.#deadlines.add(deadline);
    if (!this.#sweeping) this.#sweep();
    return () => {
      this.#deadlines.delete(deadline);
    };
  }

  #sweep(): void {
    const nowMs = this.#clock.monotonicMs();
    for (const deadline of this.#deadlines) {
      if (deadline.atMs > nowMs) continue;
      this.#deadlines.delete(deadline);
      deadline.expire();
    }
    this.#sweeping = this.#deadlines.size > 0;
    if (this.#sweeping)
      this.#clock.after(SWEEP_MS, () => {
        this.#sweep();
      });
  }
}
