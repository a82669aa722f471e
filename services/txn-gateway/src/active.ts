// The ids whose transactions are under way here: one id never runs twice at a time on one gateway.
import { type TxnId } from "@highwater/protocol";

interface Entry {
  readonly ended: Promise<void>;
  readonly end: () => void;
}

export class ActiveTransactions {
  readonly #entries = new Map<TxnId, Entry>();

  get size(): number {
    return this.#entries.size;
  }

  /** The function that ends it, or null when the id is under way already. */
  begin(id: TxnId): (() => void) | null {
    if (this.#entries.has(id)) return null;
    let resolve = (): void => undefined;
    const ended = new Promise<void>((done) => {
      resolve = done;
    });
    const end = (): void => {
      if (this.#entries.delete(id)) resolve();
    };
    this.#entries.set(id, { ended, end });
    return end;
  }

  /** Resolves when the id is no longer under way; null when it is not. */
  ended(id: TxnId): Promise<void> | null {
    return this.#entries.get(id)?.ended ?? null;
  }
}
