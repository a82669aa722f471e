// Pages of one owner are read one after the other: all pages and the live events share a
// connection, and one owner's must not keep those of others waiting.
import { HighwaterError } from "@highwater/protocol";
import { NOBODY } from "@highwater/service";

/** Under way and waiting. */
const PAGES_MAX = 16;
const RETRY_MS = 1_000;

interface Turns {
  last: Promise<unknown>;
  count: number;
}

export class PageTurns {
  readonly #owners = new Map<bigint, Turns>();

  /**
   * Null: a service, which reads the events of every owner and has no turns.
   * Errors: `concurrency_limited`; those of `read`.
   */
  async take<T>(owner: bigint | null, read: () => Promise<T>): Promise<T> {
    if (owner === null || owner === NOBODY) return read();
    const turns = this.#owners.get(owner) ?? { last: Promise.resolve(), count: 0 };
    if (turns.count >= PAGES_MAX)
      throw new HighwaterError("concurrency_limited", {
        detail: `${String(PAGES_MAX)} pages of events of this owner are being read (eventPages); wait for one to end.`,
        limit: { name: "eventPages", value: PAGES_MAX },
        retryAfterMs: RETRY_MS,
      });
    this.#owners.set(owner, turns);
    turns.count++;
    const mine = turns.last.then(read);
    turns.last = mine.catch(() => undefined);
    try {
      return await mine;
    } finally {
      turns.count--;
      if (turns.count === 0) this.#owners.delete(owner);
    }
  }
}
