// The ids whose transactions are under way here: one id never runs twice at a time on one gateway, and none for ever.
import { type TxnId } from "@highwater/protocol";
import { type Clock } from "@highwater/store";

interface Entry {
  readonly owner: bigint;
  readonly ended: Promise<void>;
  readonly end: () => void;
}

interface Deadline {
  readonly atMs: number;
  readonly expire: () => void;
}

const SWEEP_MS = 500;

export class ActiveTransactions {
  readonly #clock: Clock;
  readonly #entries = new Map<TxnId, Entry>();
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

  /** The function that ends it, or null when the id is under way already. */
  begin(id: TxnId, owner: bigint): (() => void) | null {
    if (this.#entries.has(id)) return null;
    let resolve = (): void => undefined;
    const ended = new Promise<void>((done) => {
      resolve = done;
    });
    const end = (): void => {
      if (!this.#entries.delete(id)) return;
      const left = this.countOf(owner) - 1;
      if (left > 0) this.#owners.set(owner, left);
      else this.#owners.delete(owner);
      resolve();
    };
    this.#owners.set(owner, this.countOf(owner) + 1);
    this.#entries.set(id, { owner, ended, end });
    return end;
  }

  /** Resolves when the id is no longer under way; null when it is not, for this owner (null: for anybody). */
  ended(id: TxnId, owner: bigint | null): Promise<void> | null {
    const entry = this.#entries.get(id);
    return entry === undefined || (owner !== null && entry.owner !== owner) ? null : entry.ended;
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
